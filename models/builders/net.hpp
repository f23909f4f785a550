// What builders share: a graph in the making, and the layers that families have in common.
//
// A Net adds ops the way PyTorch's modules run them: a linear layer is one product (with its bias in it), changes of
// shape are views, a permuted tensor that a kernel needs dense is copied. Parameters are named by the module that owns
// them ("layer.3.attention.query.weight"); asking for a name again gives the same tensor, which is how layers share
// weights. Attributes of views and movement: transpose `perm` (sizes of the output in order of the input's axes), slice
// `axis`, `start`; concat `axis`; pad `before` and `after` (a list each, an entry an axis); upsample `factor`; dropout
// `p`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/builders/builder.hpp"
#include "models/graph/op_graph.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {

/// Attention in one kernel, or as products and passes.
enum class AttentionForm : std::uint8_t { sdpa, eager };
constexpr auto enum_names(AttentionForm) {
  using enum AttentionForm;
  return sim::names<AttentionForm>({{"sdpa", sdpa}, {"eager", eager}});
}

/// Norms, rotations and GELU as one kernel each, of a library of inference or as a compiler makes it for these sizes,
/// or as the elementary passes that a plain Python module launches.
enum class PassForm : std::uint8_t { library, compiled, eager };
constexpr auto enum_names(PassForm) {
  using enum PassForm;
  return sim::names<PassForm>({{"library", library}, {"compiled", compiled}, {"eager", eager}});
}

using Shape = std::vector<SymExpr>;

class Net {
 public:
  Net(std::string name, ElementType type);

  OpGraph& graph() { return graph_; }
  ElementType type() const { return type_; }
  void set_type(ElementType type) { type_ = type; }
  /// Module path of what is added from here on; parameters belong to it unless own() says otherwise.
  void scope(const std::string& path);
  void own(std::string path) { owner_ = std::move(path); }
  /// Adds `outputs` and gives the graph away. Throws std::logic_error if it is not sound (a fault of the builder).
  OpGraph finish(const std::vector<TensorId>& outputs);

  const Shape& shape(TensorId tensor) const { return graph_.tensor(tensor).shape; }
  /// The size of an axis; negative axes count from the end.
  SymExpr size(TensorId tensor, int axis) const;

  /// A parameter of the owner, "owner.name"; a name that exists gives the tensor that has it.
  TensorId parameter(const std::string& name, Shape shape) { return parameter(name, std::move(shape), type_); }
  TensorId parameter(const std::string& name, Shape shape, ElementType type);
  /// The same for what training does not change.
  TensorId constant(const std::string& name, Shape shape, ElementType type);

  TensorId emit(OpKind kind, std::vector<TensorId> inputs, hw::OpClass op_class, Attributes attributes = {});
  TensorId emit(OpKind kind, std::vector<TensorId> inputs, Shape shape, ElementType type, hw::OpClass op_class,
                Attributes attributes = {});

  // views
  TensorId reshape(TensorId x, Shape shape);
  TensorId permute(TensorId x, const std::vector<int>& perm);
  TensorId slice(TensorId x, int axis, const SymExpr& start, const SymExpr& length);
  TensorId expand(TensorId x, Shape shape);
  /// [batch, tokens, heads * dim] as [batch, heads, tokens, dim].
  TensorId split_heads(TensorId x, std::int64_t heads);

  // passes
  TensorId copy(TensorId x, hw::OpClass op_class = hw::OpClass::copy);
  TensorId cast(TensorId x, ElementType to);
  TensorId add(TensorId a, TensorId b, hw::OpClass op_class = hw::OpClass::residual);
  TensorId mul(TensorId a, TensorId b, hw::OpClass op_class = hw::OpClass::activation);
  TensorId concat(const std::vector<TensorId>& parts, int axis);
  /// Nothing for p = 0.
  TensorId dropout(TensorId x, double p);
  TensorId layer_norm(TensorId x, const std::string& name);
  TensorId embedding(TensorId ids, std::int64_t rows, std::int64_t width, const std::string& name);
  /// The mean of -log softmax at the labels, over all rows of [.., classes].
  TensorId cross_entropy(TensorId logits, TensorId labels);
  /// The mean of (x - target)^2.
  TensorId squared_error(TensorId x, TensorId target);

  // products
  TensorId linear(TensorId x, std::int64_t out, bool bias, hw::OpClass op_class, const std::string& name);
  /// With weights [out, in] and, where there is one, a bias of out.
  TensorId linear(TensorId x, TensorId weight, const TensorId* bias, hw::OpClass op_class);

 private:
  OpGraph graph_;
  ElementType type_;
  std::string owner_;
};

/// How an attention is run. Queries, keys and values are [batch, heads, tokens, dim]; kv heads may be fewer.
struct AttentionSpec {
  AttentionForm form = AttentionForm::sdpa;
  bool causal = false;
  bool wide_softmax = false;  ///< eager: softmax in fp32, cast back
  double dropout = 0;
  const TensorId* mask = nullptr;  ///< eager: added to the scores
  std::int64_t window = 0;         ///< keys that a query attends to, its own the last; 0: all. Eager: in the mask
  const TensorId* sinks =
      nullptr;  ///< [1, heads, 1, 1]: a logit a head that takes part in the softmax, without a value
};
/// [batch, tokens, heads * dim].
TensorId attend(Net& net, TensorId q, TensorId k, TensorId v, const AttentionSpec& spec);

/// GELU by tanh, in one pass or as the eight that a Python module makes of it.
TensorId tanh_gelu(Net& net, TensorId x, PassForm form);

/// "layer.3".
std::string layer_scope(std::int64_t layer);

/// Where a fault of a builder's parameter stands.
sim::Origin builder_origin(const std::string& builder, const std::string& parameter);

}  // namespace orrery::models
