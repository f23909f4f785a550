// Chakra execution traces: what one rank ran, as a graph of measured ops.
//
// A compute node becomes a custom op with what the trace says of it (flops, runtime_s, is_cpu_op, and bytes of its
// output); collectives, sends and receives become communication ops of their size; loads and stores become copies
// between host and device. Dependencies are edges: a data dependency carries the producer's output, a control
// dependency an output without elements. Payloads of communication are inputs of the graph where no data dependency has
// their size. Read: .et files and JSON with `workload_graph`. Source: the schema 0.0.4 at github.com/mlcommons/chakra.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_set>

#include "models/import/chakra_nodes.hpp"
#include "models/import/importer.hpp"
#include "sim/base/document.hpp"

namespace orrery::models {
namespace {

constexpr std::array<std::string_view, 10> kCollectives{
    "all_reduce", "reduce",         "all_gather",           "gather", "scatter", "broadcast",
    "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier"};

std::optional<OpKind> collective_kind(std::int64_t type) {
  switch (type) {
    case 0:
      return OpKind::all_reduce;
    case 2:
      return OpKind::all_gather;
    case 6:
      return OpKind::all_to_all;
    case 7:
    case 8:
      return OpKind::reduce_scatter;
    default:
      return std::nullopt;
  }
}

/// Nodes into ops.
class TraceGraph {
 public:
  TraceGraph(std::vector<ChakraNode> nodes, ChakraOrder order) : nodes_(std::move(nodes)), order_(std::move(order)) {}

  Imported build() {
    token_.assign(nodes_.size(), false);
    for (const std::vector<std::size_t>& waits : order_.control)
      for (const std::size_t k : waits) token_[k] = true;
    made_.resize(nodes_.size());
    for (const std::size_t i : order_.places) add(i);
    for (const OpId id : out_.graph.ops())
      for (const TensorId tensor : out_.graph.op(id).outputs)
        if (out_.graph.consumers(tensor).empty()) out_.graph.mark_output(tensor);
    out_.unmapped.assign(unmapped_.begin(), unmapped_.end());
    note(metadata_, "metadata nodes run nothing and were left out");
    note(order_.missing, "dependencies name nodes that are not in the file and were left out");
    note(order_.contradicting, "control dependencies contradict the data dependencies and were left out");
    note(payloads_, "payloads of communication have no producer of their size and are inputs of the graph");
    return std::move(out_);
  }

 private:
  void note(std::int64_t count, std::string_view text) {
    if (count > 0) out_.notes.push_back(fmt::format("{} {}", count, text));
  }

  std::optional<OpKind> kind_of(const ChakraNode& node) const {
    switch (node.type) {
      case 2:
        return OpKind::to_device;
      case 3:
        return OpKind::to_host;
      case 4:
        return OpKind::custom;
      case 5:
        return OpKind::send;
      case 6:
        return OpKind::recv;
      case 7:
        return collective_kind(node.comm_type);
      default:
        return std::nullopt;
    }
  }

  void add(std::size_t i) {
    const ChakraNode& node = nodes_[i];
    if (node.type == 1) {
      ++metadata_;
      pass_on(i);
      return;
    }
    OpNode op;
    const std::optional<OpKind> kind = kind_of(node);
    op.kind = kind.value_or(OpKind::custom);
    op.name = node.name.empty() ? fmt::format("node {}", node.id) : node.name;
    if (!kind) count_unmapped(node, op);
    const bool moves = info(op.kind).pattern == Pattern::communication;
    std::int64_t bytes = node.tensor_bytes;
    if (node.type >= 5 && node.comm_bytes > 0) bytes = node.comm_bytes;
    collect_inputs(i, op, moves ? std::optional(bytes) : std::nullopt);
    op.set("id", SymExpr(static_cast<std::int64_t>(node.id)));
    if (node.runtime_us > 0) op.set("runtime_s", static_cast<double>(node.runtime_us) * 1e-6);
    if (node.flops > 0) op.set("flops", SymExpr(node.flops));
    if (node.cpu) op.target = *node.cpu ? "cpu" : "gpu";
    if (!node.group.empty()) op.set("group", node.group);
    op.op_class = node.type == 7 ? hw::OpClass::all_reduce : hw::OpClass::copy;
    std::vector<Tensor> outputs;
    outputs.reserve(2);
    outputs.push_back(bytes_tensor(op.name, bytes));
    if (token_[i] && bytes > 0) outputs.push_back(bytes_tensor(op.name + ".done", 0));
    const OpId id = out_.graph.add(std::move(op), std::move(outputs));
    const std::vector<TensorId>& made = out_.graph.op(id).outputs;
    made_[i] = {{made.front()}, {made.back()}};
  }

  static Tensor bytes_tensor(std::string name, std::int64_t bytes) {
    Tensor tensor;
    tensor.name = std::move(name);
    tensor.shape.emplace_back(bytes);
    tensor.type = ElementType::int8;
    return tensor;
  }

  void count_unmapped(const ChakraNode& node, OpNode& op) {
    std::string what = fmt::format("node type {}", node.type);
    if (node.type == 7)
      what = node.comm_type < 0 ? "collective of no type"
             : node.comm_type < static_cast<std::int64_t>(kCollectives.size())
                 ? std::string(kCollectives[static_cast<std::size_t>(node.comm_type)])
                 : fmt::format("collective type {}", node.comm_type);
    ++unmapped_[what];
    op.set("op", what);
  }

  /// What the node waits for; a communication's payload stands first.
  void collect_inputs(std::size_t i, OpNode& op, std::optional<std::int64_t> payload) {
    for (const std::size_t k : order_.data[i])
      op.inputs.insert(op.inputs.end(), made_[k].data.begin(), made_[k].data.end());
    for (const std::size_t k : order_.control[i])
      op.inputs.insert(op.inputs.end(), made_[k].done.begin(), made_[k].done.end());
    std::unordered_set<std::size_t> seen;
    std::erase_if(op.inputs, [&](TensorId id) { return !seen.insert(index(id)).second; });
    if (!payload) return;
    const auto fits = std::find_if(op.inputs.begin(), op.inputs.end(),
                                   [&](TensorId id) { return out_.graph.tensor(id).elements() == SymExpr(*payload); });
    if (fits != op.inputs.end()) {
      std::rotate(op.inputs.begin(), fits, fits + 1);
      return;
    }
    ++payloads_;
    op.inputs.insert(op.inputs.begin(),
                     out_.graph.input(fmt::format("payload.{}", nodes_[i].id), {*payload}, ElementType::int8));
  }

  /// A node that runs nothing: who waits for it waits for what it waits for.
  void pass_on(std::size_t i) {
    for (const std::size_t k : order_.data[i])
      made_[i].data.insert(made_[i].data.end(), made_[k].data.begin(), made_[k].data.end());
    for (const std::size_t k : order_.control[i])
      made_[i].data.insert(made_[i].data.end(), made_[k].done.begin(), made_[k].done.end());
    made_[i].done = made_[i].data;
  }

  /// Tensors that stand for a node: its result, and that it is done.
  struct Made {
    std::vector<TensorId> data, done;
  };

  std::vector<ChakraNode> nodes_;
  ChakraOrder order_;
  std::vector<bool> token_;
  std::vector<Made> made_;
  std::map<std::string, std::int64_t> unmapped_;
  std::int64_t metadata_ = 0, payloads_ = 0;
  Imported out_;
};

}  // namespace

Imported import_chakra(const std::filesystem::path& file) {
  std::vector<ChakraNode> nodes = read_chakra_nodes(file);
  ChakraOrder order = chakra_order(file, nodes);
  Imported out = TraceGraph(std::move(nodes), std::move(order)).build();
  out.graph.name = file.stem().string();
  return out;
}

}  // namespace orrery::models
