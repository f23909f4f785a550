#include "experiments/systems/graph/config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/graph/source.hpp"
#include "policies/plugin_host.hpp"

namespace orrery::experiments::graph {
namespace {

using sim::FieldInfo;
using sim::Node;

constexpr const char* kCostModel = "tiled";
constexpr const char* kExecution = "eager";
constexpr const char* kPlanner = "best_fit";

template <class R, void (*Fill)(R&)>
const R& filled(const char* kind) {
  static policies::PerPlugins<R> registry;
  return registry.get([kind] {
    R all(kind);
    Fill(all);
    return all;
  });
}

const hw::CostModelRegistry& cost_models() {
  return filled<hw::CostModelRegistry, hw::register_cost_models>("cost_model");
}
void register_all_builders(models::BuilderRegistry& registry) {
  models::register_builders(registry, home_folder() / "models/catalog");
}

const models::BuilderRegistry& builders() {
  return filled<models::BuilderRegistry, register_all_builders>("builder");
}
const policies::PassRegistry& passes() {
  return filled<policies::PassRegistry, policies::register_graph_passes>("pass");
}
const policies::ExecutionRegistry& executions() {
  return filled<policies::ExecutionRegistry, policies::register_execution_policies>("execution");
}
const policies::MemoryPlannerRegistry& planners() {
  return filled<policies::MemoryPlannerRegistry, policies::register_memory_planners>("memory_planner");
}

struct ImportParams {
  std::string path, format;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("path", &ImportParams::path, Unit::path, sim::any_value(), "The file.")),
        sim::field("format", &ImportParams::format, Unit::text, sim::any_value(),
                   "onnx, chakra, kineto, hf or json; empty: by the file's name."),
    };
  }
};

Node read_model(const Node& model, GraphConfig& config, sim::Faults& faults) {
  Node resolved = Node::object();
  const Node *builder = model.find("builder"), *import = model.find("import");
  for (const auto& [key, value] : model.members())
    if (key != "builder" && key != "import")
      faults.add(value.origin(), "unknown key '" + key + "'", sim::name_hint(key, {"builder", "import"}));
  if ((builder == nullptr) == (import == nullptr)) {
    faults.add(model.origin(), "expected either a 'builder' or an 'import'");
    return resolved;
  }
  const std::size_t before = faults.size();
  if (builder != nullptr) {
    const auto choice = builders().parse_block(*builder, "", faults);
    if (faults.size() != before || !choice.make) return resolved;
    config.model = choice.make()->build();
    resolved.set("builder", models::BuilderRegistry::write_block(choice));
  } else {
    const auto params = sim::parse_params<ImportParams>(*import, faults);
    if (faults.size() != before) return resolved;
    models::Imported imported = models::import_graph(params.path, params.format);
    config.model = std::move(imported.graph);
    config.unmapped = std::move(imported.unmapped);
    config.notes = std::move(imported.notes);
    config.inputs.emplace_back(params.path);
    resolved.set("import", sim::write_params(params));
  }
  for (const std::string& fault : models::verify(config.model)) faults.add(model.origin(), fault);
  return resolved;
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

void read_sizes(const Node& workload, GraphConfig& config, Node& resolved, sim::Faults& faults) {
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
  const models::Symbol grows(config.workload.max_batch.symbol);
  const std::vector<models::Symbol> symbols = config.model.symbols();
  if (config.workload.max_batch.enabled && std::find(symbols.begin(), symbols.end(), grows) == symbols.end())
    faults.add(place_of(section(workload, "max_batch"), "symbol"),
               fmt::format("the graph has no dimension '{}'", grows.name()));
  for (const models::Symbol symbol : symbols) {
    const bool bound = config.workload.bind.find(symbol.name()) != nullptr;  // if to no size, that is told
    const bool given = bound ||
                       std::any_of(config.vary.begin(), config.vary.end(),
                                   [&](const Vary& entry) { return entry.symbol == symbol; }) ||
                       (config.workload.max_batch.enabled && symbol == grows);
    if (!given)
      faults.add(place_of(workload, "bind"), fmt::format("dimension '{}' of the graph has no size", symbol.name()),
                 fmt::format("\"bind\": {{\"{}\": …}}", symbol.name()));
  }
  resolved.set("bind", std::move(bind));
  resolved.set("vary", std::move(vary));
}

/// The passes in their order; blocks of others are checked and not used.
Node read_passes(const Node& block, GraphConfig& config, sim::Faults& faults) {
  Node resolved = Node::object(), out = Node::object();
  const std::vector<std::string> known = passes().names();
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
      auto choice = passes().prepare(name, block.find(name), entry.origin(), faults);
      if (!choice.make) continue;
      order.push(Node::string(name));
      resolved.set(name, choice.params);
      config.passes.push_back({name, std::move(choice), std::string_view(key) == "per_size"});
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
      (void)passes().prepare(key, &value, value.origin(), faults);
    }
  }
  for (const auto& [key, value] : resolved.members()) out.set(key, value);
  return out;
}

Node read_policies(const Node& node, GraphConfig& config, sim::Faults& faults) {
  Node resolved = Node::object();
  for (const auto& [key, value] : node.members())
    if (key != "passes" && key != "execution" && key != "memory")
      faults.add(value.origin(), "unknown key '" + key + "'", sim::name_hint(key, {"passes", "execution", "memory"}));
  resolved.set("passes", read_passes(section(node, "passes"), config, faults));
  config.execution = executions().parse_block(section(node, "execution"), kExecution, faults);
  config.planner = planners().parse_block(section(node, "memory"), kPlanner, faults);
  resolved.set("execution", policies::ExecutionRegistry::write_block(config.execution));
  resolved.set("memory", policies::MemoryPlannerRegistry::write_block(config.planner));
  return resolved;
}

}  // namespace

const models::BuilderRegistry& graph_builders() {
  return builders();
}
const policies::PassRegistry& graph_passes() {
  return passes();
}
const hw::CostModelRegistry& graph_cost_models() {
  return cost_models();
}

GraphConfig read_graph_config(const Node& root, sim::Faults& faults) {
  GraphConfig config;
  config.file = root.origin().file;
  check_keys(root, graph_fields(), faults);
  const Node run = section(root, "run");
  config.run = sim::parse_params<RunParams>(run, faults);
  check_tick(run, config.run.tick_s, faults);
  const Node machine = section(root, "machine");
  const auto params = sim::parse_params<MachineParams>(machine, faults);
  hw::CostModelRegistry::Choice cost;
  if (machine.is_object()) cost = cost_models().parse_block(section(machine, "cost"), kCostModel, faults);
  config.device = read_device(machine, params, cost, config.run.tick_s, config.inputs, faults);
  const std::size_t before = faults.size();
  Node model = read_model(section(root, "model"), config, faults);
  const bool has_model = faults.size() == before;
  const Node workload = section(root, "workload");
  config.workload = sim::parse_params<WorkloadParams>(workload, faults);
  Node sizes = sim::write_params(config.workload);
  if (has_model) read_sizes(workload, config, sizes, faults);
  Node policies = read_policies(section(root, "policies"), config, faults);
  if (!faults.empty()) return config;
  config.resolved = resolved_header("graph");
  Node resolved_machine = sim::write_params(params);
  resolved_machine.set("cost", hw::CostModelRegistry::write_block(cost));
  config.resolved.set("machine", std::move(resolved_machine));
  config.resolved.set("model", std::move(model));
  config.resolved.set("workload", std::move(sizes));
  config.resolved.set("policies", std::move(policies));
  config.resolved.set("run", sim::write_params(config.run));
  return config;
}

std::vector<FieldInfo> graph_fields() {
  std::vector<FieldInfo> machine = sim::describe_params<MachineParams>();
  FieldInfo& cost = find_field(machine, "cost");
  cost = policy_field("cost", cost.doc, cost_models().components(), kCostModel);
  std::vector<FieldInfo> model{policy_field("builder", "Builds the graph.", builders().components(), nullptr),
                               object_field("import", "A file.", sim::describe_params<ImportParams>())};
  FieldInfo all_passes =
      policy_field("passes", "What rewrites the graph, in this order.", passes().components(), nullptr);
  all_passes.default_value = Node::array();
  std::vector<FieldInfo> chosen{
      std::move(all_passes),
      policy_field("execution", "How the graph gets onto the device.", executions().components(), kExecution),
      policy_field("memory", "Who places tensors.", planners().components(), kPlanner)};
  std::vector<FieldInfo> sections;
  sections.push_back(object_field("machine", "The device and its dispatching thread.", std::move(machine)));
  sections.back().required = true;
  sections.push_back(object_field("model", "The graph.", std::move(model)));
  sections.back().required = true;
  sections.push_back(object_field("workload", "Requests and their sizes.", sim::describe_params<WorkloadParams>()));
  sections.push_back(object_field("policies", "Passes, execution, memory.", std::move(chosen)));
  sections.push_back(object_field("run", "Seed, resolution of time.", sim::describe_params<RunParams>()));
  return sections;
}

}  // namespace orrery::experiments::graph
