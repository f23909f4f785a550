#include "hw/network/node_collective.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hw/network/expert_exchange.hpp"
#include "hw/network/library_estimates.hpp"

namespace orrery::hw {
namespace {

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

/// Rounds of a tree over `nodes`, one way.
double tree_depth(double nodes) {
  double rounds = 0;
  for (double reached = 1; reached < nodes; reached *= 2) ++rounds;
  return rounds;
}

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// Seconds of one hop between two devices of a node under `protocol`.
double step_seconds(const RingConstants& ring, const NodePlan& plan) {
  switch (plan.protocol) {
    case LibraryProtocol::ll:
      return ring.ll_step_s;
    case LibraryProtocol::ll128:
      return ring.ll128_step_s;
    default:
      return plan.tree ? kTreeChunk_s : ring.simple_step_s;
  }
}

/// Share of the adapters' bandwidth that data gets beside the protocol's flags.
double payload_share(const RingConstants& ring, LibraryProtocol protocol) {
  if (protocol == LibraryProtocol::ll) return ring.ll_efficiency;
  return protocol == LibraryProtocol::ll128 ? kLl128Payload : 1;
}

/// What a group has of a node's adapters.
double group_adapters(const NodeFabric& fabric, const RankGroup& group, double nic_bandwidth) {
  return static_cast<double>(fabric.nics * group.in_node) * nic_bandwidth / static_cast<double>(fabric.devices);
}

/// Every rank sends a part to each other one: those of its node over its link, the others through its share of the
/// adapters, both at once.
GroupCost all_to_all_across(const NodeFabric& fabric, const RankGroup& group, double bytes) {
  const double ranks = static_cast<double>(group.ranks), inside = static_cast<double>(group.in_node);
  const LinkParams& link = fabric.link;
  const double share =
      static_cast<double>(fabric.nics) * achieved_bandwidth(*fabric.nic) / static_cast<double>(fabric.devices);
  const double far = bytes * (ranks - inside) / ranks, near = bytes * (inside - 1) / ranks;
  const double local = near > 0 ? near / (link.ring.simple_efficiency * link.bandwidth) : 0;
  const double start = link.ring.base_s + link.ring.simple_start_s + message_latency(*fabric.nic);
  return {start + std::max(far / share, local), far * fabric.nic->byte_j + near * link.byte_j};
}

}  // namespace

RankGroup rank_group(const NodeFabric& fabric, std::int64_t ranks, std::int64_t stride) {
  const std::int64_t apart = std::max<std::int64_t>(1, stride);
  const std::int64_t fit = (fabric.devices + apart - 1) / apart;
  return {ranks, std::min(ranks, fit)};
}

GroupCost node_collective(const NodeFabric& fabric, LibraryCall call, const RankGroup& group, double bytes) {
  if (group.ranks < 2 || !(bytes > 0)) return {};
  const LinkParams& link = fabric.link;
  if (group.in_node == group.ranks || fabric.nic == nullptr) {
    const CollectiveCost inside = library_collective(link, call, group.ranks, whole_bytes(bytes));
    return {inside.time_s, inside.link_energy_j};
  }
  if (call == LibraryCall::all_to_all) return all_to_all_across(fabric, group, bytes);
  const double ranks = static_cast<double>(group.ranks), inside = static_cast<double>(group.in_node);
  const double nodes = std::ceil(ranks / inside);
  const double planned = std::min(group_adapters(fabric, group, fabric.nic->bandwidth),
                                  group.in_node > 1 ? link.planned_share * link.bandwidth : kUnbounded);
  const NodePlan plan = library_plan(call, group, bytes, planned, fabric.nic->rdma);
  const double wire = message_latency(*fabric.nic), step = step_seconds(link.ring, plan);
  double bandwidth = group_adapters(fabric, group, achieved_bandwidth(*fabric.nic));
  bandwidth *= payload_share(link.ring, plan.protocol) * (plan.tree ? 1 : fabric.nic->ring_share);
  if (group.in_node > 1) bandwidth = std::min(bandwidth, link.ring.simple_efficiency * link.bandwidth);
  const double passes = call == LibraryCall::all_reduce ? 2 : 1;
  double latency = passes * ((ranks - nodes) * step + (nodes - 1) * (wire + step));
  // Bytes that leave a node, and those that a rank sends over its link.
  double across = sent_share(call, ranks) * bytes, near = across * (1 - nodes / ranks);
  if (plan.tree) {
    latency = 2 * ((inside - 1) * step + tree_depth(nodes) * (wire + step));
    across = nodes > 2 ? 2 * bytes : bytes;
    near = 2 * bytes * (inside - 1) / inside;  // a chain, up and down again
  }
  const double start = link.ring.base_s + (plan.protocol == LibraryProtocol::ll ? 0 : link.ring.simple_start_s);
  return {start + latency + across / bandwidth, across * nodes / ranks * fabric.nic->byte_j + near * link.byte_j};
}

GroupCost routed_exchange(const NodeFabric& fabric, const RankGroup& group, double bytes, std::int64_t choices,
                          std::int64_t most_nodes) {
  if (group.ranks < 2 || !(bytes > 0)) return {};
  const std::int64_t rows = std::max<std::int64_t>(1, choices);
  const ExchangeShape shape{.tokens = 1,
                            .top_k = rows,
                            .gpus = group.ranks,
                            .node_gpus = group.in_node,
                            .node_limit = most_nodes,
                            .row_bytes = std::llround(bytes / static_cast<double>(rows))};
  const LinkParams& link = fabric.link;
  const bool one_node = group.in_node == group.ranks || fabric.nic == nullptr;
  ExchangeRates rates{.node = link.ring.simple_efficiency * link.bandwidth};
  if (!one_node)
    rates.nic =
        static_cast<double>(fabric.nics) * achieved_bandwidth(*fabric.nic) / static_cast<double>(fabric.devices);
  const ExchangeTime way = expert_exchange(ExchangeKernel::normal, shape, rates);
  if (one_node) return node_collective(fabric, LibraryCall::all_to_all, group, way.node_bytes);
  // What stays on its own rank is not sent.
  const double inside = static_cast<double>(group.in_node), near = way.node_bytes * (inside - 1) / inside;
  const double start = link.ring.base_s + link.ring.simple_start_s + message_latency(*fabric.nic);
  return {start + std::max(way.nic_bytes / rates.nic, near / rates.node),
          way.nic_bytes * fabric.nic->byte_j + near * link.byte_j};
}

GroupCost uneven_exchange(const NodeFabric& fabric, const RankGroup& group, std::span<const double> bytes) {
  const auto ranks = static_cast<std::size_t>(group.ranks), inside = static_cast<std::size_t>(group.in_node);
  const bool one_node = group.in_node == group.ranks || fabric.nic == nullptr;
  double near = 0, far = 0, sent_near = 0, sent_far = 0;  // the fullest ways; sums
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    double near_out = 0, near_in = 0, far_out = 0, far_in = 0;
    for (std::size_t other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      const bool same = one_node || rank / inside == other / inside;
      (same ? near_out : far_out) += bytes[rank * ranks + other];
      (same ? near_in : far_in) += bytes[other * ranks + rank];
    }
    near = std::max({near, near_out, near_in});
    far = std::max({far, far_out, far_in});
    sent_near += near_out;
    sent_far += far_out;
  }
  const double count = static_cast<double>(group.ranks);
  if (!(near + far > 0)) return {};
  if (!(far > 0)) {
    const std::int64_t together = one_node ? group.ranks : group.in_node;
    const RankGroup local{.ranks = together, .in_node = together};
    const double members = static_cast<double>(together);
    return {node_collective(fabric, LibraryCall::all_to_all, local, near * members / (members - 1)).time_s,
            sent_near / count * fabric.link.byte_j};
  }
  const LinkParams& link = fabric.link;
  const double share =
      static_cast<double>(fabric.nics) * achieved_bandwidth(*fabric.nic) / static_cast<double>(fabric.devices);
  const double start = link.ring.base_s + link.ring.simple_start_s + message_latency(*fabric.nic);
  return {start + std::max(far / share, near / (link.ring.simple_efficiency * link.bandwidth)),
          sent_far / count * fabric.nic->byte_j + sent_near / count * link.byte_j};
}

GroupCost node_message(const NodeFabric& fabric, std::int64_t stride, double bytes) {
  if (!(bytes > 0)) return {};
  if (stride < fabric.devices || fabric.nic == nullptr) {
    const CollectiveCost inside = library_collective(fabric.link, LibraryCall::send_recv, 2, whole_bytes(bytes));
    return {inside.time_s, inside.link_energy_j};
  }
  return message_between_nodes(fabric, fabric.devices, bytes);
}

GroupCost message_between_nodes(const NodeFabric& fabric, std::int64_t senders, double bytes) {
  if (!(bytes > 0)) return {};
  const auto nics = static_cast<double>(fabric.nics);
  const double own = std::min(1.0, nics / static_cast<double>(senders));
  const double adapters = std::max(own, nics / static_cast<double>(fabric.devices)) * achieved_bandwidth(*fabric.nic);
  return {fabric.link.peer.send_base_s + message_latency(*fabric.nic) + bytes / adapters, bytes * fabric.nic->byte_j};
}

}  // namespace orrery::hw
