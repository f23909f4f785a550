#include "policies/placement/expert_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/graph/graph_rewrite.hpp"

namespace orrery::policies {
namespace {

using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::SymExpr;
using models::TensorId;

/// Writes the graph of a rank down.
class ExpertSharder {
 public:
  ExpertSharder(const OpGraph& forward, std::int64_t ranks) : from_(forward), ranks_(ranks), copy_(forward) {}

  OpGraph run() {
    for (const OpId id : from_.ops())
      if (multiplies_experts(from_, from_.op(id)))
        for (const TensorId held : expert_parameters(from_, from_.op(id))) share_out(held);
      else if (from_.op(id).kind == OpKind::router)
        choices_ = from_.tensor(from_.op(id).outputs.front()).shape.back();
    for (const OpId id : from_.ops()) {
      const OpNode& op = from_.op(id);
      if (multiplies_experts(from_, op))
        multiply(id);
      else
        copy_.copy(id);
      // Rows leave for their experts as soon as they are lined up, and come back as soon as they are multiplied.
      if (op.kind == OpKind::gather && reads_rows(op.outputs.front())) travel(op.outputs.front(), id, true);
      if (multiplies_experts(from_, op) && returns(op.outputs.front())) travel(op.outputs.front(), id, false);
    }
    return copy_.finish();
  }

 private:
  SymExpr own(const SymExpr& experts) const { return models::floor_div(experts, ranks_); }

  void share_out(TensorId weights) {
    std::vector<SymExpr>& shape = copy_.to().annotate(copy_.at(weights)).shape;
    if (shape.front() == from_.tensor(weights).shape.front()) shape.front() = own(shape.front());
    several_ = shape.front().constant() != 1;
  }

  void multiply(OpId id) {
    const OpNode& op = from_.op(id);
    const SymExpr experts = own(from_.tensor(op.inputs[1]).shape.front());
    OpNode node = copy_.node(id);
    node.set("active_groups", models::min(experts, from_.tensor(op.inputs[0]).shape.front()));
    const OpId added = copy_.to().add(std::move(node), {from_.tensor(op.outputs.front())});
    copy_.put(op.outputs.front(), copy_.to().op(added).outputs.front());
  }

  bool reads_rows(TensorId rows) const {
    return std::ranges::any_of(from_.consumers(rows), [&](OpId reader) {
      const OpNode& op = from_.op(reader);
      return multiplies_experts(from_, op) && op.inputs.front() == rows;
    });
  }

  /// Whether what experts made goes back to its tokens.
  bool returns(TensorId rows) const {
    return std::ranges::any_of(from_.consumers(rows),
                               [&](OpId reader) { return from_.op(reader).kind == OpKind::combine; });
  }

  /// Exchanges rows; those that arrive for several experts are sorted by expert, and back before they return.
  void travel(TensorId rows, OpId maker, bool there) {
    TensorId now = copy_.at(rows);
    if (!there && several_) now = sorted(now, maker);
    now = add(OpKind::all_to_all, now, maker, there ? ".sent" : ".back",
              {{"ranks", SymExpr(ranks_)}, {"choices", choices_}});
    if (there && several_) now = sorted(now, maker);
    copy_.put(rows, now);
  }

  TensorId sorted(TensorId rows, OpId maker) {
    return add(OpKind::copy, rows, maker, ".sorted", {{"backward", std::string("copy")}});
  }

  TensorId add(OpKind kind, TensorId rows, OpId maker, const char* suffix, models::Attributes attributes) {
    const OpNode& of = from_.op(maker);
    OpNode node;
    node.kind = kind;
    node.inputs = {rows};
    node.name = of.name + suffix;
    node.scope = of.scope;
    node.phase = of.phase;
    node.op_class = kind == OpKind::all_to_all ? hw::OpClass::all_reduce : of.op_class;
    node.attributes = std::move(attributes);
    models::Tensor result = copy_.to().tensor(rows);
    result.name = node.name;
    return copy_.to().op(copy_.to().add(std::move(node), {result})).outputs.front();
  }

  const OpGraph& from_;
  std::int64_t ranks_;
  SymExpr choices_ = 1;   ///< of a token
  bool several_ = false;  ///< experts on a rank
  models::GraphCopy copy_;
};

}  // namespace

bool multiplies_experts(const OpGraph& graph, const OpNode& op) {
  return op.kind == OpKind::grouped_matmul && op.inputs.size() > 1 &&
         graph.tensor(op.inputs[1]).role == models::TensorRole::parameter;
}

std::vector<TensorId> expert_parameters(const OpGraph& graph, const OpNode& op) {
  if (!multiplies_experts(graph, op)) return {};
  if (op.integer("bias", 0) != 0) return {op.inputs[1], op.inputs[2]};
  return {op.inputs[1]};
}

std::optional<std::string> expert_parallel_obstacle(const OpGraph& forward, std::int64_t ranks) {
  if (ranks == 1) return std::nullopt;
  bool any = false;
  for (const OpId id : forward.ops()) {
    const OpNode& op = forward.op(id);
    if (!multiplies_experts(forward, op)) continue;
    any = true;
    const SymExpr& experts = forward.tensor(op.inputs[1]).shape.front();
    if (experts.constant().value_or(0) % ranks != 0)
      return fmt::format("{} ranks of expert parallelism do not divide {} experts", ranks, experts.to_string());
  }
  if (!any)
    return fmt::format("{} ranks of expert parallelism have no experts to share out: the model has none", ranks);
  return std::nullopt;
}

OpGraph expert_parallel(const OpGraph& forward, std::int64_t ranks) {
  return ranks == 1 ? forward : ExpertSharder(forward, ranks).run();
}

}  // namespace orrery::policies
