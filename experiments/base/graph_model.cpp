#include "experiments/base/graph_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "models/graph/graph_dimensions.hpp"
#include "models/import/importer.hpp"

namespace orrery::experiments {

using sim::Node;

namespace {

void name_dimensions(models::OpGraph& graph, const ImportParams& import, const sim::Origin& where,
                     sim::Faults& faults) {
  for (std::size_t i = 0; i < import.dimensions.size(); ++i) {
    const DimensionParams& dimension = import.dimensions[i];
    const sim::Origin place{where.file, fmt::format("{}/import/dimensions/{}", where.pointer, i)};
    try {
      graph = models::with_dimension(graph, models::Symbol(dimension.name), models::SymExpr::parse(dimension.is));
    } catch (const models::GraphError& error) {
      faults.add(place, error.what());
    } catch (const std::exception& error) {
      faults.add(place, fmt::format("'{}': {}", dimension.is, error.what()));
    }
  }
}

}  // namespace

std::optional<LoadedGraph> build_or_import(const std::optional<models::BuilderRegistry::Choice>& builder,
                                           const std::optional<ImportParams>& import, const sim::Origin& where,
                                           sim::Faults& faults) {
  LoadedGraph loaded;
  try {
    if (builder) {
      if (!builder->make) return std::nullopt;  // told already
      loaded.graph = builder->make()->build();
    } else if (import) {
      models::Imported imported = models::import_graph(import->path, import->format);
      loaded = {std::move(imported.graph), std::move(imported.unmapped), std::move(imported.notes), import->path};
      name_dimensions(loaded.graph, *import, where, faults);
    } else {
      return std::nullopt;
    }
  } catch (const sim::ConfigError& error) {
    for (const sim::Fault& fault : error.faults()) faults.add(fault.where, fault.message, fault.hint);
    return std::nullopt;
  }
  const std::vector<std::string> unsound = models::verify(loaded.graph);
  for (const std::string& fault : unsound) faults.add(where, fault);
  if (!unsound.empty()) return std::nullopt;
  return loaded;
}

Node read_passes(const Node& block, const policies::PassRegistry& registry, std::vector<ChosenPass>& passes,
                 sim::Faults& faults) {
  Node resolved = Node::object(), out = Node::object();
  const std::vector<std::string> known = registry.names();
  for (const char* key : {"order", "per_size"}) {
    Node order = Node::array();
    const Node* list = block.find(key);
    if (list != nullptr && !list->is_array())
      faults.add(list->origin(), "expected a list of passes, got " + list->shown());
    for (const Node& entry : list != nullptr && list->is_array() ? list->items() : std::vector<Node>{}) {
      if (!entry.is_string()) {
        faults.add(entry.origin(), "expected the name of a pass, got " + entry.shown());
        continue;
      }
      const std::string& name = entry.as_string();
      auto choice = registry.prepare(name, block.find(name), entry.origin(), faults);
      if (!choice.make) continue;
      order.push(Node::string(name));
      resolved.set(name, choice.params);
      passes.push_back({name, std::move(choice), std::string_view(key) == "per_size"});
    }
    out.set(key, std::move(order));
  }
  for (const auto& [key, value] : block.members()) {
    if (key == "order" || key == "per_size") continue;
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::vector<std::string> names = known;
      names.insert(names.end(), {"order", "per_size"});
      faults.add(value.origin(), "unknown key '" + key + "'", sim::name_hint(key, names));
    } else if (resolved.find(key) == nullptr) {
      (void)registry.prepare(key, &value, value.origin(), faults);
    }
  }
  for (const auto& [key, value] : resolved.members()) out.set(key, value);
  return out;
}

models::OpGraph run_pass(const ChosenPass& pass, const models::OpGraph& graph, const policies::PassContext& context,
                         const sim::Origin& where, policies::PassReport& report) {
  models::OpGraph next;
  try {
    next = pass.choice.make()->run(graph, context, report);
  } catch (const models::GraphError& error) {
    sim::throw_fault(where, fmt::format("pass '{}': {}", pass.name, error.what()));
  }
  const std::vector<std::string> faults = models::verify(next);
  if (!faults.empty())
    throw std::logic_error(fmt::format("pass '{}' left a graph that is wrong: {}", pass.name, faults.front()));
  return next;
}

Node passes_node(const std::vector<PassOutcome>& passes) {
  Node all = Node::object();
  for (const PassOutcome& pass : passes) {
    Node figures = Node::object();
    for (const auto& [name, value] : pass.report.figures) figures.set(name, Node::real(value));
    std::string name = pass.name;
    for (int time = 2; all.find(name) != nullptr; ++time) name = fmt::format("{}_{}", pass.name, time);
    all.set(name, std::move(figures));
  }
  return all;
}

policies::PassContext pass_context(const hw::Device& device, models::Bindings typical) {
  policies::PassContext context;
  context.cost = device.model.get();
  context.scratch_bytes = device.scratch_bytes;
  context.memory_bytes = device.memory_bytes;
  context.typical = std::move(typical);
  return context;
}

}  // namespace orrery::experiments
