#include <algorithm>
#include <optional>

#include "experiments/systems/training/offload.hpp"

namespace orrery::experiments::training {
namespace {

/// Bytes in which gradients are summed over the copies.
std::int64_t gradient_bytes(const HeldCosts& held, const Plan& plan) {
  return plan.gradients_fp32 ? 4 * held.parameters : held.weight_bytes;
}

/// A copy's share of what so many copies share out.
std::int64_t share_out(std::int64_t bytes, std::int64_t copies) {
  return (bytes + copies - 1) / copies;
}

/// Ranks that hold copies of a rank's parameters.
struct CopyGroups {
  hw::RankGroup dense, experts;
  const NodeNics *dense_nics = nullptr, *expert_nics = nullptr;  ///< that they use between nodes; none: the machine's
};

/// Those of stage `s`.
CopyGroups copy_groups(const TrainingMachine& machine, const Plan& plan, std::int64_t s) {
  const std::int64_t ranks = plan.stage_ranks(), first = s * ranks;
  return {rank_group(machine, plan.copies(), plan.tensor), rank_group(machine, plan.expert_copies(), plan.experts),
          group_nics(machine, first, ranks, plan.copies(), plan.tensor),
          group_nics(machine, first, ranks, plan.expert_copies(), plan.experts)};
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

/// What an exchange of rows adds to the kernels of another micro-batch, so many seconds, that it runs beside.
void hide_exchange(const TrainingMachine& machine, const Overlap& overlap, double kernels_s, double exchange_s,
                   PassCost& pass) {
  const double both = overlap.together_s({kernels_s, exchange_s / machine.in_situ.overlapped, 0, 0});
  pass.collective_s += both - kernels_s - exchange_s;
}

/// Each pass has one of another micro-batch beside it, which is about as long.
void overlap_exchanges(const TrainingMachine& machine, const Plan& plan, ChunkCosts& chunk) {
  if (!plan.overlap_experts || plan.micro_batches < 2) return;
  const Overlap beside = overlap(machine, rank_group(machine, plan.experts, 1));
  const auto alone = [](const PassCost& pass) { return pass.kernel_s + pass.collective_s - pass.exchange_s; };
  hide_exchange(machine, beside, alone(chunk.forward), chunk.forward.exchange_s, chunk.forward);
  // The backward pass runs as a whole; its exchanges are with what it runs again and with inputs' gradients.
  PassCost backward = chunk.again;
  backward += chunk.backward_input;
  backward += chunk.backward_weight;
  for (PassCost* pass : {&chunk.again, &chunk.backward_weight}) pass->collective_s -= pass->exchange_s;
  hide_exchange(machine, beside, alone(backward), backward.exchange_s, chunk.backward_input);
  chunk.backward_input.collective_s += chunk.again.exchange_s + chunk.backward_weight.exchange_s;
}

void add_edge(const PartCosts& edge, ChunkCosts& chunk) {
  chunk.forward += edge.forward;
  chunk.backward_input += edge.backward_input;
  chunk.backward_weight += edge.backward_weight;
  chunk.kept_bytes += edge.saved_bytes;
}

/// The embedding, whose layers run again as the others do where these run again whole.
void add_embedding(const ModelCosts& model, const Plan& plan, ChunkCosts& chunk) {
  const PartCosts& edge = model.part(PartName::embedding);
  add_edge(edge, chunk);
  if (model.before == 0 || plan.recompute != Recompute::full) return;
  chunk.again += edge.forward;
  chunk.kept_bytes += model.before * model.boundary_bytes - edge.saved_bytes;
}

/// A collective of parameters over those that have copies of them, and the same of experts'.
hw::GroupCost over_copies(const TrainingMachine& machine, hw::LibraryCall call, const CopyGroups& copies,
                          std::int64_t dense_bytes, std::int64_t expert_bytes) {
  hw::GroupCost cost = collective(machine, call, copies.dense, static_cast<double>(dense_bytes), copies.dense_nics);
  if (expert_bytes > 0) {
    const hw::GroupCost experts =
        collective(machine, call, copies.experts, static_cast<double>(expert_bytes), copies.expert_nics);
    cost.time_s += experts.time_s;
    cost.energy_j += experts.energy_j;
  }
  return cost;
}

/// What the copies' shared weights and gradients add to a chunk's passes (ZeRO, FSDP): before a layer runs, its weights
/// are gathered, forward and backward; after it ran backward, its gradients are summed and each copy keeps a share.
void add_shared(const ModelCosts& model, const TrainingMachine& machine, const Plan& plan, const CopyGroups& copies,
                ChunkCosts& chunk) {
  if (!has_copies(model, plan) || plan.zero < Zero::gradients) return;
  const auto gather = [&](const PartCosts& part) {
    if (plan.zero != Zero::weights) return hw::GroupCost{};
    return over_copies(machine, hw::LibraryCall::all_gather, copies, part.dense.weight_bytes,
                       part.experts.weight_bytes);
  };
  const auto scatter = [&](const PartCosts& part) {
    return over_copies(machine, hw::LibraryCall::reduce_scatter, copies, gradient_bytes(part.dense, plan),
                       gradient_bytes(part.experts, plan));
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
    if (edge == PartName::head && chunk.first) part.dense.weight_bytes -= model.table.weight_bytes;  // gathered once
    add(part, 1);
  }
  chunk.gathers_beside_s /= machine.in_situ.overlapped;
  chunk.scatters_beside_s /= machine.in_situ.overlapped;
  chunk.gathers_exposed_s = gather(layer).time_s;
  chunk.scatters_exposed_s = scatter(layer).time_s;
}

/// What gradients take during the update; `parameters`: that the rank updates, its share on the device.
/// `wide_gradients`: whether they are in fp32 already.
void add_update_memory(const Plan& plan, std::int64_t parameters, double on_device, std::int64_t largest_bytes,
                       bool wide_gradients, StageCosts& stage) {
  stage.update_gradient_bytes = stage.gradient_bytes;
  if (!plan.update_apart || wide_gradients) return;
  const auto wide = static_cast<std::int64_t>(4 * on_device * static_cast<double>(parameters));
  // Ranks that share out the optimizer's states alone keep the gradients of the others' parameters.
  stage.update_gradient_bytes = wide + (plan.zero == Zero::optimizer ? stage.gradient_bytes : 0);
  stage.update_working_bytes = largest_bytes;
}

/// What a rank keeps of a chunk's parts.
ChunkParts kept_parts(const ModelCosts& model, const Plan& plan, const ChunkCosts& chunk) {
  const auto kept = [&](const PartCosts& part) {
    const auto of = [&](bool shared, std::int64_t dense, std::int64_t experts) {
      if (!shared) return dense + experts;
      return share_out(dense, plan.copies()) + share_out(experts, plan.expert_copies());
    };
    return KeptBytesOfPart{
        of(plan.zero == Zero::weights, part.dense.weight_bytes, part.experts.weight_bytes),
        of(plan.zero >= Zero::gradients, gradient_bytes(part.dense, plan), gradient_bytes(part.experts, plan))};
  };
  PartCosts head = model.part(PartName::head);
  if (chunk.first) head.dense += model.table.times(-1);  // the table is there once
  return {kept(model.part(PartName::layer)), kept(model.part(PartName::embedding)), kept(head)};
}

/// All parameters of a stage, experts' apart.
PartCosts stage_parameters(const ModelCosts& model, const Plan& plan, std::int64_t s, std::int64_t layers) {
  PartCosts sum;
  sum.dense = model.part(PartName::layer).dense.times(layers);
  sum.experts = model.part(PartName::layer).experts.times(layers);
  if (s == 0) {
    sum.dense += model.part(PartName::embedding).dense;
    sum.experts += model.part(PartName::embedding).experts;
  }
  if (s == plan.head()) {
    sum.dense += model.part(PartName::head).dense;
    sum.experts += model.part(PartName::head).experts;
    if (s == 0) sum.dense += model.table.times(-1);  // one stage holds the table once
  }
  return sum;
}

/// The gradients of a table that first and last stage both read are summed over the two.
void share_table(const ModelCosts& model, const TrainingMachine& machine, const Plan& plan, StageCosts& stage) {
  const std::int64_t stride = plan.stage_ranks() * plan.head();
  const hw::GroupCost cost = collective(machine, hw::LibraryCall::all_reduce, rank_group(machine, 2, stride),
                                        static_cast<double>(model.table.weight_bytes),
                                        group_nics(machine, 0, stride + plan.stage_ranks(), 2, stride));
  stage.network_j += cost.energy_j;
  stage.shared_s = cost.time_s;
}

}  // namespace

bool has_copies(const ModelCosts& model, const Plan& plan) {
  return plan.copies() > 1 || (plan.expert_copies() > 1 && model.part(PartName::layer).experts.parameters > 0);
}

double beside_pass_s(const StageCosts& stage, const hw::PerActivity& beside_s, double pass_s) {
  double layers = 0;
  for (const ChunkCosts& chunk : stage.chunks) layers += static_cast<double>(chunk.layers);
  if (hw::longest_s(beside_s) <= 0) return pass_s;
  const double one = 1 / std::max(1.0, layers);
  hw::PerActivity at_once = beside_s;
  for (double& time : at_once) time *= 1 - one;
  at_once[index(hw::Activity::kernels)] = pass_s * (1 - one);
  const Overlap& overlap = stage.chunks.front().overlap;
  return one * (pass_s + overlap.together_s(beside_s)) + overlap.together_s(at_once);
}

StageCosts slowed(StageCosts stage, double slower) {
  for (ChunkCosts& chunk : stage.chunks) {
    for (PassCost* pass : {&chunk.forward, &chunk.again, &chunk.backward_input, &chunk.backward_weight})
      *pass = pass->times(slower);
    for (double* time :
         {&chunk.gathers_beside_s, &chunk.scatters_beside_s, &chunk.gathers_exposed_s, &chunk.scatters_exposed_s})
      *time *= slower;
  }
  return stage;
}

double ChunkCosts::forward_s() const {
  return forward_host.pass_s(overlap, forward.length_s(), gathers_beside_s) + gathers_exposed_s;
}

double ChunkCosts::backward_s() const {
  PassCost sum = again;
  sum += backward_input;
  sum += backward_weight;
  return backward_host.pass_s(overlap, sum.length_s(), gathers_beside_s + scatters_beside_s) + scatters_exposed_s;
}

ChunkCosts ChunkCosts::unslowed() const {
  ChunkCosts chunk = *this;
  chunk.overlap.model.reset();
  return chunk;
}

double ChunkCosts::host_waits_s() const {
  const ChunkCosts all = unslowed();
  ChunkCosts without = all;
  without.forward_host = without.backward_host = {};
  return all.forward_s() - without.forward_s() + all.backward_s() - without.backward_s();
}

double ChunkCosts::interference_s() const {
  const ChunkCosts without = unslowed();
  return forward_s() - without.forward_s() + backward_s() - without.backward_s();
}

double ChunkCosts::backward_waits_s() const {
  PassCost sum = again;
  sum += backward_input;
  sum += backward_weight;
  return unslowed().backward_s() - sum.length_s();
}

double ChunkCosts::backward_input_s() const {
  PassCost sum = again;
  sum += backward_input;
  return overlap.together_s({sum.length_s(), gathers_beside_s, 0, 0});
}

double ChunkCosts::backward_weight_s() const {
  return overlap.together_s({backward_weight.length_s(), gathers_beside_s + scatters_beside_s, 0, 0}) +
         scatters_exposed_s;
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

double StageCosts::backward_waits_s() const {
  double sum = 0;
  for (const ChunkCosts& chunk : chunks) sum += chunk.backward_waits_s();
  return sum;
}

StageCosts stage_costs(const ModelCosts& model, const TrainingMachine& machine, const Plan& plan, std::int64_t s,
                       std::int64_t layers) {
  StageCosts stage;
  const CopyGroups copies = copy_groups(machine, plan, s);
  std::int64_t left = layers;
  std::int64_t again = plan.again(s, layers);
  const HostShares shares = plan.host_shares(s);
  std::int64_t staged = 0;
  stage.chunks.reserve(static_cast<std::size_t>(plan.chunks));
  for (std::int64_t c = 0; c < plan.chunks; ++c) {
    ChunkCosts chunk;
    chunk.overlap = overlap(machine, copies.dense);
    // What does not divide goes to the chunks that have no edge: the first stage's later ones, the others' earlier
    // ones.
    const std::int64_t chunks = plan.chunks - c;
    const std::int64_t count = s == 0 ? left / chunks : (left + chunks - 1) / chunks;
    const std::int64_t repeated = std::min(count, again);
    left -= count;
    again -= repeated;
    add_layers(model.part(PartName::layer), plan, count, repeated, model.boundary_bytes, chunk);
    offload_activations(machine, shares.activations, chunk);
    chunk.first = s == 0 && c == 0;
    chunk.last = s == plan.head() && c == plan.chunks - 1;
    if (chunk.first) add_embedding(model, plan, chunk);
    if (chunk.last) add_edge(model.part(PartName::head), chunk);
    overlap_exchanges(machine, plan, chunk);
    add_shared(model, machine, plan, copies, chunk);
    if (shares.weights > 0 || shares.gradients > 0)
      staged = std::max(
          staged, offload_parameters(machine, shares, kept_parts(model, plan, chunk), plan.micro_batches > 1, chunk));
    stage.chunks.push_back(chunk);
  }
  const PartCosts held = stage_parameters(model, plan, s, layers);
  const HeldCosts all = held.all();
  stage.optimizer = all.optimizer;
  stage.optimizer_s = all.optimizer.kernel_s;
  stage.parameters = all.parameters;
  stage.weight_bytes = all.weight_bytes;
  stage.state_bytes = all.state_bytes;
  const auto send = [&](hw::LibraryCall call, std::int64_t dense_bytes, std::int64_t expert_bytes) {
    const hw::GroupCost cost = over_copies(machine, call, copies, dense_bytes, expert_bytes);
    stage.network_j += cost.energy_j;
    return cost.time_s;
  };
  const auto shared_out = [&](std::int64_t dense_bytes, std::int64_t expert_bytes) {
    return share_out(dense_bytes, plan.copies()) + share_out(expert_bytes, plan.expert_copies());
  };
  const std::int64_t dense = gradient_bytes(held.dense, plan), experts = gradient_bytes(held.experts, plan);
  stage.gradient_bytes = dense + experts;
  const bool wide_gradients = stage.gradient_bytes >= 4 * stage.parameters;
  if (plan.zero == Zero::none) {
    stage.gradients_s = send(hw::LibraryCall::all_reduce, dense, experts);
  } else {
    if (plan.zero == Zero::optimizer) stage.gradients_s = send(hw::LibraryCall::reduce_scatter, dense, experts);
    if (plan.zero != Zero::weights)
      stage.gathers_s = send(hw::LibraryCall::all_gather, held.dense.weight_bytes, held.experts.weight_bytes);
    if (plan.overlap_gathers) {  // beside the first forward pass of the next step: a layer waits for its own weights
      const double forward = stage.forward_s();
      stage.gathers_s = beside_pass_s(stage, {0, stage.gathers_s, 0, 0}, forward) - forward;
    }
    const auto share = static_cast<double>(plan.copies()), expert_share = static_cast<double>(plan.expert_copies());
    stage.optimizer_s = held.dense.optimizer.kernel_s / share + held.experts.optimizer.kernel_s / expert_share;
    stage.optimizer.energy_j = held.dense.optimizer.energy_j / share + held.experts.optimizer.energy_j / expert_share;
    stage.state_bytes = shared_out(held.dense.state_bytes, held.experts.state_bytes);
  }
  const std::int64_t stated =
      plan.zero == Zero::none ? stage.parameters : shared_out(held.dense.parameters, held.experts.parameters);
  offload_update(machine, shares, plan.ranks(), stated, plan.zero == Zero::weights, stage);
  if (plan.zero == Zero::gradients || plan.zero == Zero::weights) stage.gradient_bytes = shared_out(dense, experts);
  if (plan.zero == Zero::weights) stage.weight_bytes = shared_out(held.dense.weight_bytes, held.experts.weight_bytes);
  const std::int64_t buckets = plan.gradient_buckets && plan.copies() > 1 ? stage.gradient_bytes : 0;
  offload_kept(shares, stage);
  add_update_memory(plan, stated, 1 - std::max(shares.optimizer, shares.gradients), all.largest_bytes, wide_gradients,
                    stage);
  // Of offloaded activations a layer's are on their way while the next one's are made or read.
  std::int64_t moving = 0;
  for (const ChunkCosts& chunk : stage.chunks)
    if (chunk.host_bytes > 0) moving = std::max(moving, 2 * chunk.host_bytes / chunk.layers);
  stage.buffer_bytes = moving + staged + machine.context_bytes + buckets;
  if (plan.head() > 0 && (s == 0 || s == plan.head())) share_table(model, machine, plan, stage);
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

hw::GroupCost StageMessages::through(std::int64_t stages) const {
  hw::GroupCost sum;
  for (std::int64_t s = 0; s + 1 < stages; ++s) {
    sum.time_s += hop(s).time_s;
    sum.energy_j += hop(s).energy_j;
  }
  return sum;
}

double StageMessages::longest_s() const {
  double longest = next.time_s;
  for (const hw::GroupCost& hop : hops) longest = std::max(longest, hop.time_s);
  return longest;
}

StageMessages stage_messages(const ModelCosts& model, const TrainingMachine& machine, const Plan& plan) {
  StageMessages messages;
  if (plan.pipeline < 2) return messages;
  const auto bytes = static_cast<double>(model.boundary_bytes);
  const std::int64_t ranks = plan.stage_ranks(), all = plan.ranks(), node = machine.node_devices;
  const auto begin = [&](std::int64_t stage) {
    if (plan.stage_tensor.empty()) return stage * ranks;
    std::int64_t sum = 0;
    for (std::int64_t s = 0; s < stage; ++s) sum += plan.of_stage(s).stage_ranks();
    return sum;
  };
  const auto ranks_of = [&](std::int64_t s) {
    return plan.stage_tensor.empty() ? ranks : plan.of_stage(s).stage_ranks();
  };
  const auto from = [&](std::int64_t a, std::int64_t b) {
    return message(machine, begin(a), begin(b), std::min(ranks_of(a), ranks_of(b)), bytes);
  };
  const bool plain = !machine.mixed && !machine.spine && machine.unlike.empty() && plan.stage_tensor.empty();
  messages.next = from(0, 1);
  if (plan.chunks > 1 || plan.head() != plan.pipeline - 1) messages.wrap = from(plan.pipeline - 1, 0);
  // Stages of whole nodes, or all in one: every hop is as the first.
  if (plain && (ranks % node == 0 || all <= node)) return messages;
  messages.hops.reserve(static_cast<std::size_t>(plan.pipeline - 1));
  // On plain nodes a hop is as the first of its kind: inside a node, or out of it.
  std::optional<std::int64_t> inside, across;
  for (std::int64_t s = 0; s + 1 < plan.pipeline; ++s) {
    std::optional<std::int64_t>& known = s * ranks / node == ((s + 2) * ranks - 1) / node ? inside : across;
    messages.hops.push_back(plain && known ? messages.hop(*known) : from(s, s + 1));
    if (!known) known = s;
  }
  return messages;
}

StepCosts step_costs(CostTable& table, const TrainingMachine& machine, const Plan& plan,
                     const std::vector<std::int64_t>& layers) {
  StepCosts step;
  step.plan = plan;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const Plan own = plan.of_stage(s);
    step.stages.push_back(stage_costs(table.costs(own.share()), machine, own, s, layers[static_cast<std::size_t>(s)]));
  }
  step.messages = stage_messages(table.costs(plan.share()), machine, plan);
  return step;
}

}  // namespace orrery::experiments::training
