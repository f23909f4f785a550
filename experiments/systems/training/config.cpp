#include "experiments/systems/training/config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/named_part.hpp"
#include "experiments/systems/training/best_plan.hpp"

namespace orrery::experiments::training {
namespace {

using sim::Node;

void read_model(const Node& node, const ModelParams& params, TrainingConfig& config, sim::Faults& faults) {
  if (!node.is_object()) return;
  if ((node.find("builder") == nullptr) == (node.find("import") == nullptr)) {
    faults.add(node.origin(), "expected either a 'builder' or an 'import'");
    return;
  }
  auto loaded = build_or_import(params.builder, params.import_, node.origin(), faults);
  if (!loaded) return;
  if (loaded->file) config.inputs.push_back(*loaded->file);
  config.notes = std::move(loaded->notes);
  config.model.forward = std::move(loaded->graph);
  for (const models::Symbol symbol : config.model.forward.symbols())
    if (symbol.name() != "batch" && symbol.name() != "tokens") {
      faults.add(node.origin(),
                 fmt::format("expected a graph over 'batch' and 'tokens', it has dimension '{}' too", symbol.name()));
      return;
    }
  try {
    (void)one_layer(config.model.forward);
  } catch (const models::GraphError& error) {
    faults.add(node.origin(), error.what());
  }
}

/// Experts and choices of the model's router; without experts both are 0.
traces::RoutedModel routed_model(const models::OpGraph& forward) {
  traces::RoutedModel model{.name = forward.name};
  for (const models::OpId id : forward.ops()) {
    const models::OpNode& op = forward.op(id);
    if (op.kind != models::OpKind::router) continue;
    model.experts = forward.tensor(op.inputs.front()).shape.back().constant().value_or(0);
    model.top_k = forward.tensor(op.outputs.front()).shape.back().constant().value_or(0);
    ++model.layers;
  }
  return model;
}

void read_router(const Node& root, const sim::Node& policies, TrainingConfig& config, sim::Faults& faults) {
  TrainingParams& params = config.params;
  if (!params.workload.router) {
    if (params.policies.placement.name != "contiguous")
      faults.add(place_of(policies, "placement"),
                 "expected contiguous without workload.router, which says what experts are asked for");
    return;
  }
  const Node router = section(section(root, "workload"), "router");
  const traces::RoutedModel model = routed_model(config.model.forward);
  if (model.experts == 0)
    return faults.add(router.origin(), fmt::format("expected none beside {}, which has no experts", model.name));
  std::int64_t planned = 0;
  traces::RouterTrace trace =
      read_replayed_router(router, *params.workload.router, model, params.run.seed, planned, faults);
  if (!faults.empty()) return;
  if (params.workload.router->trace) config.inputs.emplace_back(*params.workload.router->trace);
  if (planned == 0 && params.policies.placement.name != "contiguous")
    return faults.add(place_of(policies, "placement"),
                      fmt::format("expected tokens to plan on, got none of the {} of workload.router", trace.tokens()),
                      "workload.router.planned");
  config.model.expert_load.emplace(std::move(trace), planned, params.policies.placement);
}

}  // namespace

TrainingConfig read_training_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults,
                                    bool unlike) {
  TrainingConfig config;
  config.file = root.origin().file;
  config.params = read_sections<TrainingParams>(root, registries, faults);
  TrainingParams& params = config.params;
  check_tick(section(root, "run"), params.run.tick_s, faults);
  const Node machine = section(root, "machine");
  if (machine.is_object() && faults.empty())
    config.machine = read_training_machine(machine, params.machine, config.inputs, faults, unlike);
  if (params.policies.offload.make) config.machine.offload = params.policies.offload.make();
  if (faults.empty()) read_model(section(root, "model"), params.model, config, faults);
  config.model.sequence = params.workload.sequence;
  const Node policies = section(root, "policies");
  if (policies.is_object()) {
    const Node passes = section(policies, "passes");
    config.model.passes_at = passes.origin();
    params.policies.passes = read_passes(passes, registries.get<policies::PassRegistry>(), config.model.passes, faults);
  }
  if (faults.empty()) read_router(root, policies, config, faults);
  if (faults.empty()) config.resolved = resolved_config("training", params);
  if (!config.machine.unlike.empty() && params.plan.best_by)
    faults.add(place_of(section(root, "plan"), "best_by"), "expected none: plans are searched over equal devices");
  if (faults.empty() && params.plan.best_by) take_best_plan(section(root, "plan"), registries, config, faults);
  return config;
}

}  // namespace orrery::experiments::training
