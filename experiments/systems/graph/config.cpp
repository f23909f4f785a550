#include "experiments/systems/graph/config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/graph/source.hpp"

namespace orrery::experiments::graph {
namespace {

using sim::Node;

/// Builds or imports the graph; false if there is none. What was wrong with the section was reported before.
bool read_model(const Node& model, const ModelParams& params, GraphConfig& config, sim::Faults& faults) {
  if (!model.is_object()) return false;
  if ((model.find("builder") == nullptr) == (model.find("import") == nullptr)) {
    faults.add(model.origin(), "expected either a 'builder' or an 'import'");
    return false;
  }
  auto loaded = build_or_import(params.builder, params.import_, model.origin(), faults);
  if (!loaded) return false;
  config.model = std::move(loaded->graph);
  config.unmapped = std::move(loaded->unmapped);
  config.notes = std::move(loaded->notes);
  if (loaded->file) config.inputs.push_back(*loaded->file);
  return true;
}

/// Members of an object of sizes.
std::vector<std::pair<models::Symbol, const Node*>> named_sizes(const Node& node, const models::OpGraph& graph,
                                                                sim::Faults& faults) {
  std::vector<std::pair<models::Symbol, const Node*>> all;
  if (!node.is_object()) return all;
  std::vector<std::string> known;
  for (const models::Symbol symbol : graph.symbols()) known.push_back(symbol.name());
  for (const auto& [key, value] : node.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      faults.add(value.origin(), fmt::format("the graph has no dimension '{}'", key), sim::name_hint(key, known));
    else
      all.emplace_back(models::Symbol(key), &value);
  }
  return all;
}

/// Reads the sizes of dimensions, and leaves them as they resolve in `resolved`.
void read_sizes(const Node& workload, GraphConfig& config, WorkloadParams& resolved, sim::Faults& faults) {
  Node bind = Node::object(), vary = Node::object();
  for (const auto& [symbol, value] : named_sizes(config.workload.bind, config.model, faults)) {
    if (value->kind() != Node::Kind::integer || value->as_integer() < 0) {
      faults.add(value->origin(), "expected a size, an integer of at least 0, got " + value->shown());
      continue;
    }
    config.bind.set(symbol, value->as_integer());
    bind.set(symbol.name(), Node::integer(value->as_integer()));
  }
  for (const auto& [symbol, value] : named_sizes(config.workload.vary, config.model, faults)) {
    const std::size_t before = faults.size();
    const auto params = sim::parse_params<VaryParams>(*value, faults);
    if (faults.size() != before) continue;
    if (params.distribution == Spread::list && params.values.empty())
      faults.add(value->origin(), "expected 'values' for a list");
    if (params.distribution != Spread::list && params.distribution != Spread::fixed && params.high < params.low)
      faults.add(value->origin(), fmt::format("expected 'high' of at least {}, 'low'", params.low));
    config.vary.push_back({symbol, params});
    vary.set(symbol.name(), sim::write_params(params));
  }
  const std::string& grows = config.workload.max_batch.symbol;
  const std::vector<models::Symbol> symbols = config.model.symbols();
  const auto grown = [&](const models::Symbol& symbol) { return symbol.name() == grows; };
  if (config.workload.max_batch.enabled && std::ranges::none_of(symbols, grown))
    faults.add(place_of(section(workload, "max_batch"), "symbol"),
               fmt::format("the graph has no dimension '{}'", grows));
  for (const models::Symbol symbol : symbols) {
    const bool bound = config.workload.bind.find(symbol.name()) != nullptr;  // if to no size, that is told
    const bool given = bound ||
                       std::any_of(config.vary.begin(), config.vary.end(),
                                   [&](const Vary& entry) { return entry.symbol == symbol; }) ||
                       (config.workload.max_batch.enabled && grown(symbol));
    if (!given)
      faults.add(place_of(workload, "bind"), fmt::format("dimension '{}' of the graph has no size", symbol.name()),
                 fmt::format("\"bind\": {{\"{}\": …}}", symbol.name()));
  }
  resolved.bind = std::move(bind);
  resolved.vary = std::move(vary);
}

}  // namespace

GraphConfig read_graph_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  GraphConfig config;
  config.file = root.origin().file;
  auto params = read_sections<GraphParams>(root, registries, faults);
  config.run = params.run;
  config.workload = params.workload;
  check_tick(section(root, "run"), config.run.tick_s, faults);
  config.device = read_device(section(root, "machine"), params.machine, config.run.tick_s, config.inputs, faults);
  const bool has_model = read_model(section(root, "model"), params.model, config, faults);
  if (has_model) read_sizes(section(root, "workload"), config, params.workload, faults);
  const Node policies = section(root, "policies");
  if (policies.is_object())
    params.policies.passes =
        read_passes(section(policies, "passes"), registries.get<policies::PassRegistry>(), config.passes, faults);
  config.execution = params.policies.execution;
  if (faults.empty()) {
    try {
      (void)config.execution.make();  // a parameter that only the policy can judge
    } catch (const sim::ConfigError& error) {
      for (const sim::Fault& fault : error.faults())
        faults.add(place_of(policies, "execution"), fmt::format("{}: {}", fault.where.file, fault.message));
    }
  }
  config.planner = params.policies.memory;
  if (faults.empty()) config.resolved = resolved_config("graph", params);
  return config;
}

}  // namespace orrery::experiments::graph
