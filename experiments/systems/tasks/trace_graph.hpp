// The nodes of all ranks as one task graph.
//
// A rank has a device and a CPU, each of which does one node at a time, in the order in which they become ready. A
// compute node runs on the device (or, if the trace says so, the CPU) for the time recorded or priced; loads and stores
// take the time recorded beside them. A send is a flow to the rank it names; the receive that matches it (same two
// ranks and tag, in the order of the files) waits for it. A collective is a task of every rank in it, and they meet:
// the k-th of a kind and group of each rank is the same one. Nodes that run nothing pass on what they wait for.
#pragma once

#include <string>
#include <vector>

#include "experiments/systems/tasks/config.hpp"
#include "hw/network/collective.hpp"
#include "sim/base/units.hpp"
#include "sim/task/graph.hpp"

namespace orrery::experiments::tasks {

enum class TaskKind : std::uint8_t { compute, cpu, memory, send, receive, collective, other };
constexpr auto enum_names(TaskKind) {
  using enum TaskKind;
  return sim::names<TaskKind>({{"compute", compute},
                               {"cpu", cpu},
                               {"memory", memory},
                               {"send", send},
                               {"receive", receive},
                               {"collective", collective},
                               {"other", other}});
}

/// What a task of the graph stands for.
struct TracedTask {
  std::int32_t rank = 0;
  TaskKind kind = TaskKind::other;
  const models::ChakraNode* node = nullptr;
  std::int64_t bytes = 0;        ///< of communication
  std::int32_t peer = -1;        ///< of a send: to; of a receive: from
  std::int32_t collective = -1;  ///< index, …
  std::int32_t member = 0;       ///< … and the rank's place in it
};

/// Ranks that meet.
struct TracedCollective {
  hw::CollectiveKind kind = hw::CollectiveKind::all_reduce;
  std::int64_t bytes = 0;  ///< as hw::CollectiveSpec counts
  std::vector<std::int32_t> ranks;
  std::string name;
};

struct TraceGraph {
  sim::TaskGraph graph;
  std::vector<TracedTask> tasks;  ///< by id
  std::vector<TracedCollective> collectives;
};

/// Throws sim::ConfigError: receives that no send matches, collectives whose ranks do not agree, kinds that no
/// algorithm does, compute nodes without a time where there is no device.
TraceGraph make_trace_graph(const TasksConfig& config, const sim::TickScale& scale);

}  // namespace orrery::experiments::tasks
