#include <algorithm>

#include "experiments/systems/training/iteration.hpp"

namespace orrery::experiments::training {
namespace {

/// Bytes in which a part's gradients are summed over the copies.
std::int64_t gradient_bytes(const PartCosts& part, const Plan& plan) {
  return plan.gradients_fp32 ? 4 * part.parameters : part.weight_bytes;
}

/// A copy's share of what the copies share out.
std::int64_t share_out(std::int64_t bytes, const Plan& plan) {
  return (bytes + plan.copies() - 1) / plan.copies();
}

/// Adds `count` layers' passes to a chunk, of which `again` run their forward pass again.
void add_layers(const PartCosts& layer, const Plan& plan, std::int64_t count, std::int64_t again,
                std::int64_t boundary_bytes, ChunkCosts& chunk) {
  const auto layers = static_cast<double>(count), repeated = static_cast<double>(again);
  chunk.layers += count;
  chunk.forward += layer.forward.times(layers);
  chunk.backward_input += layer.backward_input.times(layers);
  chunk.backward_weight += layer.backward_weight.times(layers);
  if (plan.recompute == Recompute::full) chunk.again += layer.forward.times(repeated);
  if (plan.recompute == Recompute::selective) chunk.again += layer.core.times(repeated);
  if (plan.recompute == Recompute::by_op) chunk.again += layer.by_op.times(repeated);
  if (plan.recompute == Recompute::full || plan.recompute == Recompute::by_op)
    chunk.backward_weight += layer.gathered_again.times(-repeated);
  std::int64_t left = layer.saved_bytes;
  if (plan.recompute == Recompute::full) left = boundary_bytes;
  if (plan.recompute == Recompute::by_op) left = boundary_bytes + layer.by_op_kept_bytes;
  if (plan.recompute == Recompute::selective) left = layer.saved_bytes - layer.core_saved_bytes;
  chunk.kept_bytes += (count - again) * layer.saved_bytes + again * left;
}

void add_edge(const PartCosts& edge, ChunkCosts& chunk) {
  chunk.forward += edge.forward;
  chunk.backward_input += edge.backward_input;
  chunk.backward_weight += edge.backward_weight;
  chunk.kept_bytes += edge.saved_bytes;
}

/// What the copies' shared weights and gradients add to a chunk's passes (ZeRO, FSDP): before a layer runs, its weights
/// are gathered, forward and backward; after it ran backward, its gradients are summed and each copy keeps a share.
void add_shared(const ModelCosts& model, const TrainingMachine& machine, const Plan& plan, const hw::RankGroup& copies,
                ChunkCosts& chunk) {
  if (plan.copies() < 2 || plan.zero < Zero::gradients) return;
  const auto gather = [&](const PartCosts& part) {
    if (plan.zero != Zero::weights) return hw::GroupCost{};
    return collective(machine, hw::LibraryCall::all_gather, copies, static_cast<double>(part.weight_bytes));
  };
  const auto scatter = [&](const PartCosts& part) {
    return collective(machine, hw::LibraryCall::reduce_scatter, copies,
                      static_cast<double>(gradient_bytes(part, plan)));
  };
  const auto add = [&](const PartCosts& part, double count) {
    const hw::GroupCost weights = gather(part), gradients = scatter(part);
    chunk.gathers_beside_s += count * weights.time_s;
    chunk.scatters_beside_s += count * gradients.time_s;
    chunk.shared_j += count * (2 * weights.energy_j + gradients.energy_j);  // gathered forward and backward
  };
  const PartCosts& layer = model.part(PartName::layer);
  add(layer, static_cast<double>(chunk.layers));
  for (const PartName edge : {PartName::embedding, PartName::head}) {
    if (edge == PartName::embedding ? !chunk.first : !chunk.last) continue;
    PartCosts part = model.part(edge);
    if (edge == PartName::head && chunk.first) part.weight_bytes -= model.shared_bytes;  // gathered once
    add(part, 1);
  }
  chunk.gathers_beside_s /= machine.in_situ.overlapped;
  chunk.scatters_beside_s /= machine.in_situ.overlapped;
  chunk.gathers_exposed_s = gather(layer).time_s;
  chunk.scatters_exposed_s = scatter(layer).time_s;
}

/// States in the host's memory come over the link for the step and go back, both ways at once and beside it.
void offload_states(const TrainingMachine& machine, double share, StageCosts& stage) {
  if (!machine.host_link || share <= 0) return;
  const auto bytes = static_cast<std::int64_t>(share * static_cast<double>(stage.state_bytes));
  stage.state_bytes -= bytes;
  stage.offloaded_bytes = bytes;
  const double there = hw::transfer_time(*machine.host_link, bytes),
               back = hw::transfer_time(*machine.host_link, bytes, 1, hw::LinkDirection::reverse);
  stage.optimizer_s = std::max({stage.optimizer_s, there, back});
  stage.network_j += 2 * hw::transfer_energy(*machine.host_link, bytes);
}

void add_states(const PartCosts& part, double count, StageCosts& stage) {
  stage.optimizer += part.optimizer.times(count);
  stage.parameters += part.parameters * static_cast<std::int64_t>(count);
  stage.weight_bytes += part.weight_bytes * static_cast<std::int64_t>(count);
  stage.state_bytes += part.state_bytes * static_cast<std::int64_t>(count);
}

}  // namespace

double ChunkCosts::forward_s() const {
  return std::max(forward.length_s(), gathers_beside_s) + gathers_exposed_s;
}

double ChunkCosts::backward_s() const {
  PassCost sum = again;
  sum += backward_input;
  sum += backward_weight;
  return std::max(sum.length_s(), gathers_beside_s + scatters_beside_s) + scatters_exposed_s;
}

double ChunkCosts::backward_input_s() const {
  PassCost sum = again;
  sum += backward_input;
  return std::max(sum.length_s(), gathers_beside_s);
}

double ChunkCosts::backward_weight_s() const {
  return std::max(backward_weight.length_s(), gathers_beside_s + scatters_beside_s) + scatters_exposed_s;
}

double ChunkCosts::collective_s() const {
  return forward.collective_s + again.collective_s + backward_input.collective_s + backward_weight.collective_s;
}

double ChunkCosts::recompute_s() const {
  return std::max(0.0, again.length_s() - again.collective_s);
}

double StageCosts::forward_s() const {
  double sum = 0;
  for (const ChunkCosts& chunk : chunks) sum += chunk.forward_s();
  return sum;
}

double StageCosts::backward_s() const {
  double sum = 0;
  for (const ChunkCosts& chunk : chunks) sum += chunk.backward_s();
  return sum;
}

StageCosts stage_costs(const ModelCosts& model, const TrainingMachine& machine, const Plan& plan, std::int64_t s,
                       std::int64_t layers) {
  StageCosts stage;
  const hw::RankGroup copies = rank_group(machine, plan.copies(), plan.tensor);
  std::int64_t left = layers;
  std::int64_t again = plan.again(s, layers);
  for (std::int64_t c = 0; c < plan.chunks; ++c) {
    ChunkCosts chunk;
    // What does not divide goes to the chunks that have no edge: the first stage's later ones, the others' earlier
    // ones.
    const std::int64_t chunks = plan.chunks - c;
    const std::int64_t count = s == 0 ? left / chunks : (left + chunks - 1) / chunks;
    const std::int64_t repeated = std::min(count, again);
    left -= count;
    again -= repeated;
    add_layers(model.part(PartName::layer), plan, count, repeated, model.boundary_bytes, chunk);
    chunk.first = s == 0 && c == 0;
    chunk.last = s == plan.head() && c == plan.chunks - 1;
    if (chunk.first) add_edge(model.part(PartName::embedding), chunk);
    if (chunk.last) add_edge(model.part(PartName::head), chunk);
    add_shared(model, machine, plan, copies, chunk);
    stage.chunks.push_back(chunk);
  }
  add_states(model.part(PartName::layer), static_cast<double>(layers), stage);
  if (s == 0) add_states(model.part(PartName::embedding), 1, stage);
  if (s == plan.head()) {
    add_states(model.part(PartName::head), 1, stage);
    if (s == 0) {  // one stage holds the table once
      stage.parameters -= model.shared_parameters;
      stage.weight_bytes -= model.shared_bytes;
      stage.state_bytes -= model.shared_state_bytes;
    }
  }
  stage.gradient_bytes = plan.gradients_fp32 ? 4 * stage.parameters : stage.weight_bytes;
  const double share = static_cast<double>(plan.copies());
  const auto send = [&](hw::LibraryCall call, const hw::RankGroup& group, std::int64_t bytes) {
    const hw::GroupCost cost = collective(machine, call, group, static_cast<double>(bytes));
    stage.network_j += cost.energy_j;
    return cost.time_s;
  };
  stage.optimizer_s = stage.optimizer.kernel_s;
  if (plan.zero == Zero::none) {
    stage.gradients_s = send(hw::LibraryCall::all_reduce, copies, stage.gradient_bytes);
  } else {
    if (plan.zero == Zero::optimizer)
      stage.gradients_s = send(hw::LibraryCall::reduce_scatter, copies, stage.gradient_bytes);
    if (plan.zero != Zero::weights) stage.gathers_s = send(hw::LibraryCall::all_gather, copies, stage.weight_bytes);
    stage.optimizer_s /= share;
    stage.optimizer.energy_j /= share;
    stage.state_bytes = share_out(stage.state_bytes, plan);
  }
  offload_states(machine, plan.offloaded(s), stage);
  if (plan.zero == Zero::gradients || plan.zero == Zero::weights)
    stage.gradient_bytes = share_out(stage.gradient_bytes, plan);
  if (plan.zero == Zero::weights) stage.weight_bytes = share_out(stage.weight_bytes, plan);
  if (plan.head() > 0 && (s == 0 || s == plan.head()))
    stage.shared_s =
        send(hw::LibraryCall::all_reduce, rank_group(machine, 2, plan.stage_ranks() * plan.head()), model.shared_bytes);
  return stage;
}

double stage_energy(const StageCosts& stage, std::int64_t micro_batches) {
  double joules = stage.optimizer.energy_j + stage.network_j;
  for (const ChunkCosts& chunk : stage.chunks)
    joules += static_cast<double>(micro_batches) *
              (chunk.forward.energy_j + chunk.again.energy_j + chunk.backward_input.energy_j +
               chunk.backward_weight.energy_j + chunk.shared_j);
  return joules;
}

void add_messages(const ModelCosts& model, const TrainingMachine& machine, const Plan& plan, StepCosts& step) {
  if (plan.pipeline < 2) return;
  const auto bytes = static_cast<double>(model.boundary_bytes);
  const hw::GroupCost next = message(machine, plan.stage_ranks(), bytes);
  step.activation_s = next.time_s;
  step.activation_j = next.energy_j;
  step.wrap_s = message(machine, plan.stage_ranks() * (plan.pipeline - 1), bytes).time_s;
}

StepCosts step_costs(CostTable& table, const TrainingMachine& machine, const Plan& plan,
                     const std::vector<std::int64_t>& layers) {
  StepCosts step;
  step.plan = plan;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const Plan own = plan.of_stage(s);
    step.stages.push_back(stage_costs(table.costs(own.share()), machine, own, s, layers[static_cast<std::size_t>(s)]));
  }
  add_messages(table.costs(plan.share()), machine, plan, step);
  return step;
}

}  // namespace orrery::experiments::training
