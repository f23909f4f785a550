// Gradient rules: what models/autodiff/autodiff.cpp asks of each kind of op, and what a rule may use to answer.
//
// A rule sees one op of the graph being differentiated and the gradients of its outputs, adds backward ops and gives
// the gradients of those inputs that need one. give() brings a gradient to its input's shape (sums over what was
// broadcast) and type (casts), so rules may ignore both. Rules are grouped by family, a file each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/autodiff/autodiff.hpp"
#include "models/graph/op_graph.hpp"

namespace orrery::models::detail {

class Adjoint {
 public:
  /// `gradients`: of the outputs, where there is one; `needed`: which inputs want one.
  Adjoint(OpGraph& graph, OpId op, std::vector<std::optional<TensorId>> gradients, std::vector<bool> needed);

  const OpNode& op() const { return op_; }
  bool needs(std::size_t slot) const { return slot < needed_.size() && needed_[slot]; }
  TensorId input(std::size_t slot) const { return op_.inputs.at(slot); }
  TensorId output(std::size_t place = 0) const { return op_.outputs.at(place); }
  bool has_output(std::size_t place) const { return place < op_.outputs.size(); }
  /// Gradient of an output; zeros where it has none.
  TensorId dy(std::size_t place = 0);
  const Tensor& tensor(TensorId id) const { return graph_.tensor(id); }
  const std::vector<SymExpr>& shape(TensorId id) const { return graph_.tensor(id).shape; }
  const OpGraph& graph() const { return graph_; }

  /// Adds a backward op in the forward op's place (scope, class, dialect); returns its first output.
  TensorId emit(OpKind kind, std::vector<TensorId> inputs, Attributes attributes = {});
  TensorId emit(OpKind kind, std::vector<TensorId> inputs, std::vector<SymExpr> shape, Attributes attributes = {});
  /// One op that gives gradients of several inputs: those of `like`, each with its input's shape and type.
  std::vector<TensorId> emit_for(OpKind kind, std::vector<TensorId> inputs, const std::vector<std::size_t>& like,
                                 Attributes attributes = {});
  TensorId reshape(TensorId tensor, std::vector<SymExpr> shape);
  /// A scalar constant of zero, of a type.
  TensorId zero(ElementType type);
  /// A new tensor filled with zeros: one kernel.
  TensorId zeros(std::vector<SymExpr> shape, ElementType type);
  /// `gradient` summed over what broadcasting repeated, in the shape `target`.
  TensorId reduce_to(TensorId gradient, std::vector<SymExpr> target);

  void give(std::size_t slot, TensorId gradient);
  /// The input is a whole of which `gradient` is the gradient of one part: put together when all parts are known.
  void give_part(std::size_t slot, TensorId gradient);
  /// [[noreturn]] GraphError that names op and kind.
  [[noreturn]] void fail(const std::string& why) const;

  struct Given {
    std::size_t slot = 0;
    TensorId gradient{};
    bool part = false;
  };
  const std::vector<Given>& given() const { return given_; }

 private:
  OpNode backward_node(OpKind kind, std::vector<TensorId> inputs, Attributes attributes);

  OpGraph& graph_;
  OpNode op_;  ///< a copy: the graph's own move when it grows
  std::vector<std::optional<TensorId>> gradients_;
  std::vector<bool> needed_;
  std::vector<Given> given_;
  int emitted_ = 0;
};

using GradientRule = void (*)(Adjoint&);

/// The rule of a kind; null where there is none. One function a family, asked in turn.
GradientRule gradient_rule(OpKind kind);
GradientRule product_gradient(OpKind kind);
GradientRule elementwise_gradient(OpKind kind);
GradientRule row_gradient(OpKind kind);
GradientRule movement_gradient(OpKind kind);
/// True for kinds that no gradient passes: their outputs are decisions or whole numbers.
bool ends_gradients(OpKind kind);

/// Forward outputs that the gradient of the op will read and that the op does not give yet (statistics, masks).
std::vector<Tensor> training_outputs(const OpGraph& graph, const OpNode& op);

/// Adds the steps of the optimizer; `gradients` are parameters and their gradients. Marks what they give as outputs.
void add_optimizer(OpGraph& graph, const std::vector<std::pair<TensorId, TensorId>>& gradients,
                   const AutodiffOptions& options);

/// The place in which two shapes of one rank differ; nothing if it is not exactly one.
std::optional<std::size_t> differing_axis(const OpGraph& graph, const std::vector<SymExpr>& a,
                                          const std::vector<SymExpr>& b);
/// True for types that have gradients.
bool is_differentiable(ElementType type);

}  // namespace orrery::models::detail
