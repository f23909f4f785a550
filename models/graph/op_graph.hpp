// Operator graphs: what a model computes, before it is fused, placed and lowered to kernels.
//
// An OpGraph is a directed acyclic graph whose vertices are operators and whose edges are uses of tensors: a tensor has
// a producer and consumers. Shapes are symbolic (SymExpr), so one graph stands for all batches. Ops stand in an order
// of execution: an op is added after the ops that make its inputs. So a graph is acyclic by construction, and `for
// (OpId op : graph.ops())` is a run. Passes do not edit a graph, they build the next one
// (models/graph/graph_rewrite.hpp).
//
// Control flow: `branch` has two regions and `loop` has one (attribute `trips`). A region is a graph whose inputs are
// the op's inputs, in order, and whose outputs are the op's outputs. `fused` has one region too: the ops that became
// one kernel. Left out: aliasing other than views, side effects (an op that writes in place gives a new tensor).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "hw/base/kernel.hpp"
#include "models/graph/op_kinds.hpp"
#include "models/sym/expr.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {

/// Element types of tensors; a complex number is two of its halves. The device computes in dtype_of(type).
enum class ElementType : std::uint8_t {
  fp32,
  fp16,
  bf16,
  fp8,
  int8,
  int32,
  int64,
  boolean,
  fp64,
  complex32,
  complex64
};
constexpr auto enum_names(ElementType) {
  using enum ElementType;
  return sim::names<ElementType>({{"fp32", fp32},
                                  {"fp16", fp16},
                                  {"bf16", bf16},
                                  {"fp8", fp8},
                                  {"int8", int8},
                                  {"int32", int32},
                                  {"int64", int64},
                                  {"boolean", boolean},
                                  {"fp64", fp64},
                                  {"complex32", complex32},
                                  {"complex64", complex64}});
}

std::int64_t bytes_of(ElementType type);
/// The rate at which a device computes with it: integers and fp64 count as fp32, complex as their halves.
hw::DType dtype_of(ElementType type);
ElementType element_type(hw::DType dtype);
/// The floating types that a model can be kept in: what a parameter may say.
enum class FloatType : std::uint8_t { fp32, fp16, bf16, fp8 };
constexpr auto enum_names(FloatType) {
  using enum FloatType;
  return sim::names<FloatType>({{"fp32", fp32}, {"fp16", fp16}, {"bf16", bf16}, {"fp8", fp8}});
}

constexpr ElementType element_type(FloatType type) {
  return static_cast<ElementType>(type);  // the first of them, in the same order
}
static_assert(element_type(FloatType::fp32) == ElementType::fp32 && element_type(FloatType::fp8) == ElementType::fp8);

constexpr bool is_complex(ElementType type) {
  return type == ElementType::complex32 || type == ElementType::complex64;
}

enum class Layout : std::uint8_t { row_major, channels_last, transposed, csr };
constexpr auto enum_names(Layout) {
  using enum Layout;
  return sim::names<Layout>(
      {{"row_major", row_major}, {"channels_last", channels_last}, {"transposed", transposed}, {"csr", csr}});
}

/// Who owns a tensor: `input` and `parameter` exist before the run, `constant` too and never changes, `state` belongs
/// to the optimizer, `activation` is made by an op.
enum class TensorRole : std::uint8_t { input, parameter, constant, state, activation };
constexpr auto enum_names(TensorRole) {
  using enum TensorRole;
  return sim::names<TensorRole>({{"input", input},
                                 {"parameter", parameter},
                                 {"constant", constant},
                                 {"state", state},
                                 {"activation", activation}});
}

enum class TensorId : std::int32_t {};
enum class OpId : std::int32_t {};
constexpr std::size_t index(TensorId id) {
  return static_cast<std::size_t>(id);
}
constexpr std::size_t index(OpId id) {
  return static_cast<std::size_t>(id);
}

/// The first `size` of an id, in order. (The library's views say the same, and take a third of this header's time.)
template <class Id>
class Ids {
 public:
  class Iterator {
   public:
    using value_type = Id;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    explicit Iterator(std::size_t at) : at_(at) {}
    Id operator*() const { return static_cast<Id>(at_); }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    friend bool operator==(Iterator, Iterator) = default;

   private:
    std::size_t at_ = 0;
  };

  explicit Ids(std::size_t size) : size_(size) {}
  Iterator begin() const { return Iterator(0); }
  Iterator end() const { return Iterator(size_); }
  std::size_t size() const { return size_; }
  Id operator[](std::size_t at) const { return static_cast<Id>(at); }

 private:
  std::size_t size_;
};

struct Tensor {
  std::string name;
  std::vector<SymExpr> shape;
  ElementType type = ElementType::fp16;
  Layout layout = Layout::row_major;
  TensorRole role = TensorRole::activation;
  bool saved = false;  ///< kept from the forward to the backward pass (set by differentiation)

  SymExpr elements() const { return product(shape); }
  SymExpr bytes() const { return elements() * bytes_of(type); }
};

/// What an op is told besides its inputs. Numbers are SymExpr too (a pad may depend on a size).
using Attribute = std::variant<SymExpr, double, std::string, std::vector<SymExpr>>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;  ///< sorted by name

enum class Phase : std::uint8_t { forward, backward, optimizer };
constexpr auto enum_names(Phase) {
  using enum Phase;
  return sim::names<Phase>({{"forward", forward}, {"backward", backward}, {"optimizer", optimizer}});
}

class OpGraph;

/// A vertex.
struct OpNode {
  OpKind kind = OpKind::custom;
  std::string name;
  std::vector<TensorId> inputs, outputs;
  Attributes attributes;
  std::vector<std::shared_ptr<const OpGraph>> regions;
  std::string scope;  ///< module path: "layer.3.attention"
  Phase phase = Phase::forward;
  std::string dialect;                           ///< library or compiler that runs it; empty: the default
  std::string target;                            ///< device that runs it; empty: the default
  hw::OpClass op_class = hw::OpClass::residual;  ///< where time and energy are booked

  const Attribute* find(std::string_view attribute) const;
  /// The attribute as a number; `fallback` where it is not there.
  std::int64_t integer(std::string_view attribute, std::int64_t fallback) const;
  SymExpr expr(std::string_view attribute, const SymExpr& fallback) const;
  double number(std::string_view attribute, double fallback) const;
  std::string_view text(std::string_view attribute) const;
  void set(std::string_view attribute, Attribute value);
};

/// A shape that does not fit an op, or an input that is not there. what() says which op, what was expected and what is.
class GraphError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class OpGraph {
 public:
  std::string name;  ///< of the model
  Facts facts;       ///< what is known of its dimensions

  OpGraph();  // these are defined once: every source that holds a graph would compile them anew
  ~OpGraph();
  OpGraph(const OpGraph&);
  OpGraph(OpGraph&&) noexcept;
  OpGraph& operator=(const OpGraph&);
  OpGraph& operator=(OpGraph&&) noexcept;

  // building
  TensorId add_tensor(Tensor tensor);  ///< an input, parameter, constant or state; throws GraphError for an activation
  TensorId input(std::string name, std::vector<SymExpr> shape, ElementType type);
  TensorId parameter(std::string name, std::vector<SymExpr> shape, ElementType type);
  TensorId constant(std::string name, std::vector<SymExpr> shape, ElementType type);
  /// Adds an op whose outputs follow from its inputs by the kind's ShapeRule. The element type is that of the first
  /// floating input, or attribute "to" of a cast. Throws GraphError.
  OpId add(OpNode op);
  /// Adds an op with the outputs given (names may be empty). Whether they fit the ShapeRule is verify()'s to say, which
  /// passes call once. Throws GraphError for an input that is not there. A name that is taken gets a number.
  OpId add(OpNode op, std::vector<Tensor> outputs);
  /// The same for one output; returns the tensor.
  TensorId emit(OpKind kind, std::vector<TensorId> inputs, Attributes attributes = {}, std::string name = {});
  TensorId emit(OpKind kind, std::vector<TensorId> inputs, std::vector<SymExpr> shape, ElementType type,
                Attributes attributes = {}, std::string name = {});
  void mark_output(TensorId tensor);
  /// Prefix of the scope of the ops that are added from here on.
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  const std::string& scope() const { return scope_; }
  void set_phase(Phase phase) { phase_ = phase; }

  // reading
  std::size_t op_count() const { return ops_.size(); }
  std::size_t tensor_count() const { return tensors_.size(); }
  Ids<OpId> ops() const { return Ids<OpId>(op_count()); }
  Ids<TensorId> tensors() const { return Ids<TensorId>(tensor_count()); }
  const OpNode& op(OpId id) const { return ops_[index(id)]; }
  const Tensor& tensor(TensorId id) const { return tensors_[index(id)]; }
  /// Annotations may change, structure may not.
  OpNode& annotate(OpId id) { return ops_[index(id)]; }
  Tensor& annotate(TensorId id) { return tensors_[index(id)]; }
  /// The op that makes a tensor; nothing for those that exist before the run.
  std::optional<OpId> producer(TensorId id) const;
  /// Ops that read a tensor, each once, in order.
  std::span<const OpId> consumers(TensorId id) const { return consumers_[index(id)]; }
  std::span<const TensorId> outputs() const { return outputs_; }
  bool is_output(TensorId id) const;
  std::vector<TensorId> with_role(TensorRole role) const;
  /// Symbols of all shapes and attributes, those of regions too, in the order of names.
  std::vector<Symbol> symbols() const;
  std::optional<TensorId> find_tensor(std::string_view name) const;

 private:
  OpId insert(OpNode op, std::vector<Tensor> outputs);
  std::string fresh_name(std::string_view base);

  std::vector<OpNode> ops_;
  std::vector<Tensor> tensors_;
  std::vector<std::int32_t> producers_;  ///< -1: none
  std::vector<std::vector<OpId>> consumers_;
  std::vector<TensorId> outputs_;
  std::vector<bool> is_output_;  ///< by tensor; shorter where the last tensors are none
  std::unordered_map<std::string, TensorId> by_name_;
  std::unordered_set<std::string> op_names_;
  std::unordered_map<std::string, int> next_tensor_, next_op_;  ///< numbers tried so far, by name that is taken
  std::string scope_;
  Phase phase_ = Phase::forward;
};

/// Shapes and types of an op's outputs by its ShapeRule; throws GraphError (also for `given`, which cannot say).
std::vector<Tensor> infer_outputs(const OpGraph& graph, const OpNode& op);
/// Shapes broadcast from the right. Throws GraphError.
std::vector<SymExpr> broadcast(std::span<const SymExpr> a, std::span<const SymExpr> b);

/// Everything that is wrong with a graph, a line each (nothing: it is sound): numbers of inputs, shapes against rules,
/// regions against their op, outputs that nobody makes, names used twice.
std::vector<std::string> verify(const OpGraph& graph);
/// The part of it that is about one op.
std::vector<std::string> verify(const OpGraph& graph, OpId op);

/// A line a tensor that exists before the run and a line an op, in order; equal graphs print alike.
///   %y: fp16[batch, 768] = matmul(%x, %w) {trans_b = 1} "layer.0.attention"
std::string to_string(const OpGraph& graph);
/// "fp16[batch, 768]".
std::string shape_string(const Tensor& tensor);

}  // namespace orrery::models
