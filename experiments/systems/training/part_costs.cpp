#include "experiments/systems/training/part_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "experiments/systems/training/part_pricer.hpp"
#include "models/autodiff/autodiff.hpp"
#include "policies/placement/expert_parallel.hpp"

namespace orrery::experiments::training {
namespace {

using models::index;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::Phase;
using models::Tensor;
using models::TensorId;

models::OpGraph training_step(const OpGraph& forward, std::int64_t step_casts) {
  return std::move(
      models::differentiate(
          forward, {.optimizer = models::OptimizerKind::adam, .master_weights = true, .step_casts = step_casts})
          .graph);
}

/// Bytes of what the embedding hands to the first layer, and each layer to the next.
std::int64_t bytes_between(const LayerGraph& layer, const models::Bindings& sizes) {
  const OpGraph& graph = layer.graph;
  std::int64_t most = 0;
  for (const OpId id : graph.ops()) {
    if (layer.places[index(id)].part != PartName::layer || graph.op(id).phase != Phase::forward) continue;
    for (const TensorId input : graph.op(id).inputs) {
      const auto maker = graph.producer(input);
      if (maker && layer.places[index(*maker)].part == PartName::embedding && graph.tensor(input).shape.size() == 3)
        most = std::max(most, graph.tensor(input).bytes().eval(sizes));
    }
  }
  return most;
}

/// Mean passes of parts that have the same kernels and hold as much, each with its share.
PartCosts mean_of(const std::vector<std::pair<double, PartCosts>>& parts) {
  PartCosts mean = parts.front().second;
  for (const auto pass : {&PartCosts::forward, &PartCosts::core, &PartCosts::by_op, &PartCosts::backward_input,
                          &PartCosts::backward_weight, &PartCosts::gathered_again}) {
    PassCost sum;
    for (const auto& [share, part] : parts) sum += (part.*pass).times(share);
    sum.kernels = (mean.*pass).kernels;
    mean.*pass = sum;
  }
  return mean;
}

}  // namespace

PassCost& PassCost::operator+=(const PassCost& other) {
  kernel_s += other.kernel_s;
  collective_s += other.collective_s;
  exchange_s += other.exchange_s;
  host_s += other.host_s;
  flops += other.flops;
  energy_j += other.energy_j;
  kernels += other.kernels;
  return *this;
}

PassCost PassCost::times(double count) const {
  PassCost all = *this;
  all.kernel_s *= count;
  all.collective_s *= count;
  all.exchange_s *= count;
  all.host_s *= count;
  all.flops *= count;
  all.energy_j *= count;
  all.kernels = static_cast<std::int64_t>(static_cast<double>(all.kernels) * count);
  return all;
}

HeldCosts& HeldCosts::operator+=(const HeldCosts& other) {
  optimizer += other.optimizer;
  parameters += other.parameters;
  weight_bytes += other.weight_bytes;
  state_bytes += other.state_bytes;
  largest_bytes = std::max(largest_bytes, other.largest_bytes);
  return *this;
}

HeldCosts HeldCosts::times(std::int64_t count) const {
  return {optimizer.times(static_cast<double>(count)), parameters * count, weight_bytes * count, state_bytes * count,
          largest_bytes};
}

HeldCosts PartCosts::all() const {
  HeldCosts sum = dense;
  return sum += experts;
}

CostTable::CostTable(const TrainingMachine& machine, const TrainedModel& model) : machine_(machine), model_(model) {
  OneLayer one = one_layer(model.forward);
  layers_ = one.layers;
  before_ = one.before;
  windows_ = std::move(one.windows);
  forward_ = std::move(one.forward);
  for (const OpId id : forward_.ops()) {
    if (!policies::multiplies_experts(forward_, forward_.op(id))) continue;
    for (const TensorId held : policies::expert_parameters(forward_, forward_.op(id)))
      experts_.insert(forward_.tensor(held).name);
    expert_count_ = forward_.tensor(forward_.op(id).inputs[1]).shape.front().constant().value_or(0);
  }
}

const OpGraph& CostTable::step(std::int64_t experts, std::int64_t step_casts) {
  const auto [place, fresh] = steps_.try_emplace({experts, step_casts});
  if (fresh) place->second = training_step(policies::expert_parallel(forward_, experts), step_casts);
  return place->second;
}

std::optional<std::string> CostTable::obstacle(const LayerShare& share) {
  if (share.sequence && model_.sequence % (share.tensor * share.context) != 0)
    return fmt::format("{} ranks of sequence parallelism do not divide {} tokens", share.tensor,
                       model_.sequence / share.context);
  if (auto why = policies::expert_parallel_obstacle(forward_, share.experts)) return why;
  if (model_.expert_load && share.experts > 1)
    if (const auto& why = placed(share.experts).obstacle) return why;
  if (share.tensor > 1 && !share.sequence && !experts_.empty())
    return "tensor parallelism of a model with experts needs sequence_parallel: every rank would send the same tokens";
  if (auto why = policies::tensor_parallel_obstacle(forward_, {.ranks = share.tensor})) return why;
  if (share.context < 2) return std::nullopt;
  if (model_.sequence % (2 * share.context) != 0)  // each rank has a piece of either half: causal work is then even
    return fmt::format("{} ranks of context parallelism do not divide {} tokens in pairs of pieces", share.context,
                       model_.sequence);
  bool attends = false;
  for (const OpId id : forward_.ops()) {
    const OpNode& op = forward_.op(id);
    if (op.kind == OpKind::softmax)
      return "context parallelism needs attention in one kernel (\"attention\": \"sdpa\")";
    if (op.kind != OpKind::attention) continue;
    attends = true;
    const models::Tensor& keys = forward_.tensor(op.inputs[1]);
    const std::int64_t heads = keys.shape[keys.shape.size() - 3].constant().value_or(1) / share.tensor;
    if (share.exchange == ContextExchange::all_to_all && heads % share.context != 0)
      return fmt::format("{} ranks of context parallelism do not divide {} heads of keys that a rank has",
                         share.context, heads);
  }
  if (!attends) return "context parallelism needs attention in one kernel";
  return std::nullopt;
}

const LayerGraph& CostTable::graph(std::int64_t tensor, bool sequence, std::int64_t experts, std::int64_t step_casts) {
  return graph_of(windows_.begin()->first, tensor, sequence, experts, step_casts);
}

const LayerGraph& CostTable::graph_of(std::int64_t window, std::int64_t tensor, bool sequence, std::int64_t experts,
                                      std::int64_t step_casts) {
  const auto [place, fresh] = graphs_.try_emplace({window, tensor, sequence, experts, step_casts});
  if (fresh) {
    OpGraph graph = policies::tensor_parallel(step(experts, step_casts), {.ranks = tensor, .sequence = sequence});
    if (windows_.size() > 1) graph = with_window(std::move(graph), window);  // before passes hide its attention
    models::Bindings typical;
    typical.set("batch", 1);
    typical.set("tokens", model_.sequence);
    const policies::PassContext context = pass_context(machine_.device, std::move(typical));
    for (const ChosenPass& pass : model_.passes) {
      policies::PassReport report;
      graph = run_pass(pass, graph, context, model_.passes_at, report);
    }
    place->second = placed_graph(std::move(graph), layers_);
  }
  return place->second;
}

bool CostTable::has_core() {
  return std::ranges::any_of(graph(1, false).places, [](const OpPlace& place) { return place.core; });
}

const PlacedExperts& CostTable::placed(std::int64_t ranks) {
  const auto [place, fresh] = placed_.try_emplace(ranks);
  const bool whole = ranks % machine_.node_devices == 0;
  if (fresh) place->second = model_.expert_load->place(ranks, whole ? ranks / machine_.node_devices : 1);
  return place->second;
}

double CostTable::busiest(const LayerShare& share) {
  if (!model_.expert_load || share.experts < 2) return 1;
  const std::int64_t split = share.context * (share.sequence ? share.tensor : 1);
  const std::int64_t tokens = std::max<std::int64_t>(1, share.experts * share.micro_batch * model_.sequence / split);
  const auto [place, fresh] = busiest_.try_emplace({share.experts, tokens}, 1);
  if (fresh) place->second = model_.expert_load->busiest(placed(share.experts), share.experts, tokens);
  return place->second;
}

models::Bindings CostTable::sizes(const LayerShare& share) const {
  models::Bindings bindings;
  bindings.set("batch", share.micro_batch);
  bindings.set("tokens", model_.sequence / share.context);
  return bindings;
}

/// Layers that differ in their windows alone cost their mean each: of the same kernels, how long they take.
ModelCosts CostTable::priced(const LayerShare& share, const models::Bindings& sizes, const models::Bindings& sequence) {
  ModelCosts costs;
  std::vector<std::pair<double, PartCosts>> kinds;
  for (const auto& [window, layers] : windows_) {
    const LayerGraph& own = graph_of(window, share.tensor, share.sequence, share.experts, share.step_casts);
    costs = priced_parts(machine_, own, experts_, share, busiest(share), sizes, sequence);
    kinds.emplace_back(static_cast<double>(layers) / static_cast<double>(layers_), costs.part(PartName::layer));
  }
  if (kinds.size() > 1) costs.parts[training::index(PartName::layer)] = mean_of(kinds);
  return costs;
}

const ModelCosts& CostTable::costs(const LayerShare& share) {
  const auto [place, fresh] = costs_.try_emplace(share);
  if (fresh) {
    LayerShare whole = share;
    whole.context = 1;
    const models::Bindings own = sizes(share), all = sizes(whole);
    ModelCosts& costs = place->second;
    costs = priced(share, own, all);
    costs.before = before_;
    // Ranks of sequence parallelism hold a share of the tokens each.
    const std::int64_t sharing = share.sequence ? share.tensor : 1;
    costs.boundary_bytes = (bytes_between(graph(1, false), own) + sharing - 1) / sharing;
  }
  return place->second;
}

}  // namespace orrery::experiments::training
