// The nodes of a Chakra execution trace, as the file has them: what one rank ran, and what waited for what.
//
// Read: .et files and JSON with `workload_graph`. Source: the schema 0.0.4 at github.com/mlcommons/chakra.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace orrery::models {

/// Kinds of nodes, by their number in the schema.
enum class ChakraKind : std::int64_t {
  metadata = 1,
  memory_load = 2,
  memory_store = 3,
  compute = 4,
  send = 5,
  receive = 6,
  collective = 7
};

/// What either form says of a node.
struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  std::int64_t type = 0;                     ///< a ChakraKind, or what the schema does not know
  std::vector<std::uint64_t> control, data;  ///< ids of nodes that it waits for
  std::int64_t runtime_us = 0, flops = 0, tensor_bytes = 0;
  std::int64_t comm_bytes = 0, comm_type = -1;          ///< of communication; collectives by their number in the schema
  std::int64_t source = -1, destination = -1, tag = 0;  ///< ranks of a send or receive
  std::optional<bool> cpu;
  std::string group;
};

/// All nodes, in the order of the file; at least one. Throws sim::ConfigError.
std::vector<ChakraNode> read_chakra_nodes(const std::filesystem::path& file);

/// The schema's number of the collective that a kernel is named for ("ncclKernel_AllReduce_RING_LL_Sum_float"); -1: of
/// none. For files that leave comm_type out.
std::int64_t chakra_type_by_name(const std::string& name);

/// Who waits for whom, by place in the file.
struct ChakraOrder {
  std::vector<std::vector<std::size_t>> data, control;  ///< what each node waits for, nothing twice
  std::vector<std::size_t> places;                      ///< all nodes in an order of execution
  std::int64_t missing = 0;                             ///< dependencies on nodes that are not in the file: left out
  std::int64_t contradicting = 0;                       ///< control dependencies left out
};
/// What PyTorch calls control is who called whom, so a caller may wait for the kernel that it launched: where the two
/// kinds of dependencies contradict each other, data decides. Throws sim::ConfigError for an id that is given twice and
/// for a cycle of data dependencies.
ChakraOrder chakra_order(const std::filesystem::path& file, const std::vector<ChakraNode>& nodes);

}  // namespace orrery::models
