#include "models/import/chakra_nodes.hpp"

#include <chakra_trace.pb.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <utility>

#include "models/graph/file_order.hpp"
#include "models/import/file_bytes.hpp"
#include "models/import/protobuf_log.hpp"
#include "sim/base/document.hpp"

namespace orrery::models {
namespace {

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

ChakraNode node_of(const chakra_file::Node& source) {
  ChakraNode node;
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
    if (attribute.name() == "comm_src") node.source = integer_of(attribute);
    if (attribute.name() == "comm_dst") node.destination = integer_of(attribute);
    if (attribute.name() == "comm_tag") node.tag = integer_of(attribute);
    if (attribute.name() == "is_cpu_op") node.cpu = integer_of(attribute) != 0;
    if (attribute.name() == "pg_name") node.group = attribute.string_val();
  }
  if (node.tensor_bytes == 0) node.tensor_bytes = listed_bytes(source.outputs().values());
  return node;
}

std::vector<ChakraNode> binary_nodes(const std::string& file, const std::string& bytes) {
  silence_protobuf();
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream stream(&array);
  const auto damaged = [&](std::size_t messages) {
    sim::throw_fault({file, ""}, fmt::format("expected a whole Chakra trace, but it is damaged or cut off after {} "
                                             "messages, at byte {} of {}",
                                             messages, stream.CurrentPosition(), bytes.size()));
  };
  std::vector<ChakraNode> nodes;
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
std::vector<ChakraNode> json_nodes(const std::string& file, const std::string& bytes) {
  const sim::Node root = sim::parse_json(bytes, file);
  const sim::Node* list = root.find("workload_graph");
  if (list == nullptr || !list->is_array())
    sim::throw_fault(root.origin(),
                     root.find("nodes") != nullptr
                         ? "expected a Chakra trace, got one that PyTorch wrote: convert it with chakra_converter"
                         : "expected a Chakra trace with an array 'workload_graph'");
  std::vector<ChakraNode> nodes;
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
    ChakraNode node;
    node.id = static_cast<std::uint64_t>(number(item, "Id", 0));
    if (const sim::Node* name = item.find("Name"); name != nullptr && name->is_string()) node.name = name->as_string();
    node.type = number(item, "NodeType", 0);
    node.runtime_us = number(item, "runtime", 0);
    node.flops = number(item, "num_ops", 0);
    node.tensor_bytes = number(item, "tensor_size", 0);
    node.comm_bytes = number(item, "comm_size", 0);
    node.comm_type = number(item, "comm_type", -1);
    node.source = number(item, "comm_src", -1);
    node.destination = number(item, "comm_dst", -1);
    node.tag = number(item, "comm_tag", 0);
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

}  // namespace

std::int64_t chakra_type_by_name(const std::string& name) {
  std::string plain;
  for (const char c : name)
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::pair<std::string_view, std::int64_t> kNames[] = {
      {"allreduce", 0}, {"allgather", 2}, {"broadcast", 5}, {"alltoall", 6}, {"reducescatter", 7}, {"barrier", 9}};
  for (const auto& [part, type] : kNames)
    if (plain.find(part) != std::string::npos) return type;
  return -1;
}

ChakraOrder chakra_order(const std::filesystem::path& file, const std::vector<ChakraNode>& nodes) {
  std::unordered_map<std::uint64_t, std::size_t> places;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!places.try_emplace(nodes[i].id, i).second)
      sim::throw_fault({file.string(), ""}, fmt::format("two nodes have the id {}", nodes[i].id));
  ChakraOrder out;
  out.data.resize(nodes.size());
  out.control.resize(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto find = [&](const std::vector<std::uint64_t>& ids, std::vector<std::size_t>& to) {
      for (const std::uint64_t id : ids) {
        const auto place = places.find(id);
        if (place == places.end())
          ++out.missing;
        else if (std::find(to.begin(), to.end(), place->second) == to.end())
          to.push_back(place->second);
      }
    };
    find(nodes[i].data, out.data[i]);
    find(nodes[i].control, out.control[i]);
    std::erase_if(out.control[i], [&](std::size_t k) {
      return std::find(out.data[i].begin(), out.data[i].end(), k) != out.data[i].end();
    });
  }
  std::vector<std::vector<std::size_t>> both = out.data;
  for (std::size_t i = 0; i < both.size(); ++i)
    both[i].insert(both[i].end(), out.control[i].begin(), out.control[i].end());
  FileOrder sorted = file_order(both);
  if (sorted.cycle.empty()) {
    out.places = std::move(sorted.order);
    return out;
  }
  sorted = file_order(out.data);
  if (!sorted.cycle.empty()) {
    std::string names;
    for (const std::size_t i : sorted.cycle) names += fmt::format("{} '{}' -> ", nodes[i].id, nodes[i].name);
    sim::throw_fault({file.string(), ""},
                     fmt::format("the nodes are in a cycle: {}{}", names, nodes[sorted.cycle.front()].id));
  }
  std::vector<std::size_t> rank(nodes.size());
  for (std::size_t i = 0; i < sorted.order.size(); ++i) rank[sorted.order[i]] = i;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    out.contradicting +=
        static_cast<std::int64_t>(std::erase_if(out.control[i], [&](std::size_t k) { return rank[k] >= rank[i]; }));
  out.places = std::move(sorted.order);
  return out;
}

std::vector<ChakraNode> read_chakra_nodes(const std::filesystem::path& file) {
  const std::string bytes = read_bytes(file);
  // A binary trace may start with '{' by accident (it is a size there), but does not end like a JSON file too.
  const auto first = bytes.find_first_not_of(" \t\r\n"), last = bytes.find_last_not_of(" \t\r\n");
  const bool json =
      first != std::string::npos && bytes[first] == '{' && (bytes[last] == '}' || file.extension() == ".json");
  std::vector<ChakraNode> nodes = json ? json_nodes(file.string(), bytes) : binary_nodes(file.string(), bytes);
  if (nodes.empty()) sim::throw_fault({file.string(), ""}, "expected a Chakra trace with at least one node");
  return nodes;
}

}  // namespace orrery::models
