#include "experiments/systems/training/plan_score.hpp"

#include <algorithm>

#include "experiments/systems/training/offload.hpp"
#include "experiments/systems/training/stage_division.hpp"

namespace orrery::experiments::training {
namespace {

/// Of a rank's messages in a step: every micro-batch crosses from chunk to chunk, there and back.
double messages_j(const Plan& plan, const StageMessages& messages) {
  if (plan.pipeline < 2) return 0;
  const auto chunks = static_cast<double>(plan.chunks);
  return 2 * static_cast<double>(plan.micro_batches) *
         (chunks * messages.through(plan.pipeline).energy_j + (chunks - 1) * messages.wrap.energy_j);
}

/// What a rank of each stage keeps in its host's memory.
std::vector<std::int64_t> host_bytes(const Plan& plan, const std::vector<const StageCosts*>& stages) {
  std::vector<std::int64_t> all;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const StageCosts& stage = *stages[static_cast<std::size_t>(s)];
    all.push_back(stage.host_bytes(most_kept(stage, plan, s, &ChunkCosts::host_bytes)));
  }
  return all;
}

}  // namespace

ScoredPlan score(CostTable& table, const TrainingMachine& machine, const Plan& plan, std::int64_t layers) {
  const ModelCosts& model = table.costs(plan.share());
  // Stages that are neither first nor last are alike where they have as many layers: an even partition has two lengths.
  struct Kind {
    std::int64_t layers = 0;
    bool first = false, last = false;
    StageCosts costs;
    std::int64_t stages = 0;
  };
  ScoredPlan scored{.plan = plan, .available_bytes = machine.device.memory_bytes, .devices = plan.ranks()};
  std::vector<Kind> kinds;
  kinds.reserve(4);
  std::vector<std::uint8_t> kind_of(static_cast<std::size_t>(plan.pipeline));
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const std::int64_t count = even_layers(layers, plan.pipeline, s);
    const bool first = s == 0, last = s == plan.pipeline - 1;
    std::size_t k = 0;
    while (k < kinds.size() && !(kinds[k].layers == count && kinds[k].first == first && kinds[k].last == last)) ++k;
    if (k == kinds.size()) {
      kinds.push_back({count, first, last, stage_costs(model, machine, plan, s, count)});
      // The first of a kind runs ahead the farthest.
      const StageCosts& costs = kinds.back().costs;
      const StageMemory memory = stage_memory(model, costs, plan, most_kept(costs, plan, s));
      scored.memory_bytes = std::max(scored.memory_bytes, memory.total());
    }
    kind_of[static_cast<std::size_t>(s)] = static_cast<std::uint8_t>(k);
    ++kinds[k].stages;
  }
  std::vector<const StageCosts*> stages;
  stages.reserve(kind_of.size());
  for (const std::uint8_t kind : kind_of) stages.push_back(&kinds[kind].costs);
  if (plan.host_shares(0).any()) scored.host_bytes = fullest_host(plan, machine.node_devices, host_bytes(plan, stages));
  const StageMessages messages = stage_messages(model, machine, plan);
  scored.times = closed_form(plan, messages, stages);
  scored.closed_s = scored.times.time_s;
  scored.energy_j = messages_j(plan, messages);
  for (const Kind& kind : kinds)
    scored.energy_j += static_cast<double>(kind.stages) * stage_energy(kind.costs, plan.micro_batches);
  scored.energy_j *= static_cast<double>(plan.stage_ranks());
  scored.energy_j += machine.device.power.idle_w * scored.closed_s * static_cast<double>(scored.devices);
  return scored;
}

ScoredPlan score_stages(StageTables& tables, const Plan& plan, const std::vector<std::int64_t>& layers) {
  ScoredPlan scored{.plan = plan, .layers = layers, .devices = plan.ranks()};
  const StepCosts costs = tables.step(plan, layers);
  scored.times = closed_form(costs);
  scored.closed_s = scored.times.time_s;
  scored.energy_j = messages_j(plan, costs.messages) * static_cast<double>(plan.stage_ranks());
  std::vector<const StageCosts*> stages;
  double fullest = -1;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const StageCosts& stage = costs.stages[static_cast<std::size_t>(s)];
    const Plan own = plan.of_stage(s);
    const std::int64_t device = tables.machine(plan, s).device.memory_bytes;
    const std::int64_t memory =
        stage_memory(tables.table(plan, s).costs(own.share()), stage, own, most_kept(stage, own, s)).total();
    if (const double share = static_cast<double>(memory) / static_cast<double>(device); share > fullest) {
      fullest = share;
      scored.memory_bytes = memory;
      scored.available_bytes = device;
    }
    scored.energy_j += static_cast<double>(own.stage_ranks()) * stage_energy(stage, plan.micro_batches);
    stages.push_back(&stage);
  }
  scored.host_bytes = fullest_host(plan, tables.whole().node_devices, host_bytes(plan, stages));
  if (tables.alike())
    scored.energy_j += tables.whole().device.power.idle_w * scored.closed_s * static_cast<double>(scored.devices);
  else
    scored.energy_j += idle_j(tables.whole(), scored.closed_s);
  return scored;
}

}  // namespace orrery::experiments::training
