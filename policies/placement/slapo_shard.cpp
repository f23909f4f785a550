// Tensor parallelism of a graph: what one of `ranks` devices runs once some parameters are divided.
//
// Every tensor has a state: whole on every rank, divided along an axis, or a partial sum (each rank has a term). States
// follow from those of parameters op by op. Of a product with axes m, k, n: divided along n (or m) the result is
// divided; divided along k on both sides it is a partial sum; along a batch axis so is the result. Elementwise ops and
// norms keep an axis that all operands share; sums keep partial terms; heads of an attention are an axis like others;
// views map an axis by the product of the sizes before it; parts that are joined are shared out alike. A partial sum is
// made whole by an all_reduce where a sync names the module that made it (Megatron-LM's pair: column, then row), before
// anything that is not linear reads it; terms that are added anyway are added first. Anything else that would be wrong
// is a fault. A bias inside a product of partial sums is taken as added once, after the sum. A slice along a divided
// axis takes the rank's share of it: libraries order fused weights (q, k, v) so that this is right.
//
// With `sequence` (Korthikanti et al., 2022: sequence parallelism) a partial sum that a layer makes of [batch, tokens,
// width] is scattered along its tokens in place of made whole everywhere, so that norms, dropouts and sums run on a
// share of the tokens. It is gathered in front of a product whose weight is divided, of one that folds tokens into
// rows, and of whatever no layer is; once in the forward pass and once more in the backward pass, so that no rank keeps
// the whole.
#include <fmt/format.h>

#include <algorithm>
#include <array>
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
  Sharder(const OpGraph& graph, std::span<const DividedTensor> divisions, const std::vector<PlacedSync>& syncs,
          std::int64_t ranks, const ShardOptions& options)
      : graph_(graph),
        rules_(graph, ranks),
        syncs_(syncs),
        ranks_(ranks),
        options_(options),
        states_(graph.tensor_count()),
        now_(graph.tensor_count()),
        summed_(graph.tensor_count()) {
    for (auto& moved : moved_) moved.resize(graph.tensor_count());
    out_.name = graph.name;
    out_.facts = graph.facts;
    for (const DividedTensor& d : divisions) states_[index(d.id)].axis = d.axis;
    divide_states();
    head_divided_ = find_divided_head();
    for (const TensorId id : graph.tensors())
      if (graph.tensor(id).role != TensorRole::activation) now_[index(id)] = out_.add_tensor(divided(id));
  }

  OpGraph run() {
    for (const OpId op : graph_.ops()) convert(op);
    for (const TensorId output : graph_.outputs())
      out_.mark_output(states_[index(output)].partial ? summed(output, "the model's results").id
                                                      : *now_[index(output)]);
    for (const PlacedSync& sync : syncs_)
      if (std::find(used_.begin(), used_.end(), &sync) == used_.end())
        sync.place.fail("scope", fmt::format("expected a module that makes partial sums, got '{}'", sync.params.scope),
                        "shard the axis that a product sums over");
    models::mark_saved(out_);
    return std::move(out_);
  }

 private:
  // ---- parameters

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

  /// A tensor of the new graph, and how it lies.
  struct Placed {
    TensorId id{};
    State state;
  };

  /// The tensor summed over ranks, by a sync of the module that made it.
  Placed summed(TensorId id, const std::string& reader, bool enters_layer = false) {
    if (!summed_[index(id)]) {
      const OpNode& maker = graph_.op(*graph_.producer(id));
      use_sync(id, maker, reader);
      summed_[index(id)] = sum_over_ranks(*now_[index(id)], maker, enters_layer);
    }
    return *summed_[index(id)];
  }

  /// Whether partial sums go from the embedding into a layer or out of a layer: there they are summed, as what lies
  /// between two layers is.
  bool crosses(TensorId input, const OpNode& reader) const {
    if (!options_.sync_all || reader.phase != models::Phase::forward || !states_[index(input)].partial) return false;
    const auto maker = graph_.producer(input);
    return maker && layer_scope(graph_.op(*maker)) != layer_scope(reader);
  }

  void use_sync(TensorId id, const OpNode& maker, const std::string& reader) {
    if (options_.sync_all) return;
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

  Placed sum_over_ranks(TensorId tensor, const OpNode& maker, bool enters_layer = false) {
    const bool scatter = (in_layer(maker) || enters_layer) && has_tokens(out_.tensor(tensor));
    return {communicate(scatter ? OpKind::reduce_scatter : OpKind::all_reduce, tensor, maker),
            scatter ? State{kTokenAxis, false} : State{}};
  }

  /// Adds a collective of `tensor` in the name of `of`.
  TensorId communicate(OpKind kind, TensorId tensor, const OpNode& of) {
    OpNode node;
    node.kind = kind;
    node.inputs = {tensor};
    node.name = out_.tensor(tensor).name + (kind == OpKind::all_gather ? ".whole" : ".sum");
    node.scope = of.scope;
    node.phase = of.phase;
    node.op_class = hw::OpClass::all_reduce;
    node.set("ranks", SymExpr(ranks_));
    Tensor result = out_.tensor(tensor);
    result.name = node.name;
    result.role = TensorRole::activation;
    if (kind == OpKind::all_gather) result.shape[kTokenAxis] = result.shape[kTokenAxis] * ranks_;
    if (kind == OpKind::reduce_scatter) result.shape[kTokenAxis] = models::floor_div(result.shape[kTokenAxis], ranks_);
    return out_.op(out_.add(std::move(node), {result})).outputs.front();
  }

  /// Terms that are partial, of a sum with others that are not: added first, in one collective.
  Placed sum_of(const OpNode& op, const std::vector<TensorId>& partial) {
    if (partial.size() == 1) return summed(partial.front(), op.name);
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
    return sum_over_ranks(sum, graph_.op(*graph_.producer(partial.back())));
  }

  // ---- tokens

  static constexpr int kTokenAxis = 1;

  /// Also of first layers that are unlike the others and counted with the embedding.
  static bool layer_scope(const OpNode& op) {
    return op.scope.starts_with("layer.") || op.scope.starts_with("embed.layer.");
  }
  /// Where tokens are divided between products: in layers, and in a head whose product is divided.
  bool in_layer(const OpNode& op) const {
    return options_.sequence && (layer_scope(op) || (head_divided_ && op.scope.starts_with("head")));
  }
  /// Whether the product of the head has its weight divided along the vocabulary.
  bool find_divided_head() const {
    for (const OpId id : graph_.ops()) {
      const OpNode& op = graph_.op(id);
      if (op.phase == models::Phase::forward && op.op_class == hw::OpClass::lm_head && op.kind == OpKind::matmul &&
          states_[index(op.inputs[1])].axis >= 0)
        return true;
    }
    return false;
  }
  /// [batch, tokens, width]: what is divided along its tokens between the products of a layer.
  static bool has_tokens(const Tensor& tensor) {
    return tensor.role == TensorRole::activation && tensor.shape.size() == 3 && !tensor.shape[kTokenAxis].constant();
  }

  /// Whether an op that reads input `slot` divided along its tokens needs it whole.
  bool wants_whole(const OpNode& op, std::size_t slot, const std::vector<State>& in) const {
    if (!in_layer(op)) return !adds_shares(op, in);
    if (op.kind == OpKind::embedding_grad) return true;  // rows of all tokens, wherever the table's are
    if (op.kind == OpKind::reshape && one_head(op)) return true;
    if (op.kind == OpKind::reshape)  // tokens are folded into rows
      return graph_.tensor(op.outputs[0]).shape.size() < graph_.tensor(op.inputs[0]).shape.size() && !sums_tokens(op);
    return op.kind == OpKind::matmul && slot < 2 && in[1 - slot].axis >= 0 && in[1 - slot].axis != kTokenAxis - 3 &&
           !divided_tokens(op.inputs[1 - slot], in[1 - slot]);
  }
  /// Whether [batch, tokens, width] becomes the one head that all heads of keys share.
  bool one_head(const OpNode& op) const {
    const auto& shape = graph_.tensor(op.outputs[0]).shape;
    return shape.size() == 4 && shape[2].constant() == 1;
  }
  /// Whether tokens are folded into rows for products that sum over them, and whose other operand is divided by tokens
  /// too: each rank has its tokens' term of a whole weight's gradient.
  bool sums_tokens(const OpNode& fold) const {
    const auto of_shares = [&](TensorId rows) {
      const auto maker = graph_.producer(rows);
      if (!maker || graph_.op(*maker).kind != OpKind::reshape) return false;
      const TensorId tokens = graph_.op(*maker).inputs[0];
      return divided_tokens(tokens, states_[index(tokens)]);
    };
    const auto readers = graph_.consumers(fold.outputs[0]);
    return !readers.empty() && std::ranges::all_of(readers, [&](OpId id) {
      const OpNode& reader = graph_.op(id);
      return reader.kind == OpKind::matmul && reader.phase == models::Phase::backward && of_shares(reader.inputs[0]) &&
             of_shares(reader.inputs[1]);
    });
  }
  /// A sum of shares of the tokens, which is a share: what the embedding's backward pass gets of a layer.
  bool adds_shares(const OpNode& op, const std::vector<State>& in) const {
    if (op.kind != OpKind::add && op.kind != OpKind::add_n) return false;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (!divided_tokens(op.inputs[i], in[i])) return false;
    return true;
  }
  bool divided_tokens(TensorId id, const State& state) const {
    return state.axis == kTokenAxis && has_tokens(graph_.tensor(id));
  }

  /// The tensor gathered, or this rank's share of its tokens: once a phase.
  Placed moved(TensorId id, TensorId present, const OpNode& reader, bool gather) {
    std::optional<Placed>& done = moved_[static_cast<std::size_t>(reader.phase)][index(id)];
    if (done && (done->state.axis < 0) == gather) return *done;
    if (gather) {
      done = Placed{communicate(OpKind::all_gather, present, reader), State{}};
      return *done;
    }
    done = share_of(present, reader, kTokenAxis);
    return *done;
  }

  /// This rank's share along an axis of a tensor that every rank has whole.
  Placed share_of(TensorId present, const OpNode& reader, int axis) {
    OpNode node;
    node.kind = OpKind::slice;
    node.inputs = {present};
    node.name = out_.tensor(present).name + ".share";
    node.scope = reader.scope;
    node.phase = reader.phase;
    node.set("axis", SymExpr(axis));
    node.set("start", SymExpr(0));
    Tensor share = out_.tensor(present);
    share.name = node.name;
    SymExpr& size = share.shape[static_cast<std::size_t>(axis)];
    size = models::floor_div(size, ranks_);
    return {out_.op(out_.add(std::move(node), {share})).outputs.front(), State{axis, false}};
  }

  /// Parts that are joined: what every rank has whole is shared out as the other parts are.
  void place_parts(const OpNode& op, OpNode& node, std::vector<State>& in) {
    const auto divided = std::ranges::find_if(in, [](const State& s) { return s.axis >= 0; });
    if (op.kind != OpKind::concat || divided == in.end()) return;
    const int axis = divided->axis;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!in[i].whole()) continue;
      const auto size = out_.tensor(node.inputs[i]).shape[static_cast<std::size_t>(axis)].constant();
      if (size && *size % ranks_ != 0) continue;  // refused as lying differently
      const Placed now = share_of(node.inputs[i], op, axis);
      node.inputs[i] = now.id;
      in[i] = now.state;
    }
  }

  /// Gathers and shares out what an op of a layer reads, or reads of a layer.
  void place_tokens(const OpNode& op, OpNode& node, std::vector<State>& in) {
    if (!options_.sequence) return;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId input = op.inputs[i];
      if (!has_tokens(graph_.tensor(input))) continue;
      const auto maker = graph_.producer(input);
      const bool enters = in_layer(op) && in[i].whole() && maker && !layer_scope(graph_.op(*maker));
      const bool whole = wants_whole(op, i, in);
      if (enters ? !whole : whole && divided_tokens(input, in[i])) {
        const Placed now = moved(input, node.inputs[i], op, !enters);
        node.inputs[i] = now.id;
        in[i] = now.state;
      }
    }
  }

  // ---- ops

  void convert(OpId id) {
    const OpNode& op = graph_.op(id);
    OpNode node = op;
    node.outputs.clear();
    const bool linear_sum = (op.kind == OpKind::add || op.kind == OpKind::add_n);
    std::vector<State> in;
    std::vector<TensorId> partial, present;
    for (const TensorId input : op.inputs) {
      in.push_back(states_[index(input)]);
      present.push_back(*now_[index(input)]);
      if (crosses(input, op)) {
        const Placed sum = summed(input, op.name, options_.sequence && layer_scope(op));
        present.back() = sum.id;
        in.back() = sum.state;
      } else if (in.back().partial) {
        partial.push_back(input);
      }
    }
    const bool linear = passes_partial(op);
    if (linear_sum && !partial.empty() && partial.size() < op.inputs.size()) {
      node.kind = OpKind::add_n;
      const Placed sum = sum_of(op, partial);
      node.inputs = {sum.id};
      std::vector<TensorId> rest;
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (in[i].partial) continue;
        rest.push_back(op.inputs[i]);
        node.inputs.push_back(present[i]);
      }
      if (node.inputs.size() == 2) node.kind = op.kind == OpKind::add ? OpKind::add : OpKind::add_n;
      std::vector<State> states{sum.state};
      for (const State& s : in)
        if (!s.partial) states.push_back(s);
      in = std::move(states);
      share_sum(op, rest, node, in);
    } else {
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        node.inputs[i] = present[i];
        if (linear || !in[i].partial) continue;
        const Placed sum = summed(op.inputs[i], op.name);
        node.inputs[i] = sum.id;
        in[i] = sum.state;
      }
      place_tokens(op, node, in);
      place_parts(op, node, in);
    }
    std::vector<State> out = rules_.outcome(op, in);
    if (op.kind == OpKind::embedding_grad && in[0].whole() && table_rows_divided(op)) out[0] = {0, false};
    std::vector<Tensor> outputs;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      states_[index(op.outputs[i])] = out[i];
      outputs.push_back(divided(op.outputs[i]));
    }
    if (op.kind == OpKind::slice && out[0].axis >= 0 && op.integer("axis", -1) == out[0].axis)
      node.set("start", models::floor_div(op.expr("start", 0), ranks_));
    if (op.find("scratch") != nullptr && in[0].axis >= 0)
      node.set("scratch", models::floor_div(op.expr("scratch", 0), ranks_));
    const OpId added = out_.add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < op.outputs.size(); ++i) now_[index(op.outputs[i])] = out_.op(added).outputs[i];
  }

  /// Whether the table whose gradient this is has its rows divided: the rank then makes the gradient of its own.
  bool table_rows_divided(const OpNode& grad) const {
    for (const OpId reader : graph_.consumers(grad.inputs[1])) {
      const OpNode& op = graph_.op(reader);
      if (op.kind == OpKind::embedding && op.scope == grad.scope) return states_[index(op.inputs[0])].axis == 0;
    }
    return false;
  }

  /// Of a sum whose partial terms have been added and scattered: the other terms' shares.
  void share_sum(const OpNode& op, const std::vector<TensorId>& rest, OpNode& node, std::vector<State>& in) {
    if (!options_.sequence || in[0].axis != kTokenAxis) return;
    std::size_t slot = 1;
    for (const TensorId input : rest) {
      if (in[slot].whole() && has_tokens(graph_.tensor(input))) {
        const Placed now = moved(input, node.inputs[slot], op, false);
        node.inputs[slot] = now.id;
        in[slot] = now.state;
      }
      ++slot;
    }
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
  ShardOptions options_;
  OpGraph out_;
  std::vector<State> states_;
  std::vector<std::optional<TensorId>> now_;
  std::vector<std::optional<Placed>> summed_;
  std::array<std::vector<std::optional<Placed>>, 3> moved_;  // by phase: gathered, or a share of the tokens
  std::vector<const PlacedSync*> used_;
  bool head_divided_ = false;
};

/// What a shard primitive divides. Fails at its place for a parameter that is not there or that ranks do not divide.
void divide(const OpGraph& graph, const PlacedShard& shard, std::int64_t ranks, std::vector<DividedTensor>& out) {
  const ShardParams& p = shard.params;
  static_cast<void>(modules(graph, p.scope, shard.place));
  bool any = false;
  std::vector<std::string> known;
  for (const TensorId id : graph.tensors()) {
    if (graph.tensor(id).role != TensorRole::parameter && graph.tensor(id).role != TensorRole::input) continue;
    const Tensor& tensor = graph.tensor(id);
    const auto owner = module_of(p.scope, tensor.name);
    if (!owner || owner->size() + 1 >= tensor.name.size()) continue;
    const std::string rest = tensor.name.substr(owner->size() + 1);
    known.push_back(rest);
    const auto match = module_of(p.param, rest);
    if (!match || *match != rest) continue;
    any = true;
    if (p.axis >= static_cast<std::int64_t>(tensor.shape.size()))
      shard.place.fail(
          "axis", fmt::format("expected an axis of {} {}, got {}", tensor.name, models::shape_string(tensor), p.axis));
    const SymExpr& size = tensor.shape[static_cast<std::size_t>(p.axis)];
    if (size.constant().value_or(0) % ranks != 0)
      shard.place.fail("axis", fmt::format("expected a size that {} ranks divide, got {} of {}", ranks,
                                           size.to_string(), tensor.name));
    out.push_back({id, static_cast<int>(p.axis)});
  }
  if (!any)
    shard.place.fail("param", fmt::format("expected a parameter of '{}', got '{}'", p.scope, p.param),
                     sim::name_hint(p.param, std::move(known)));
}

}  // namespace

std::vector<DividedTensor> divided_tensors(const OpGraph& graph, const std::vector<PlacedShard>& shards,
                                           std::int64_t ranks) {
  std::vector<DividedTensor> all;
  for (const PlacedShard& entry : shards) divide(graph, entry, ranks, all);
  return all;
}

OpGraph shard(const OpGraph& graph, std::span<const DividedTensor> divisions, const std::vector<PlacedSync>& syncs,
              std::int64_t ranks, const ShardOptions& options) {
  return Sharder(graph, divisions, syncs, ranks, options).run();
}

}  // namespace orrery::policies::slapo
