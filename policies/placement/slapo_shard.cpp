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

#include "models/autodiff.hpp"
#include "policies/placement/slapo_schedule.hpp"

namespace orrery::policies::slapo {
namespace {

using models::index;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::Pattern;
using models::SymExpr;
using models::Tensor;
using models::TensorId;
using models::TensorRole;

/// How a tensor lies on the ranks.
struct State {
  int axis = -1;
  bool partial = false;
  bool whole() const { return axis < 0 && !partial; }
  friend bool operator==(const State&, const State&) = default;
};

SymExpr before(const std::vector<SymExpr>& shape, std::size_t axis) {
  return models::product(std::span(shape).first(axis));
}

class Sharder {
 public:
  Sharder(const OpGraph& graph, const std::vector<PlacedShard>& shards, const std::vector<PlacedSync>& syncs,
          std::int64_t ranks)
      : graph_(graph),
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
    for (const TensorId id : graph_.with_role(TensorRole::parameter)) {
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
    const std::vector<State> out = outcome(op, in);
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
        return models::info(op.kind).pattern == Pattern::view;
    }
  }

  [[noreturn]] void refuse(const OpNode& op, const std::string& why) const {
    throw models::GraphError(
        fmt::format("slapo: {} '{}' of \"{}\": {}", models::to_string(op.kind), op.name, op.scope, why));
  }

  std::vector<State> outcome(const OpNode& op, const std::vector<State>& in) const {
    std::vector<State> out(op.outputs.size());
    if (std::all_of(in.begin(), in.end(), [](const State& s) { return s.whole(); })) return out;
    if (std::all_of(in.begin(), in.end(), [](const State& s) { return s.partial; })) {
      std::fill(out.begin(), out.end(), State{-1, true});
      return out;
    }
    switch (op.kind) {
      case OpKind::matmul:
        out[0] = product_state(op, in);
        return out;
      case OpKind::embedding:  // (table, ids)
        out[0] = in[0].axis == 0 ? State{-1, true} : State{rank_of(op.outputs[0]) - 1, false};
        return out;
      case OpKind::embedding_grad:  // (dy, ids)
        if (in[0].axis != rank_of(op.inputs[0]) - 1) refuse(op, "its table is divided along the width or not at all");
        out[0].axis = 1;
        return out;
      case OpKind::attention:
      case OpKind::attention_grad:
        return head_states(op, in);
      case OpKind::optimizer_step:
        return step_states(op, in);
      case OpKind::reduce_sum:
      case OpKind::reduce_mean:
      case OpKind::reduce_max:
        out[0] = reduced_state(op, in[0]);
        return out;
      case OpKind::reshape:
      case OpKind::transpose:
      case OpKind::slice:
      case OpKind::expand:
        out[0] = view_state(op, in[0]);
        return out;
      default:
        break;
    }
    const Pattern pattern = models::info(op.kind).pattern;
    const bool row = op.kind == OpKind::softmax || op.kind == OpKind::softmax_grad || op.kind == OpKind::layer_norm ||
                     op.kind == OpKind::rms_norm;
    if (pattern != Pattern::elementwise && op.kind != OpKind::copy && !row)
      refuse(op, "cannot be divided among ranks; gather its operands or shard another parameter");
    const State state = aligned_state(op, in);
    if (row && state.axis == rank_of(op.outputs[0]) - 1)
      refuse(op, "its operand is divided along the rows that it reads as a whole; sync it before");
    std::fill(out.begin(), out.end(), state);
    return out;
  }

  int rank_of(TensorId id) const { return static_cast<int>(graph_.tensor(id).shape.size()); }

  State product_state(const OpNode& op, const std::vector<State>& in) const {
    const int a_rank = rank_of(op.inputs[0]), b_rank = rank_of(op.inputs[1]), rank = rank_of(op.outputs[0]);
    const bool ta = op.integer("trans_a", 0) != 0, tb = op.integer("trans_b", 0) != 0;
    const int m = ta ? a_rank - 1 : a_rank - 2, ka = ta ? a_rank - 2 : a_rank - 1;
    const int kb = tb ? b_rank - 1 : b_rank - 2, n = tb ? b_rank - 2 : b_rank - 1;
    const State &a = in[0], &b = in[1];
    State out;
    if (a.axis == ka && b.axis == kb)
      out.partial = true;
    else if (a.whole() && b.axis == n)
      out.axis = rank - 1;
    else if (a.axis == m && b.whole())
      out.axis = rank - 2;
    else if (a.axis >= 0 && a.axis < a_rank - 2 && b.axis - b_rank == a.axis - a_rank)
      out.axis = rank - a_rank + a.axis;
    else if (a.axis >= 0 && a.axis < a_rank - 2 && b.whole() && b_rank == 2)
      out.axis = rank - a_rank + a.axis;
    else
      refuse(op, fmt::format("expected operands divided along the axis that it sums over, one of them alone along its "
                             "own, or both along a batch axis; got {} of {} and {} of {}",
                             described(a), models::shape_string(graph_.tensor(op.inputs[0])), described(b),
                             models::shape_string(graph_.tensor(op.inputs[1]))));
    if (in.size() > 2 && !in[2].whole() && out.axis != rank - 1)
      refuse(op, "its bias is divided, its result is not; shard the bias with the columns of the weight only");
    if (in.size() > 2 && in[2].whole() && out.axis == rank - 1)
      refuse(op,
             fmt::format("its columns are divided, its bias is not; shard '{}' too", graph_.tensor(op.inputs[2]).name));
    return out;
  }

  static std::string described(const State& s) {
    return s.partial ? "partial sums" : s.axis < 0 ? "all" : fmt::format("axis {}", s.axis);
  }

  /// Operands aligned from the right: those of full size must be divided alike.
  State aligned_state(const OpNode& op, const std::vector<State>& in) const {
    const int rank = rank_of(op.outputs[0]);
    int from_right = 0;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i].axis >= 0) from_right = rank_of(op.inputs[i]) - in[i].axis;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::vector<SymExpr>& shape = graph_.tensor(op.inputs[i]).shape;
      const int axis = rank_of(op.inputs[i]) - from_right;
      if (axis < 0 || shape[static_cast<std::size_t>(axis)].constant() == 1 || in[i].axis == axis) continue;
      refuse(op, fmt::format("'{}' is not divided as its other operands are; shard or sync it alike",
                             graph_.tensor(op.inputs[i]).name));
    }
    return {rank - from_right, false};
  }

  /// Heads are the third axis from the right of queries, keys and values, and the same axis of everything else.
  std::vector<State> head_states(const OpNode& op, const std::vector<State>& in) const {
    const int heads = rank_of(op.inputs[0]) - 3;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const bool broadcast = rank_of(op.inputs[i]) <= heads ||
                             graph_.tensor(op.inputs[i]).shape[static_cast<std::size_t>(heads)].constant() == 1;
      if (in[i].axis != heads && !(broadcast && in[i].whole()))
        refuse(op, fmt::format("'{}' is not divided by heads as others are", graph_.tensor(op.inputs[i]).name));
    }
    return std::vector<State>(op.outputs.size(), State{heads, false});
  }

  std::vector<State> step_states(const OpNode& op, const std::vector<State>& in) const {
    std::vector<State> out(op.outputs.size());
    const models::Attribute* attribute = op.find("updates");
    const auto* updates = attribute == nullptr ? nullptr : std::get_if<std::vector<SymExpr>>(attribute);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = in[updates == nullptr ? i : static_cast<std::size_t>((*updates)[i].constant().value_or(0))];
    const auto count = static_cast<std::size_t>(op.integer("parameters", 1));
    for (std::size_t i = 0; i < count; ++i)
      if (in[i] != in[count + i])
        refuse(op, fmt::format("'{}' and its gradient lie differently on the ranks", graph_.tensor(op.inputs[i]).name));
    return out;
  }

  State reduced_state(const OpNode& op, const State& in) const {
    const int rank = rank_of(op.inputs[0]);
    int shift = 0;
    const auto& axes = std::get<std::vector<SymExpr>>(*op.find("axes"));
    for (const SymExpr& entry : axes) {
      int axis = static_cast<int>(entry.constant().value_or(0));
      if (axis < 0) axis += rank;
      if (axis == in.axis) {
        if (op.kind != OpKind::reduce_sum) refuse(op, "only a sum can be taken along an axis that is divided");
        return {-1, true};
      }
      if (axis < in.axis && op.integer("keep", 0) == 0) ++shift;
    }
    return {in.axis - shift, false};
  }

  State view_state(const OpNode& op, const State& in) const {
    const std::vector<SymExpr>&from = graph_.tensor(op.inputs[0]).shape, &to = graph_.tensor(op.outputs[0]).shape;
    const auto axis = static_cast<std::size_t>(in.axis);
    if (op.kind == OpKind::slice || op.kind == OpKind::expand)
      return {static_cast<int>(to.size() - from.size() + axis), false};
    if (op.kind == OpKind::transpose) {
      const models::Attribute* attribute = op.find("perm");
      const auto* perm = attribute == nullptr ? nullptr : std::get_if<std::vector<SymExpr>>(attribute);
      for (std::size_t i = 0; perm != nullptr && i < perm->size(); ++i)
        if ((*perm)[i].constant() == in.axis) return {static_cast<int>(i), false};
      refuse(op, "expected attribute 'perm' beside a divided operand");
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (!(before(to, i) == before(from, axis)) || to[i].constant() == 1) continue;
      if (to[i].constant().value_or(0) % ranks_ != 0)
        refuse(op,
               fmt::format("{} ranks do not divide the {} that axis {} becomes", ranks_, to[i].to_string(), in.axis));
      return {static_cast<int>(i), false};
    }
    refuse(op, "an axis that is divided is lost in the new shape");
  }

  const OpGraph& graph_;
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
