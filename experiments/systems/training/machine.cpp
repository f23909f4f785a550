#include "experiments/systems/training/machine.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::experiments::training {
namespace {

using hw::LibraryCall;

/// Bytes that a rank sends over bytes of the buffer.
double sent_share(LibraryCall call, double ranks) {
  switch (call) {
    case LibraryCall::all_reduce:
      return 2 * (ranks - 1) / ranks;
    case LibraryCall::broadcast:
    case LibraryCall::reduce:
    case LibraryCall::send_recv:
      return 1;
    default:
      return (ranks - 1) / ranks;
  }
}

std::int64_t whole_bytes(double bytes) {
  return static_cast<std::int64_t>(std::ceil(bytes));
}

/// Rounds of a tree over `nodes`: up, and down again.
double tree_rounds(double nodes) {
  double rounds = 0;
  for (double reached = 1; reached < nodes; reached *= 2) ++rounds;
  return 2 * rounds;
}

}  // namespace

std::optional<std::string> machine_obstacle(const TrainingMachine& machine, std::int64_t ranks) {
  const std::int64_t in_node = std::min(ranks, machine.node_devices);
  return in_node > 1 ? machine.device.rank_obstacle(in_node) : std::nullopt;
}

RankGroup rank_group(const TrainingMachine& machine, std::int64_t ranks, std::int64_t stride) {
  const std::int64_t apart = std::max<std::int64_t>(1, stride);
  const std::int64_t fit = (machine.node_devices + apart - 1) / apart;
  return {ranks, std::min(ranks, fit)};
}

double collective_s(const TrainingMachine& machine, LibraryCall call, const RankGroup& group, double bytes) {
  if (group.ranks < 2 || !(bytes > 0)) return 0;
  const hw::LinkParams& link = machine.device.link;
  if (group.in_node == group.ranks || !machine.nics)
    return hw::library_collective(link, call, group.ranks, whole_bytes(bytes)).time_s / machine.in_situ.collective;
  const double ranks = static_cast<double>(group.ranks), inside = static_cast<double>(group.in_node);
  const double nodes = std::ceil(ranks / inside);
  // The group's share of the node's adapters, at the share of a link that the library's large messages reach.
  const double adapters = static_cast<double>(machine.nics->count) * hw::achieved_bandwidth(machine.nics->nic) *
                          inside / static_cast<double>(machine.node_devices);
  double bandwidth = adapters;
  if (group.in_node > 1) bandwidth = std::min(bandwidth, link.ring.simple_efficiency * link.bandwidth);
  const double steps = call == LibraryCall::all_reduce ? 2 * (ranks - 1) : ranks - 1;
  const double hops = call == LibraryCall::all_reduce ? 2 * (nodes - 1) : nodes - 1;
  const double wire = hw::message_latency(machine.nics->nic);
  const double ring = (steps - hops) * link.ring.ll128_step_s + hops * (wire + link.ring.ll128_step_s);
  const double tree = tree_rounds(nodes) * (wire + link.ring.ll128_step_s) + 2 * (inside - 1) * link.ring.ll128_step_s;
  const double latency = call == LibraryCall::all_reduce ? std::min(ring, tree) : ring;
  const double start = link.ring.base_s + link.ring.simple_start_s;
  return (start + latency + sent_share(call, ranks) * bytes / bandwidth) / machine.in_situ.collective;
}

double message_s(const TrainingMachine& machine, std::int64_t stride, double bytes) {
  if (!(bytes > 0)) return 0;
  if (stride < machine.node_devices || !machine.nics)
    return hw::library_collective(machine.device.link, LibraryCall::send_recv, 2, whole_bytes(bytes)).time_s /
           machine.in_situ.collective;
  const double adapters = static_cast<double>(machine.nics->count) * hw::achieved_bandwidth(machine.nics->nic) /
                          static_cast<double>(machine.node_devices);
  return (machine.device.link.peer.send_base_s + hw::message_latency(machine.nics->nic) + bytes / adapters) /
         machine.in_situ.collective;
}

}  // namespace orrery::experiments::training
