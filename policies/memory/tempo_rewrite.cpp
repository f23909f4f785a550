#include "policies/memory/tempo_rewrite.hpp"

#include <algorithm>
#include <charconv>

#include "models/autodiff/autodiff.hpp"
#include "models/graph/graph_rewrite.hpp"
#include "models/graph/op_work.hpp"

namespace orrery::policies {
namespace {

using namespace models;

class Rewriter {
 public:
  Rewriter(const OpGraph& graph, const TempoRewrites& rewrites, TempoCounts& counts)
      : copy_(graph), graph_(graph), rewrites_(rewrites), counts_(counts), mask_(graph.op_count()) {}

  OpGraph run() {
    for (const OpId id : graph_.ops()) {
      const OpNode& op = graph_.op(id);
      if (op.kind == OpKind::gelu && rewrites_.gelu && chosen(op) && gradient_of(id, OpKind::gelu_grad))
        gelu(id);
      else if (op.phase == models::Phase::backward)
        backward(id);
      else
        copy_.copy(id);
    }
    OpGraph done = copy_.finish();
    mark_saved(done);
    return done;
  }

 private:
  bool chosen(const OpNode& op) const {
    if (rewrites_.scopes < 0) return true;
    const std::int64_t layer = layer_of(op.scope, rewrites_.layer);
    return layer >= 0 && layer < rewrites_.scopes;
  }

  bool read_in_backward_only_by(TensorId id, OpId reader) const {
    const TensorId memory = storage_of(graph_, id);
    for (const TensorId view : graph_.tensors()) {
      if (storage_of(graph_, view) != memory) continue;
      for (const OpId one : graph_.consumers(view))
        if (one != reader && graph_.op(one).phase != models::Phase::forward) return false;
    }
    return !graph_.is_output(id);
  }

  /// The one backward op of a kind that reads the op's first input as its second, where it alone keeps that input.
  std::optional<OpId> gradient_of(OpId id, OpKind kind) const {
    const TensorId x = graph_.op(id).inputs.front();
    for (const OpId reader : graph_.consumers(x)) {
      const OpNode& op = graph_.op(reader);
      if (op.phase == models::Phase::backward && op.kind == kind && op.inputs.size() > 1 && op.inputs[1] == x)
        return graph_.producer(x) && read_in_backward_only_by(x, reader) ? std::optional(reader) : std::nullopt;
    }
    return std::nullopt;
  }

  void gelu(OpId id) {
    const TensorId output = graph_.op(id).outputs.front();
    Tensor mask = graph_.tensor(output);
    mask.name += ".mask";
    mask.type = ElementType::boolean;
    const OpId added = copy_.to().add(copy_.node(id), {graph_.tensor(output), std::move(mask)});
    copy_.put(output, copy_.to().op(added).outputs[0]);
    mask_[index(*gradient_of(id, OpKind::gelu_grad))] = {copy_.to().op(added).outputs[0],
                                                         copy_.to().op(added).outputs[1]};
    ++counts_.gelus;
  }

  void backward(OpId id) {
    OpNode node = copy_.node(id);
    const OpNode& op = graph_.op(id);
    if (!mask_[index(id)].empty()) {
      node.inputs.resize(1);
      node.inputs.insert(node.inputs.end(), mask_[index(id)].begin(), mask_[index(id)].end());
    } else if (op.kind == OpKind::layer_norm_grad && rewrites_.norm && chosen(op)) {
      norm(op, id, node);
    } else if (op.kind == OpKind::matmul && rewrites_.attention && chosen(op)) {
      for (std::size_t slot = 0; slot < op.inputs.size(); ++slot)
        if (const std::optional<OpId> drop = attention_dropout(op.inputs[slot], id)) {
          node.inputs[slot] = dropout_again(*drop, op.inputs[slot]);
          ++counts_.attentions;
        }
    }
    add(id, std::move(node));
  }

  void add(OpId id, OpNode node) {
    std::vector<Tensor> outputs;
    for (const TensorId output : graph_.op(id).outputs) outputs.push_back(graph_.tensor(output));
    const OpId added = copy_.to().add(std::move(node), std::move(outputs));
    for (std::size_t i = 0; i < graph_.op(id).outputs.size(); ++i)
      copy_.put(graph_.op(id).outputs[i], copy_.to().op(added).outputs[i]);
  }

  /// (dy, x, mean, 1/deviation, weight) becomes (dy, y, 1/deviation, weight, bias).
  void norm(const OpNode& op, OpId id, OpNode& node) {
    if (op.inputs.size() != 5 || !graph_.producer(op.inputs[1]) || !read_in_backward_only_by(op.inputs[1], id)) return;
    const std::optional<OpId> forward = graph_.producer(op.inputs[2]);
    if (!forward || graph_.op(*forward).kind != OpKind::layer_norm || graph_.op(*forward).inputs.size() != 3) return;
    const OpNode& made = graph_.op(*forward);
    node.inputs = {node.inputs[0], copy_.at(made.outputs[0]), node.inputs[3], node.inputs[4], copy_.at(made.inputs[2])};
    ++counts_.norms;
  }

  /// The cast between a dropout and what reads it, if mixed precision put one there.
  std::optional<OpId> cast_of(TensorId id) const {
    const std::optional<OpId> maker = graph_.producer(storage_of(graph_, id));
    return maker && graph_.op(*maker).kind == OpKind::cast ? maker : std::nullopt;
  }

  /// The dropout of probabilities whose output, or what a cast made of it, `reader` alone keeps.
  std::optional<OpId> attention_dropout(TensorId id, OpId reader) const {
    const TensorId kept = storage_of(graph_, id);
    const std::optional<OpId> cast = cast_of(id);
    const TensorId memory = cast ? storage_of(graph_, graph_.op(*cast).inputs.front()) : kept;
    const std::optional<OpId> drop = graph_.producer(memory);
    if (!drop || graph_.op(*drop).kind != OpKind::dropout || graph_.op(*drop).phase != models::Phase::forward)
      return {};
    if (graph_.op(*drop).outputs.size() < 2 || memory != graph_.op(*drop).outputs.front()) return {};
    std::optional<OpId> from = graph_.producer(storage_of(graph_, graph_.op(*drop).inputs.front()));
    if (from && graph_.op(*from).kind == OpKind::cast) from = graph_.producer(graph_.op(*from).inputs.front());
    if (!from || graph_.op(*from).kind != OpKind::softmax) return {};
    return read_in_backward_only_by(kept, reader) ? drop : std::nullopt;
  }

  /// Probabilities times mask: what the dropout gave, as `like` was cast and viewed.
  TensorId dropout_again(OpId drop, TensorId like) {
    const OpNode& op = graph_.op(drop);
    OpNode node;
    node.kind = OpKind::dropout_grad;  // scales by the mask, as the dropout did
    node.name = op.name + ".again";
    node.inputs = {copy_.at(op.inputs.front()), copy_.at(op.outputs[1])};
    node.attributes = op.attributes;
    node.scope = op.scope;
    node.phase = models::Phase::backward;
    node.op_class = op.op_class;
    TensorId made = copy_.to().op(copy_.to().add(std::move(node))).outputs.front();
    if (const std::optional<OpId> cast = cast_of(like)) {
      OpNode same = graph_.op(*cast);
      same.name += ".again";
      same.inputs = {made};
      same.outputs.clear();
      same.phase = models::Phase::backward;
      made = copy_.to().op(copy_.to().add(std::move(same))).outputs.front();
    }
    if (graph_.tensor(like).shape != graph_.tensor(op.outputs.front()).shape) {
      OpNode view;
      view.kind = OpKind::reshape;
      view.inputs = {made};
      view.phase = models::Phase::backward;
      view.scope = op.scope;
      Tensor out;
      out.shape = graph_.tensor(like).shape;
      out.type = graph_.tensor(like).type;
      made = copy_.to().op(copy_.to().add(std::move(view), {out})).outputs.front();
    }
    return made;
  }

  GraphCopy copy_;
  const OpGraph& graph_;
  const TempoRewrites& rewrites_;
  TempoCounts& counts_;
  std::vector<std::vector<TensorId>> mask_;  ///< by op: output and mask that a GELU's gradient reads instead
};

}  // namespace

std::int64_t layer_of(std::string_view scope, std::string_view prefix) {
  if (!scope.starts_with(prefix)) return -1;
  scope.remove_prefix(prefix.size());
  std::int64_t number = -1;
  std::from_chars(scope.data(), scope.data() + scope.size(), number);
  return number;
}

models::OpGraph rewrite_saved_tensors(const models::OpGraph& graph, const TempoRewrites& rewrites,
                                      TempoCounts& counts) {
  if (std::ranges::none_of(graph.ops(), [&](OpId id) { return graph.op(id).phase == models::Phase::backward; }))
    throw GraphError("tempo: expected a training graph; run autodiff before");
  return Rewriter(graph, rewrites, counts).run();
}

}  // namespace orrery::policies
