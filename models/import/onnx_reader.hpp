// Reading one graph of an ONNX file: values by name, nodes to ops. Internal to models/import/onnx*.cpp.
//
// A value is a tensor of our graph, or contents that are known (shape arithmetic is folded symbolically and leaves no
// op), or a weight that becomes a tensor when something reads it. Handlers, one an ONNX operator, map a node to ops.
#pragma once

#include <onnx_model.pb.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "models/import/importer.hpp"

namespace orrery::models::onnx {

using Node = onnx_file::Node;
using Dims = std::vector<SymExpr>;

/// Largest list of integers whose contents are followed.
inline constexpr std::size_t kMostData = 256;

struct Value {
  Dims shape;
  ElementType type = ElementType::fp32;
  bool shaped = true;              ///< false: not known, and `shape` is one dimension that stands for all elements
  std::optional<TensorId> tensor;  ///< in this graph
  std::optional<Dims> data;        ///< contents of a list of integers, or of one integer
  std::optional<double> number;    ///< contents of one floating number
  TensorRole role = TensorRole::constant;  ///< that it gets when it becomes a tensor
};

/// A node that has no counterpart, for a reason that only its operands show; it becomes a custom op.
class Unmappable : public std::exception {};

/// What all graphs of a file share.
struct Import {
  std::string file;
  std::int64_t opset = 0;
  std::map<std::string, std::int64_t> unmapped;
  std::int64_t folded = 0, unknown_shapes = 0, sixteen_bit = 0;
  std::set<std::string> notes;
};

class Reader {
 public:
  Reader(Import& import, const Reader* outer) : import_(import), outer_(outer) {}

  OpGraph graph;

  /// The whole graph of a file.
  void read_model(const onnx_file::Graph& source);
  /// A branch or a loop's body: `captured` are names of the outer graph, which become inputs in that order (after those
  /// that are there already). Its outputs are marked.
  void read_region(const onnx_file::Graph& source, const std::vector<std::string>& captured, std::size_t skip_outputs);
  /// Nodes into the graph that is there: a branch that is always taken.
  void read_nodes(const onnx_file::Graph& source);

  // what a node says
  static bool has(const Node& node, int i) { return i < node.input_size() && !node.input(i).empty(); }
  static bool wants(const Node& node, int i) { return i < node.output_size() && !node.output(i).empty(); }
  static const onnx_file::Attribute* attribute(const Node& node, std::string_view name);
  static std::int64_t integer(const Node& node, std::string_view name, std::int64_t fallback);
  static double number(const Node& node, std::string_view name, double fallback);
  static std::string text(const Node& node, std::string_view name);
  static std::vector<std::int64_t> integers(const Node& node, std::string_view name);

  // values
  const Value& value(const Node& node, int i) const;
  const Value* find(const std::string& name) const;
  /// Shape of an input; throws Unmappable where it is not known.
  const Dims& shape(const Node& node, int i) const;
  /// The input as a tensor of the graph.
  TensorId tensor(const Node& node, int i);
  TensorId tensor(const std::string& name);
  /// Integers that the attribute or else input `i` gives; nothing where neither is there. Throws Unmappable for sizes
  /// that only a run can tell.
  std::optional<std::vector<std::int64_t>> list(const Node& node, std::string_view name, int i) const;
  /// What the file says of an output.
  std::optional<Value> described(const std::string& name);

  // results
  void put(const std::string& name, Value value);
  void give(const Node& node, int i, TensorId tensor);
  TensorId emit(const Node& node, OpKind kind, std::vector<TensorId> inputs, Attributes attributes = {});
  TensorId emit(const Node& node, OpKind kind, std::vector<TensorId> inputs, Dims shape, ElementType type,
                Attributes attributes = {});
  TensorId reshape(const Node& node, TensorId tensor, Dims shape);
  OpNode op_of(const Node& node, OpKind kind) const;
  /// An op without counterpart: counted, with the shapes that the file gives or those told.
  void custom(const Node& node, const SymExpr& flops = 0, const std::vector<Dims>& shapes = {});

  [[noreturn]] void fail(const std::string& message) const;
  static std::string label(const Node& node);
  Import& import() { return import_; }
  ElementType element(int onnx_type);
  Dims dims(const onnx_file::Shape& shape, const std::string& name) const;
  void put_weight(const onnx_file::Tensor& tensor, const std::string& name, bool parameter);

 private:
  void read_values(const onnx_file::Graph& source, bool inputs);
  void read_node(const Node& node);
  bool read_control_flow(const Node& node);
  void read_if(const Node& node);
  void read_loop(const Node& node);
  std::vector<std::string> captures(const std::vector<const onnx_file::Graph*>& sources) const;
  void mark(const std::string& name);
  void put_iteration(const onnx_file::Graph& body);

  Import& import_;
  const Reader* outer_;
  std::unordered_map<std::string, Value> values_;
  std::unordered_map<std::string, const onnx_file::ValueInfo*> described_;
};

/// Integers of a weight with `count` elements; nothing where it holds no integers.
std::optional<Dims> integers_of(const onnx_file::Tensor& tensor, std::size_t count);
/// Follows integer arithmetic on shapes; true if the node leaves no op.
bool fold(Reader& reader, const Node& node);

using Handler = std::function<void(Reader&, const Node&)>;
/// Null for an operator without counterpart.
const Handler* handler_of(const Node& node);
/// Names of all operators that have one, sorted.
std::vector<std::string> handled();
void add_convolution_handlers(std::map<std::string, Handler>& table);
void add_shape_handlers(std::map<std::string, Handler>& table);

inline Attributes attributes(std::initializer_list<std::pair<std::string, Attribute>> list) {
  return Attributes(list.begin(), list.end());
}
inline Attribute axes_attribute(const std::vector<std::int64_t>& axes) {
  return Dims(axes.begin(), axes.end());
}
/// The axis counted from the front.
std::size_t axis_of(std::int64_t axis, std::size_t rank);

}  // namespace orrery::models::onnx
