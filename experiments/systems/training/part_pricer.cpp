#include "experiments/systems/training/part_pricer.hpp"

#include <algorithm>
#include <utility>

#include "experiments/systems/training/layer_exchange.hpp"
#include "models/graph/graph_lowering.hpp"
#include "models/graph/liveness.hpp"
#include "models/graph/op_work.hpp"

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
using models::TensorRole;

std::int64_t bytes_at(const Tensor& tensor, const models::Bindings& sizes) {
  return tensor.bytes().eval(sizes);
}

hw::LibraryCall call_of(OpKind kind) {
  switch (kind) {
    case OpKind::all_gather:
      return hw::LibraryCall::all_gather;
    case OpKind::reduce_scatter:
      return hw::LibraryCall::reduce_scatter;
    case OpKind::all_to_all:
      return hw::LibraryCall::all_to_all;
    default:
      return hw::LibraryCall::all_reduce;
  }
}

/// Adds up one graph for one micro-batch; `sizes` are of a rank's tokens, `sequence` of all.
class Pricer {
 public:
  Pricer(const TrainingMachine& machine, const LayerGraph& layer, const std::set<std::string>& experts,
         const LayerShare& share, double busiest, const models::Bindings& sizes, const models::Bindings& sequence)
      : machine_(machine),
        layer_(layer),
        graph_(layer.graph),
        experts_(experts),
        share_(share),
        busiest_(busiest),
        rows_(busiest > 1 ? rows_of_experts(layer.graph) : std::vector<bool>()),
        sizes_(sizes),
        sequence_(sequence) {
    costs_.layers = layer.layers;
  }

  ModelCosts run() {
    std::vector<PassCost> ops;
    for (const OpId id : graph_.ops()) ops.push_back(op_cost(id));
    if (share_.async_tensor) hide_collectives(ops);
    for (const OpId id : graph_.ops()) add(id, ops[index(id)]);
    parameters();
    activations();
    return costs_;
  }

 private:
  PartCosts& part(PartName name) { return costs_.parts[training::index(name)]; }

  void add(OpId id, const PassCost& cost) {
    const OpPlace& place = layer_.places[index(id)];
    PartCosts& own = part(place.part);
    switch (place.phase) {
      case StepPhase::forward:
        own.forward += cost;
        if (place.core) own.core += cost;
        if (place.by_op) own.by_op += cost;
        return;
      case StepPhase::backward_input:
        own.backward_input += cost;
        return;
      case StepPhase::backward_weight:
        own.backward_weight += cost;
        if (gathers_again(id)) own.gathered_again += cost;
        return;
      case StepPhase::optimizer:
        (is_expert(graph_.op(id).inputs.front()) ? own.experts : own.dense).optimizer += cost;
        return;
    }
  }

  bool has_experts_rows(TensorId id) const { return !rows_.empty() && rows_[index(id)]; }
  /// Bytes of a tensor on the rank that all wait for, whose experts have most rows.
  std::int64_t fullest_bytes(TensorId id) const {
    const std::int64_t bytes = bytes_at(graph_.tensor(id), sizes_);
    return has_experts_rows(id) ? static_cast<std::int64_t>(busiest_ * static_cast<double>(bytes)) : bytes;
  }

  /// A gather of what the forward pass had gathered: the share of it was kept.
  bool gathers_again(OpId id) const {
    if (graph_.op(id).kind != OpKind::all_gather) return false;
    const auto maker = graph_.producer(graph_.op(id).inputs.front());
    return maker && graph_.op(*maker).phase == Phase::forward;
  }

  /// Gathers and scatters run beside the products that they feed or that feed them; a product hides one at a time.
  void hide_collectives(std::vector<PassCost>& ops) const {
    const Overlap own = overlap(machine_, rank_group(machine_, share_.tensor, 1));
    std::vector<double> left;
    for (const PassCost& cost : ops) left.push_back(cost.kernel_s);
    for (const OpId id : graph_.ops()) {
      double beside = 0;
      for (const OpId product : products_beside(graph_, id)) beside += std::exchange(left[index(product)], 0);
      double& collective = ops[index(id)].collective_s;
      if (beside > 0) collective = exposed_beside(own, collective, beside, share_.tensor);
    }
  }

  /// Of a sequence's attention, what the rank has that all wait for: the last c-th of the rows of a causal one is
  /// 1 - (1 - 1/c)^2 of it.
  double attention_share(const OpNode& op) const {
    const double rest = 1 - 1 / static_cast<double>(share_.context);
    if (share_.balanced || op.integer("causal", 0) == 0) return 1 - rest;
    const std::int64_t window = op.integer("window", 0);
    if (window == 0) return 1 - rest * rest;
    const std::int64_t tokens = sequence_.at(models::Symbol("tokens")), first = tokens - tokens / share_.context;
    return 1 - static_cast<double>(models::causal_pairs(first, first, window)) /
                   static_cast<double>(models::causal_pairs(tokens, tokens, window));
  }

  /// Attention of a rank of context parallelism: its share of the whole sequence's, and what is exchanged for it.
  PassCost shared_attention(OpId id) {
    const PassCost whole = kernels_cost(id, sequence_);
    const OpNode& op = graph_.op(id);
    PassCost cost = whole.times(attention_share(op));
    const std::int64_t launches = share_.exchange == ContextExchange::ring ? share_.context : 1;  // a block each
    cost.kernels = whole.kernels * launches;
    cost.host_s = whole.host_s * static_cast<double>(launches);
    const auto bytes = [&](std::size_t slot) { return bytes_at(graph_.tensor(op.inputs[slot]), sizes_); };
    const hw::GroupCost exchange =
        attention_exchange(machine_, share_, bytes(0), bytes(1) + bytes(2), cost.kernel_s, op.phase != Phase::forward);
    cost.collective_s += exchange.time_s;
    cost.energy_j += exchange.energy_j;
    return cost;
  }

  PassCost op_cost(OpId id) {
    const OpKind kind = graph_.op(id).kind;
    if (share_.context > 1 && (kind == OpKind::attention || kind == OpKind::attention_grad))
      return shared_attention(id);
    return kernels_cost(id, sizes_);
  }

  PassCost kernels_cost(OpId id, const models::Bindings& sizes) {
    models::GraphLaunches launches;
    models::lower(graph_, id, sizes, launches);
    PassCost sum;
    // All wait for the rank whose experts have most rows; work and energy are the mean's.
    const bool of_experts = std::ranges::any_of(graph_.op(id).inputs, [&](TensorId t) { return has_experts_rows(t); });
    const double slower = of_experts ? busiest_ : 1;
    for (const models::GraphKernel& launch : launches.kernels) {
      const hw::Cost cost = machine_.device.cost(launch.kernel);
      const bool attention = std::holds_alternative<hw::AttentionPrefill>(launch.kernel.shape);
      sum.kernel_s += slower * cost.time_s / (machine_.in_situ.kernel * (attention ? machine_.in_situ.attention : 1));
      sum.energy_j += cost.compute_energy_j + cost.memory_energy_j;
      ++sum.kernels;
    }
    for (const models::GraphTransfer& transfer : launches.transfers) {
      const bool gather = transfer.kind == OpKind::all_gather;
      const double bytes = static_cast<double>(transfer.bytes) * static_cast<double>(gather ? transfer.ranks : 1);
      const hw::RankGroup group = rank_group(machine_, transfer.ranks, 1);
      const std::int64_t choices = graph_.op(id).integer("choices", 0);  // of a router
      const auto exchanged = [&](double of) {
        return choices > 0 ? expert_exchange(machine_, group, of, choices, share_.dispatch == ExpertDispatch::tokens,
                                             share_.expert_nodes)
                           : collective(machine_, call_of(transfer.kind), group, of);
      };
      const hw::GroupCost cost = exchanged(bytes);
      const double waits = choices > 0 && busiest_ > 1 ? exchanged(busiest_ * bytes).time_s : cost.time_s;
      sum.collective_s += waits;
      if (choices > 0) sum.exchange_s += waits;
      sum.energy_j += cost.energy_j;
      ++sum.kernels;
    }
    if (!launches.kernels.empty()) {
      sum.flops = static_cast<double>(models::work(graph_, id, sizes).matrix_flops.constant().value_or(0));
      // Of its five products one makes probabilities again that the forward pass had.
      if (graph_.op(id).kind == OpKind::attention_grad) sum.flops *= 0.8;
    }
    const LaunchHost& host = machine_.host;
    const bool engine = graph_.op(id).phase != Phase::forward;
    const double op_s = engine ? host.backward_s : host.operator_s;
    sum.host_s = static_cast<double>(launches.kernels.size()) * op_s +
                 static_cast<double>(launches.transfers.size()) * (host.collective_s > 0 ? host.collective_s : op_s);
    if (launches.kernels.empty() && launches.transfers.empty() && !engine) sum.host_s = host.view_s;
    return sum;
  }

  /// Whose a parameter is: the parts whose forward ops read it.
  std::array<bool, kParts> readers_of(TensorId id) const {
    std::array<bool, kParts> readers{};
    for (const OpId reader : graph_.consumers(id))
      if (graph_.op(reader).phase == Phase::forward) readers[training::index(layer_.places[index(reader)].part)] = true;
    return readers;
  }

  /// Of the optimizer's states of a parameter: Adam's mean and variance, and fp32 weights where it has fewer bits.
  std::int64_t state_bytes(TensorId parameter) const {
    std::int64_t bytes = 0;
    for (const OpId reader : graph_.consumers(parameter)) {
      if (graph_.op(reader).phase != Phase::optimizer) continue;
      for (const TensorId input : graph_.op(reader).inputs)
        if (graph_.tensor(input).role == TensorRole::state) bytes += bytes_at(graph_.tensor(input), sizes_);
    }
    return bytes;
  }

  bool is_expert(TensorId parameter) const { return experts_.contains(graph_.tensor(parameter).name); }

  void parameters() {
    for (const TensorId id : graph_.with_role(TensorRole::parameter)) {
      const std::array<bool, kParts> readers = readers_of(id);
      const std::int64_t count = graph_.tensor(id).elements().eval(sizes_), bytes = bytes_at(graph_.tensor(id), sizes_);
      const std::int64_t states = state_bytes(id);
      for (std::size_t i = 0; i < kParts; ++i) {
        if (!readers[i]) continue;
        PartCosts& own = costs_.parts[i];
        (is_expert(id) ? own.experts : own.dense) += {{}, count, bytes, states, bytes};
      }
      if (readers[training::index(PartName::embedding)] && readers[training::index(PartName::head)])
        costs_.table += {{}, count, bytes, states, bytes};
    }
  }

  /// Tensors of the forward pass that backward ops read, by who made them.
  void activations() {
    for (const TensorId id : graph_.tensors()) {
      const Tensor& tensor = graph_.tensor(id);
      if (!tensor.saved || tensor.role != TensorRole::activation) continue;
      const auto maker = graph_.producer(id);
      if (!maker) continue;
      const OpPlace& place = layer_.places[index(*maker)];
      if (place.phase != StepPhase::forward) continue;
      const std::int64_t bytes = fullest_bytes(id);
      part(place.part).saved_bytes += bytes;
      if (place.core && !kept_of_core(*maker)) part(place.part).core_saved_bytes += bytes;
    }
    working();
    for (const OpId id : graph_.ops()) {
      const OpPlace& place = layer_.places[index(id)];
      if (place.part != PartName::layer || place.phase != StepPhase::forward || place.by_op) continue;
      for (const TensorId made : graph_.op(id).outputs) part(place.part).by_op_kept_bytes += fullest_bytes(made);
    }
  }

  /// The most that is live at an op of each part, beside what is kept between passes and the gradients of weights.
  void working() {
    const models::Storages storages(graph_);
    const models::Liveness live = models::liveness(storages, sizes_);
    std::vector<bool> kept(storages.all().size(), false);
    for (const TensorId id : graph_.tensors())
      if (graph_.tensor(id).saved) kept[storages.of(id)] = true;
    std::int64_t steps = 0;  // before the optimizer's first: what lives longer are gradients that it reads
    for (const OpId id : graph_.ops()) {
      if (graph_.op(id).phase == Phase::optimizer) break;
      ++steps;
    }
    std::vector<std::int64_t> bytes(graph_.op_count() + 1, 0);  // changes, then sums
    for (const models::Lifetime& life : live.lifetimes) {
      std::int64_t begin = life.begin;
      if (life.in_place_of) {  // takes memory over that was counted, until here or as kept
        const auto& before = live.lifetimes[static_cast<std::size_t>(*life.in_place_of)];
        if (before.tensor && life.tensor && kept[storages.of(*before.tensor)]) kept[storages.of(*life.tensor)] = true;
        ++begin;
      }
      if (life.end > steps || begin == life.end || (life.tensor && kept[storages.of(*life.tensor)])) continue;
      const bool fuller = life.tensor && has_experts_rows(*life.tensor);
      const auto own = fuller ? static_cast<std::int64_t>(busiest_ * static_cast<double>(life.bytes)) : life.bytes;
      bytes[static_cast<std::size_t>(begin)] += own;
      bytes[static_cast<std::size_t>(life.end)] -= own;
    }
    std::int64_t now = 0;
    for (const OpId id : graph_.ops()) {
      now += bytes[index(id)];
      if (graph_.op(id).phase == Phase::optimizer) break;
      PartCosts& own = part(layer_.places[index(id)].part);
      own.working_bytes = std::max(own.working_bytes, now);
    }
  }

  /// The product with the values ends the core: what it makes is read on and kept.
  bool kept_of_core(OpId maker) const {
    const OpNode& op = graph_.op(maker);
    if (op.kind != OpKind::matmul) return false;
    for (const TensorId output : op.outputs)
      for (const OpId reader : graph_.consumers(output))
        if (graph_.op(reader).phase == Phase::forward && layer_.places[index(reader)].core) return false;
    return true;
  }

  const TrainingMachine& machine_;
  const LayerGraph& layer_;
  const OpGraph& graph_;
  const std::set<std::string>& experts_;
  const LayerShare& share_;
  double busiest_ = 1;      ///< rows of the busiest rank's experts over the mean
  std::vector<bool> rows_;  ///< tensors that have such rows; empty: all ranks are alike
  const models::Bindings &sizes_, &sequence_;
  ModelCosts costs_;
};

}  // namespace

ModelCosts priced_parts(const TrainingMachine& machine, const LayerGraph& layer, const std::set<std::string>& experts,
                        const LayerShare& share, double busiest, const models::Bindings& sizes,
                        const models::Bindings& sequence) {
  return Pricer(machine, layer, experts, share, busiest, sizes, sequence).run();
}

}  // namespace orrery::experiments::training
