// Chakra execution traces: what one rank ran, as a graph of measured ops.
//
// A compute node becomes a custom op with what the trace says of it (flops, runtime_s, is_cpu_op, and bytes of its
// output); collectives, sends and receives become communication ops of their size; loads and stores become copies
// between host and device. Dependencies are edges: a data dependency carries the producer's output, a control
// dependency an output without elements. Payloads of communication are inputs of the graph where no data dependency has
// their size. Read: .et files and JSON with `workload_graph`. Source: the schema 0.0.4 at github.com/mlcommons/chakra.
#include <chakra_trace.pb.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "models/graph/file_order.hpp"
#include "models/import/file_bytes.hpp"
#include "models/import/importer.hpp"
#include "sim/base/document.hpp"

namespace orrery::models {
namespace {

/// What either form says of a node.
struct TraceNode {
  std::uint64_t id = 0;
  std::string name;
  std::int64_t type = 0;
  std::vector<std::uint64_t> control, data;
  std::int64_t runtime_us = 0, flops = 0, tensor_bytes = 0, comm_bytes = 0, comm_type = -1, ranks = 0;
  std::optional<bool> cpu;
  std::string group;
};

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

/// Bytes of the tensors in a list as PyTorch writes it: [id, storage, offset, elements, bytes of one, 'device'].
std::int64_t listed_bytes(std::string_view values) {
  std::int64_t bytes = 0;
  std::vector<std::int64_t> entry;
  std::int64_t number = -1;
  for (const char c : values) {
    if (c >= '0' && c <= '9') {
      number = (number < 0 ? 0 : number) * 10 + (c - '0');
      if (number > (std::int64_t{1} << 48)) number = 0;
      continue;
    }
    if (number >= 0) entry.push_back(number);
    number = -1;
    if (c == '\'' && entry.size() == 5) bytes += entry[3] * entry[4];
    if (c == '[' || c == ']' || c == '\'') entry.clear();
  }
  return bytes;
}

std::int64_t integer_of(const chakra_file::Attribute& attribute) {
  using A = chakra_file::Attribute;
  switch (attribute.value_case()) {
    case A::kDoubleVal:
      return static_cast<std::int64_t>(attribute.double_val());
    case A::kFloatVal:
      return static_cast<std::int64_t>(attribute.float_val());
    case A::kInt32Val:
      return attribute.int32_val();
    case A::kInt64Val:
      return attribute.int64_val();
    case A::kUint32Val:
      return attribute.uint32_val();
    case A::kUint64Val:
      return static_cast<std::int64_t>(attribute.uint64_val());
    case A::kSint32Val:
      return attribute.sint32_val();
    case A::kSint64Val:
      return attribute.sint64_val();
    case A::kFixed32Val:
      return attribute.fixed32_val();
    case A::kFixed64Val:
      return static_cast<std::int64_t>(attribute.fixed64_val());
    case A::kSfixed32Val:
      return attribute.sfixed32_val();
    case A::kSfixed64Val:
      return attribute.sfixed64_val();
    case A::kBoolVal:
      return attribute.bool_val() ? 1 : 0;
    default:
      return 0;
  }
}

TraceNode node_of(const chakra_file::Node& source) {
  TraceNode node;
  node.id = source.id();
  node.name = source.name();
  node.type = source.type();
  node.control.assign(source.ctrl_deps().begin(), source.ctrl_deps().end());
  node.data.assign(source.data_deps().begin(), source.data_deps().end());
  node.runtime_us = static_cast<std::int64_t>(source.duration_micros());
  for (const chakra_file::Attribute& attribute : source.attr()) {
    if (attribute.name() == "num_ops") node.flops = integer_of(attribute);
    if (attribute.name() == "tensor_size") node.tensor_bytes = integer_of(attribute);
    if (attribute.name() == "comm_size") node.comm_bytes = integer_of(attribute);
    if (attribute.name() == "comm_type") node.comm_type = integer_of(attribute);
    if (attribute.name() == "is_cpu_op") node.cpu = integer_of(attribute) != 0;
    if (attribute.name() == "pg_name") node.group = attribute.string_val();
  }
  if (node.tensor_bytes == 0) node.tensor_bytes = listed_bytes(source.outputs().values());
  return node;
}

std::vector<TraceNode> binary_nodes(const std::string& file, const std::string& bytes) {
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream stream(&array);
  const auto damaged = [&](std::size_t messages) {
    sim::throw_fault({file, ""}, fmt::format("expected a whole Chakra trace, but it is damaged or cut off after {} "
                                             "messages, at byte {} of {}",
                                             messages, stream.CurrentPosition(), bytes.size()));
  };
  std::vector<TraceNode> nodes;
  chakra_file::Metadata metadata;
  chakra_file::Node message;
  for (std::size_t count = 0; stream.CurrentPosition() < static_cast<int>(bytes.size()); ++count) {
    std::uint32_t size = 0;
    if (!stream.ReadVarint32(&size) || size > bytes.size() - static_cast<std::size_t>(stream.CurrentPosition()))
      damaged(count);
    const auto limit = stream.PushLimit(static_cast<int>(size));
    const bool good = count == 0 ? metadata.ParseFromCodedStream(&stream) : message.ParseFromCodedStream(&stream);
    if (!good || stream.BytesUntilLimit() != 0) damaged(count);
    stream.PopLimit(limit);
    if (count > 0) nodes.push_back(node_of(message));
  }
  return nodes;
}

/// {"workload_graph": [{"Id", "Name", "NodeType", "runtime", "data_deps", "ctrlDeps", "is_cpu_op", …}]}
std::vector<TraceNode> json_nodes(const std::string& file, const std::string& bytes) {
  const sim::Node root = sim::parse_json(bytes, file);
  const sim::Node* list = root.find("workload_graph");
  if (list == nullptr || !list->is_array())
    sim::throw_fault(root.origin(),
                     root.find("nodes") != nullptr
                         ? "expected a Chakra trace, got one that PyTorch wrote: convert it with chakra_converter"
                         : "expected a Chakra trace with an array 'workload_graph'");
  std::vector<TraceNode> nodes;
  sim::Faults faults;
  const auto number = [&](const sim::Node& from, std::string_view key, std::int64_t fallback) {
    const sim::Node* value = from.find(key);
    if (value != nullptr && !value->is_number())
      faults.add(value->origin(), "expected a number, got " + value->shown());
    return value == nullptr || !value->is_number() ? fallback : static_cast<std::int64_t>(value->as_number());
  };
  for (const sim::Node& item : list->items()) {
    if (!item.is_object() || item.find("Id") == nullptr) {
      faults.add(item.origin(), "expected a node with an Id, got " + item.shown());
      continue;
    }
    TraceNode node;
    node.id = static_cast<std::uint64_t>(number(item, "Id", 0));
    if (const sim::Node* name = item.find("Name"); name != nullptr && name->is_string()) node.name = name->as_string();
    node.type = number(item, "NodeType", 0);
    node.runtime_us = number(item, "runtime", 0);
    node.flops = number(item, "num_ops", 0);
    node.tensor_bytes = number(item, "tensor_size", 0);
    node.comm_bytes = number(item, "comm_size", 0);
    node.comm_type = number(item, "comm_type", -1);
    if (const sim::Node* cpu = item.find("is_cpu_op")) node.cpu = cpu->as_boolean();
    for (const auto& [key, deps] :
         {std::pair{"data_deps", &node.data}, {"ctrlDeps", &node.control}, {"ctrl_deps", &node.control}})
      if (const sim::Node* ids = item.find(key); ids != nullptr)
        for (const sim::Node& id : ids->items()) deps->push_back(static_cast<std::uint64_t>(id.as_integer()));
    nodes.push_back(std::move(node));
  }
  faults.throw_if_any();
  return nodes;
}

/// Nodes into ops.
class TraceGraph {
 public:
  TraceGraph(std::string file, std::vector<TraceNode> nodes) : file_(std::move(file)), nodes_(std::move(nodes)) {}

  Imported build() {
    resolve();
    const std::vector<std::size_t> order = ordered();
    for (const std::vector<std::size_t>& waits : control_)
      for (const std::size_t k : waits) token_[k] = true;
    made_.resize(nodes_.size());
    for (const std::size_t i : order) add(i);
    for (const OpId id : out_.graph.ops())
      for (const TensorId tensor : out_.graph.op(id).outputs)
        if (out_.graph.consumers(tensor).empty()) out_.graph.mark_output(tensor);
    out_.unmapped.assign(unmapped_.begin(), unmapped_.end());
    note(metadata_, "metadata nodes run nothing and were left out");
    note(missing_, "dependencies name nodes that are not in the file and were left out");
    note(contradicting_, "control dependencies contradict the data dependencies and were left out");
    note(payloads_, "payloads of communication have no producer of their size and are inputs of the graph");
    return std::move(out_);
  }

 private:
  void note(std::int64_t count, std::string_view text) {
    if (count > 0) out_.notes.push_back(fmt::format("{} {}", count, text));
  }

  /// Nodes in an order of execution. What PyTorch calls control is who called whom, so a caller may wait for the kernel
  /// that it launched: where the two kinds of dependencies contradict each other, data decides.
  std::vector<std::size_t> ordered() {
    std::vector<std::vector<std::size_t>> both = data_;
    for (std::size_t i = 0; i < both.size(); ++i) both[i].insert(both[i].end(), control_[i].begin(), control_[i].end());
    FileOrder sorted = file_order(both);
    if (sorted.cycle.empty()) return std::move(sorted.order);
    sorted = file_order(data_);
    if (!sorted.cycle.empty()) {
      std::string names;
      for (const std::size_t i : sorted.cycle) names += fmt::format("{} '{}' -> ", nodes_[i].id, nodes_[i].name);
      sim::throw_fault({file_, ""},
                       fmt::format("the nodes are in a cycle: {}{}", names, nodes_[sorted.cycle.front()].id));
    }
    std::vector<std::size_t> place(nodes_.size());
    for (std::size_t i = 0; i < sorted.order.size(); ++i) place[sorted.order[i]] = i;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      contradicting_ +=
          static_cast<std::int64_t>(std::erase_if(control_[i], [&](std::size_t k) { return place[k] >= place[i]; }));
    return std::move(sorted.order);
  }

  /// Numbers of nodes for ids.
  void resolve() {
    std::unordered_map<std::uint64_t, std::size_t> places;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!places.try_emplace(nodes_[i].id, i).second)
        sim::throw_fault({file_, ""}, fmt::format("two nodes have the id {}", nodes_[i].id));
    data_.resize(nodes_.size());
    control_.resize(nodes_.size());
    token_.assign(nodes_.size(), false);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto find = [&](const std::vector<std::uint64_t>& ids, std::vector<std::size_t>& to) {
        for (const std::uint64_t id : ids) {
          const auto place = places.find(id);
          if (place == places.end())
            ++missing_;
          else if (std::find(to.begin(), to.end(), place->second) == to.end())
            to.push_back(place->second);
        }
      };
      find(nodes_[i].data, data_[i]);
      find(nodes_[i].control, control_[i]);
      std::erase_if(control_[i],
                    [&](std::size_t k) { return std::find(data_[i].begin(), data_[i].end(), k) != data_[i].end(); });
    }
  }

  std::optional<OpKind> kind_of(const TraceNode& node) const {
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
    const TraceNode& node = nodes_[i];
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

  void count_unmapped(const TraceNode& node, OpNode& op) {
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
    for (const std::size_t k : data_[i]) op.inputs.insert(op.inputs.end(), made_[k].data.begin(), made_[k].data.end());
    for (const std::size_t k : control_[i])
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
    for (const std::size_t k : data_[i])
      made_[i].data.insert(made_[i].data.end(), made_[k].data.begin(), made_[k].data.end());
    for (const std::size_t k : control_[i])
      made_[i].data.insert(made_[i].data.end(), made_[k].done.begin(), made_[k].done.end());
    made_[i].done = made_[i].data;
  }

  /// Tensors that stand for a node: its result, and that it is done.
  struct Made {
    std::vector<TensorId> data, done;
  };

  std::string file_;
  std::vector<TraceNode> nodes_;
  std::vector<std::vector<std::size_t>> data_, control_;
  std::vector<bool> token_;
  std::vector<Made> made_;
  std::map<std::string, std::int64_t> unmapped_;
  std::int64_t metadata_ = 0, missing_ = 0, payloads_ = 0, contradicting_ = 0;
  Imported out_;
};

}  // namespace

Imported import_chakra(const std::filesystem::path& file) {
  const std::string bytes = read_bytes(file);
  // A binary trace may start with '{' by accident (it is a size there), but does not end like a JSON file too.
  const auto first = bytes.find_first_not_of(" \t\r\n"), last = bytes.find_last_not_of(" \t\r\n");
  const bool json =
      first != std::string::npos && bytes[first] == '{' && (bytes[last] == '}' || file.extension() == ".json");
  std::vector<TraceNode> nodes = json ? json_nodes(file.string(), bytes) : binary_nodes(file.string(), bytes);
  if (nodes.empty()) sim::throw_fault({file.string(), ""}, "expected a Chakra trace with at least one node");
  Imported out = TraceGraph(file.string(), std::move(nodes)).build();
  out.graph.name = file.stem().string();
  return out;
}

}  // namespace orrery::models
