// Tensor parallelism of a graph: what one of `ranks` devices runs once some parameters are divided.
//
// Every tensor has a state: whole on every rank, divided along an axis, or a partial sum (each rank has a term). States
// follow from those of parameters op by op. Of a product with axes m, k, n: divided along n (or m) the result is
// divided; divided along k on both sides it is a partial sum; along a batch axis so is the result. Elementwise ops and
// norms keep an axis that all operands share; sums keep partial terms; heads of an attention are an axis like others;
// views map an axis by the product of the sizes before it. A partial sum is made whole by an all_reduce where a sync
// names the module that made it (Megatron-LM's pair: column, then row), before anything that is not linear reads it;
// terms that are added anyway are added first. Anything else that would be wrong is a fault. A bias inside a product of
// partial sums is taken as added once, after the sum. A slice along a divided axis takes the rank's share of it:
// libraries order fused weights (q, k, v) so that this is right.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/autodiff/autodiff.hpp"
#include "policies/placement/slapo_schedule.hpp"
#include "policies/placement/slapo_states.hpp"

namespace orrery::policies::slapo {
namespace {

using models::index;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::SymExpr;
using models::Tensor;
using models::TensorId;
using models::TensorRole;

class Sharder {
 public:
  Sharder(const OpGraph& graph, const std::vector<PlacedShard>& shards, const std::vector<PlacedSync>& syncs,
          std::int64_t ranks)
      : graph_(graph),
        rules_(graph, ranks),
        syncs_(syncs),
        ranks_(ranks),
        states_(graph.tensor_count()),
        now_(graph.tensor_count()),
        summed_(graph.tensor_count()) {
    out_.name = graph.name;
    out_.facts = graph.facts;
    for (const PlacedShard& shard : shards) divide(shard);
    divide_states();
    for (const TensorId id : graph.tensors())
      if (graph.tensor(id).role != TensorRole::activation) now_[index(id)] = out_.add_tensor(divided(id));
  }

  OpGraph run() {
    for (const OpId op : graph_.ops()) convert(op);
    for (const TensorId output : graph_.outputs())
      out_.mark_output(states_[index(output)].partial ? whole(output, "the model's results") : *now_[index(output)]);
    for (const PlacedSync& sync : syncs_)
      if (std::find(used_.begin(), used_.end(), &sync) == used_.end())
        sync.place.fail("scope", fmt::format("expected a module that makes partial sums, got '{}'", sync.params.scope),
                        "shard the axis that a product sums over");
    models::mark_saved(out_);
    return std::move(out_);
  }

 private:
  // ---- parameters

  void divide(const PlacedShard& shard) {
    const ShardParams& p = shard.params;
    static_cast<void>(modules(graph_, p.scope, shard.place));
    bool any = false;
    std::vector<std::string> known;
    for (const TensorId id : graph_.tensors()) {
      if (graph_.tensor(id).role != TensorRole::parameter && graph_.tensor(id).role != TensorRole::input) continue;
      const Tensor& tensor = graph_.tensor(id);
      const auto owner = module_of(p.scope, tensor.name);
      if (!owner || owner->size() + 1 >= tensor.name.size()) continue;
      const std::string rest = tensor.name.substr(owner->size() + 1);
      known.push_back(rest);
      const auto match = module_of(p.param, rest);
      if (!match || *match != rest) continue;
      any = true;
      if (p.axis >= static_cast<std::int64_t>(tensor.shape.size()))
        shard.place.fail("axis", fmt::format("expected an axis of {} {}, got {}", tensor.name,
                                             models::shape_string(tensor), p.axis));
      const SymExpr& size = tensor.shape[static_cast<std::size_t>(p.axis)];
      if (size.constant().value_or(0) % ranks_ != 0)
        shard.place.fail("axis", fmt::format("expected a size that {} ranks divide, got {} of {}", ranks_,
                                             size.to_string(), tensor.name));
      states_[index(id)].axis = static_cast<int>(p.axis);
    }
    if (!any)
      shard.place.fail("param", fmt::format("expected a parameter of '{}', got '{}'", p.scope, p.param),
                       sim::name_hint(p.param, std::move(known)));
  }

  /// Optimizer state lies as its parameter does.
  void divide_states() {
    for (const OpId op : graph_.ops()) {
      const OpNode& node = graph_.op(op);
      if (node.kind != OpKind::optimizer_step) continue;
      const auto count = static_cast<std::size_t>(node.integer("parameters", 1));
      for (std::size_t slot = count; slot < node.inputs.size(); ++slot)
        if (graph_.tensor(node.inputs[slot]).role == TensorRole::state)
          for (std::size_t i = 0; i < count; ++i)  // a state is named after its parameter
            if (graph_.tensor(node.inputs[slot]).name.starts_with(graph_.tensor(node.inputs[i]).name + "."))
              states_[index(node.inputs[slot])] = states_[index(node.inputs[i])];
    }
  }

  /// The tensor as a rank has it.
  Tensor divided(TensorId id) const {
    Tensor tensor = graph_.tensor(id);
    const int axis = states_[index(id)].axis;
    if (axis >= 0) {
      SymExpr& size = tensor.shape[static_cast<std::size_t>(axis)];
      size = models::floor_div(size, ranks_);
    }
    return tensor;
  }

  // ---- partial sums

  /// The tensor summed over ranks, by a sync of the module that made it.
  TensorId whole(TensorId id, const std::string& reader) {
    if (!summed_[index(id)]) {
      const OpNode& maker = graph_.op(*graph_.producer(id));
      use_sync(id, maker, reader);
      summed_[index(id)] = all_reduce(*now_[index(id)], maker);
    }
    return *summed_[index(id)];
  }

  void use_sync(TensorId id, const OpNode& maker, const std::string& reader) {
    const bool forward = maker.phase == models::Phase::forward;
    for (const PlacedSync& sync : syncs_) {
      if ((sync.params.direction == SyncDirection::forward) != forward) continue;
      if (!module_of(sync.params.scope, maker.scope)) continue;
      used_.push_back(&sync);
      return;
    }
    throw models::GraphError(fmt::format(
        "slapo: {} reads partial sums of '{}': add {{\"sync\": {{\"scope\": \"{}\", \"direction\": \"{}\"}}}}", reader,
        graph_.tensor(id).name, maker.scope, forward ? "forward" : "backward"));
  }

  TensorId all_reduce(TensorId tensor, const OpNode& maker) {
    OpNode node;
    node.kind = OpKind::all_reduce;
    node.inputs = {tensor};
    node.name = out_.tensor(tensor).name + ".sum";
    node.scope = maker.scope;
    node.phase = maker.phase;
    node.op_class = hw::OpClass::all_reduce;
    node.set("ranks", SymExpr(ranks_));
    Tensor sum = out_.tensor(tensor);
    sum.name = node.name;
    return out_.op(out_.add(std::move(node), {sum})).outputs.front();
  }

  /// Terms that are partial, of a sum with others that are not: added first, in one all_reduce.
  TensorId sum_of(const OpNode& op, const std::vector<TensorId>& partial) {
    if (partial.size() == 1) return whole(partial.front(), op.name);
    OpNode node;
    node.kind = OpKind::add_n;
    node.name = op.name + ".partial";
    node.scope = op.scope;
    node.phase = op.phase;
    node.op_class = op.op_class;
    for (const TensorId id : partial) {
      use_sync(id, graph_.op(*graph_.producer(id)), op.name);
      node.inputs.push_back(*now_[index(id)]);
    }
    const TensorId sum = out_.op(out_.add(std::move(node))).outputs.front();
    return all_reduce(sum, graph_.op(*graph_.producer(partial.back())));
  }

  // ---- ops

  void convert(OpId id) {
    const OpNode& op = graph_.op(id);
    OpNode node = op;
    node.outputs.clear();
    const bool linear_sum = (op.kind == OpKind::add || op.kind == OpKind::add_n);
    std::vector<State> in;
    std::vector<TensorId> partial;
    for (const TensorId input : op.inputs) {
      in.push_back(states_[index(input)]);
      if (in.back().partial) partial.push_back(input);
    }
    const bool linear = passes_partial(op);
    if (linear_sum && !partial.empty() && partial.size() < op.inputs.size()) {
      node.kind = OpKind::add_n;
      node.inputs = {sum_of(op, partial)};
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        if (!in[i].partial) node.inputs.push_back(*now_[index(op.inputs[i])]);
      if (node.inputs.size() == 2) node.kind = op.kind == OpKind::add ? OpKind::add : OpKind::add_n;
      std::erase_if(in, [](const State& s) { return s.partial; });
      in.emplace_back();
    } else {
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const bool keep = linear || !in[i].partial;
        node.inputs[i] = keep ? *now_[index(op.inputs[i])] : whole(op.inputs[i], op.name);
        if (!keep) in[i] = {};
      }
    }
    const std::vector<State> out = rules_.outcome(op, in);
    std::vector<Tensor> outputs;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      states_[index(op.outputs[i])] = out[i];
      outputs.push_back(divided(op.outputs[i]));
    }
    if (op.kind == OpKind::slice && out[0].axis >= 0 && op.integer("axis", -1) == out[0].axis)
      node.set("start", models::floor_div(op.expr("start", 0), ranks_));
    const OpId added = out_.add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < op.outputs.size(); ++i) now_[index(op.outputs[i])] = out_.op(added).outputs[i];
  }

  /// Ops that give the sum over ranks of what they make of each term.
  bool passes_partial(const OpNode& op) const {
    switch (op.kind) {
      case OpKind::add:
      case OpKind::add_n:
      case OpKind::reduce_sum:
      case OpKind::reduce_mean:
      case OpKind::scale:
      case OpKind::cast:
      case OpKind::copy:
        return true;
      default:
        return models::info(op.kind).pattern == models::Pattern::view;
    }
  }

  const OpGraph& graph_;
  StateRules rules_;
  const std::vector<PlacedSync>& syncs_;
  std::int64_t ranks_;
  OpGraph out_;
  std::vector<State> states_;
  std::vector<std::optional<TensorId>> now_, summed_;
  std::vector<const PlacedSync*> used_;
};

}  // namespace

OpGraph shard(const OpGraph& graph, const std::vector<PlacedShard>& shards, const std::vector<PlacedSync>& syncs,
              std::int64_t ranks) {
  return Sharder(graph, shards, syncs, ranks).run();
}

}  // namespace orrery::policies::slapo
