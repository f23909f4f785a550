#include "hw/network/library_collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "hw/network/library_estimates.hpp"
#include "hw/network/mesh.hpp"

namespace orrery::hw {
namespace {

/// Steps of the ring or chain, bytes that a rank sends, and the shard that it handles itself.
struct Shape {
  double steps = 0, sent = 0, own = 0;
};

Shape shape_of(LibraryCall call, double n, double size) {
  switch (call) {
    case LibraryCall::all_reduce:
      return {2 * (n - 1), 2 * (n - 1) / n * size, size / n};
    case LibraryCall::all_gather:
    case LibraryCall::reduce_scatter:
    case LibraryCall::all_to_all:
      return {n - 1, (n - 1) / n * size, size / n};
    case LibraryCall::broadcast:
    case LibraryCall::reduce:
      return {n - 1, size, 0};
    case LibraryCall::send_recv:
      break;
  }
  return {1, size, 0};
}

/// What a rank can send to all its peers in a group of n.
double peer_bandwidth_of(const LinkParams& link, double n) {
  if (!link.mesh.empty())
    return (n - 1) * link.pair_bandwidth * mesh_of(link.mesh).rates(static_cast<std::int64_t>(n)).peer;
  return link.pair_bandwidth > 0 ? std::min(link.bandwidth, (n - 1) * link.pair_bandwidth) : link.bandwidth;
}

/// What a rank can send along the rings of a group of n: both ways of each.
double ring_bandwidth_of(const LinkParams& link, double n) {
  if (!link.mesh.empty() && n > 2)
    return 2 * link.pair_bandwidth * static_cast<double>(mesh_of(link.mesh).rates(static_cast<std::int64_t>(n)).rings);
  return peer_bandwidth_of(link, n);
}

/// Share of the bandwidth that a call keeps. One buffer as a whole is cut where the library likes.
double kept_share(const LinkParams& link, LibraryCall call, PartAlignment parts) {
  if (parts == PartAlignment::full) return 1;
  switch (call) {
    case LibraryCall::all_gather:
      return link.unaligned.gather;
    case LibraryCall::reduce_scatter:
      return link.unaligned.reduce;
    case LibraryCall::all_to_all:
      return link.unaligned.peer;
    default:
      return 1;
  }
}

/// Share of a ramp that a message of `size` has behind it.
double risen(double size, std::int64_t half) {
  return size / (size + static_cast<double>(half));
}

constexpr double kSwitchEstimate_s = 25e-6;

/// The library's estimate of a ring under a protocol on a path of bandwidth `planned`, s.
double estimated(const LinkParams& link, const RingEstimate& estimate, double planned, const Shape& shape) {
  double bandwidth = planned;
  if (estimate.protocol == LibraryProtocol::ll) bandwidth = std::min(link.ll_ceiling, planned / 2);
  if (estimate.protocol == LibraryProtocol::ll128) bandwidth = kLl128Share * planned;
  return estimate.base_s + estimate.inner_s * shape.steps + shape.sent / bandwidth;
}

/// Whether the library leaves protocol LL on the far path. LL128 needs links between devices.
bool far_is_simple(const LinkParams& link, const Shape& shape) {
  const double planned = link.planned_share * link.far.bandwidth;
  return estimated(link, kSimpleEstimate, planned, shape) < estimated(link, kLlEstimate, planned, shape);
}

/// What the far path gives to a group of n.
double far_bandwidth(const LinkParams& link, double n) {
  const FarConstants& far = link.far;
  const bool both = far.socket_ranks > 0 && n > static_cast<double>(far.socket_ranks);
  return far.efficiency * far.bandwidth * (both ? far.socket_share : 1);
}

LibraryProtocol choose(const LinkParams& link, LibraryCall call, double n, const Shape& shape) {
  const double planned = link.planned_share * ring_bandwidth_of(link, n);
  LibraryProtocol best = LibraryProtocol::ll;
  double least = std::numeric_limits<double>::infinity();
  for (const RingEstimate& estimate : kRingEstimates) {
    const double t = estimated(link, estimate, planned, shape);
    if (t >= least) continue;
    least = t;
    best = estimate.protocol;
  }
  const bool in_switch =
      call == LibraryCall::all_reduce && link.in_switch.ranks > 0 && n >= static_cast<double>(link.in_switch.ranks);
  if (in_switch && kSwitchEstimate_s + shape.sent / planned < least) best = LibraryProtocol::in_switch;
  return best;
}

/// A device's own shard beside a far path.
double far_own(const LinkParams& link, const Shape& shape) {
  return link.far.local_bandwidth > 0 ? shape.own / link.far.local_bandwidth : 0;
}

double ring_seconds(const LinkParams& link, LibraryProtocol protocol, const Shape& shape, double n, double size,
                    double kept) {
  const RingConstants& c = link.ring;
  const double bandwidth = ring_bandwidth_of(link, n);
  const double own = shape.own / (c.local_ratio * bandwidth), moved = shape.sent / kept;
  switch (protocol) {
    case LibraryProtocol::ll:
      return c.base_s + shape.steps * c.ll_step_s + c.ramp_s * risen(size, c.ramp_bytes) +
             moved / (c.ll_efficiency * bandwidth);
    case LibraryProtocol::ll128:
      return c.base_s + c.ramp_s + shape.steps * c.ll128_step_s + moved / (c.ll128_efficiency * bandwidth) + own;
    case LibraryProtocol::in_switch: {
      const double transfer = (1 + 1 / n) * size / (link.in_switch.efficiency * bandwidth);
      return c.base_s + c.simple_start_s + transfer + 2 * std::sqrt(link.in_switch.chunk_s * transfer);
    }
    case LibraryProtocol::far:
      return c.base_s + c.ramp_s * risen(size, c.ramp_bytes) + shape.steps * link.far.step_s +
             (far_is_simple(link, shape) ? link.far.simple_start_s : 0) + moved / far_bandwidth(link, n) +
             far_own(link, shape);
    default:
      return c.base_s + c.simple_start_s + shape.steps * c.simple_step_s + moved / (c.simple_efficiency * bandwidth) +
             own;
  }
}

double all_to_all_seconds(const LinkParams& link, bool far, const Shape& shape, double n, double kept) {
  const PeerConstants& c = link.peer;
  const double path = far ? far_bandwidth(link, n) : c.efficiency * peer_bandwidth_of(link, n);
  const double own = far ? far_own(link, shape) : shape.own / (c.local_ratio * ring_bandwidth_of(link, n));
  const double transfer = shape.sent / (kept * path) + own;
  return c.base_s + c.per_peer_s * (n - 2) + c.ramp_s * risen(shape.own, c.ramp_bytes) + transfer +
         2 * std::sqrt(c.chunk_s * transfer);
}

/// Whether the links join a group of so many.
bool joined(const LinkParams& link, std::int64_t ranks) {
  if (link.peers > 0 && ranks > link.peers) return false;
  return link.mesh.empty() || ranks <= 2 || mesh_of(link.mesh).rates(ranks).rings > 0;
}

void check_mesh(const LinkParams& link, const sim::Node& fields, sim::Faults& faults) {
  std::string fault;
  const std::optional<DeviceMesh> mesh = DeviceMesh::parse(link.mesh, fault);
  if (!mesh) return faults.add(fields.origin_at("mesh"), fault);
  if (link.pair_bandwidth <= 0)
    faults.add(fields.origin_at("pair_bandwidth"), "expected > 0 B/s, what a link of the mesh has");
  for (std::int64_t ranks = 3; ranks <= mesh->devices(); ++ranks)
    if (mesh->rates(ranks).rings == 0 && link.far.bandwidth == 0)
      return faults.add(fields.origin_at("far.bandwidth"),
                        fmt::format("expected > 0 B/s where no ring of the mesh joins {} devices", ranks));
}

}  // namespace

void LinkParams::check(const LinkParams& link, const sim::Node& fields, sim::Faults& faults) {
  if (link.peers > 0 && link.far.bandwidth == 0)
    faults.add(fields.origin_at("far.bandwidth"),
               "expected > 0 B/s where the links join " + std::to_string(link.peers) + " ranks only (peers)");
  if (!link.mesh.empty()) check_mesh(link, fields, faults);
  if (link.pair_bandwidth > link.bandwidth)
    faults.add(fields.origin_at("pair_bandwidth"),
               "expected at most bandwidth = " + sim::humanise(link.bandwidth, sim::Unit::bytes_per_s) + ", got " +
                   sim::humanise(link.pair_bandwidth, sim::Unit::bytes_per_s));
}

LibraryProtocol library_protocol(const LinkParams& link, LibraryCall call, std::int64_t ranks, std::int64_t bytes) {
  if (call != LibraryCall::send_recv && ranks <= 1) return LibraryProtocol::none;
  if (bytes <= 0) return LibraryProtocol::none;
  if (link.far.bandwidth > 0 && !joined(link, ranks)) return LibraryProtocol::far;
  if (call == LibraryCall::all_to_all || call == LibraryCall::send_recv) return LibraryProtocol::peer;
  const double n = static_cast<double>(ranks);
  return choose(link, call, n, shape_of(call, n, static_cast<double>(bytes)));
}

namespace {

/// By the equations alone.
CollectiveCost closed_form(const LinkParams& link, LibraryCall call, std::int64_t ranks, std::int64_t bytes,
                           PartAlignment parts) {
  CollectiveCost cost;
  cost.protocol = library_protocol(link, call, ranks, bytes);
  if (cost.protocol == LibraryProtocol::none) return cost;
  const double n = static_cast<double>(ranks), size = static_cast<double>(bytes);
  const Shape shape = shape_of(call, n, size);
  const bool far = cost.protocol == LibraryProtocol::far;
  cost.link_bytes = cost.protocol == LibraryProtocol::in_switch ? (1 + 1 / n) * size : shape.sent;
  cost.link_energy_j = cost.link_bytes * link.byte_j;
  if (call == LibraryCall::send_recv) {
    const PeerConstants& c = link.peer;
    const double start = c.send_base_s + c.send_ramp_s * risen(size, c.send_ramp_bytes);
    const double path = far ? far_bandwidth(link, n) : c.efficiency * peer_bandwidth_of(link, 2);
    cost.time_s = start + size / path;
    const bool fits = !far && bytes <= c.buffer_bytes;
    cost.sender_s = fits ? std::min(cost.time_s, start + size / c.copy_bandwidth) : cost.time_s;
    return cost;
  }
  const double kept = kept_share(link, call, parts);
  cost.time_s = call == LibraryCall::all_to_all ? all_to_all_seconds(link, far, shape, n, kept)
                                                : ring_seconds(link, cost.protocol, shape, n, size, kept);
  cost.sender_s = cost.time_s;
  return cost;
}

}  // namespace

CollectiveCost library_collective(const LinkParams& link, LibraryCall call, std::int64_t ranks, std::int64_t bytes,
                                  PartAlignment parts) {
  CollectiveCost cost = closed_form(link, call, ranks, bytes, parts);
  if (link.correction == nullptr || cost.protocol == LibraryProtocol::none) return cost;
  const double factor = link.correction->factor(static_cast<int>(call), ranks, bytes);
  cost.time_s *= factor, cost.sender_s *= factor;
  return cost;
}

LinkParams plain_link(double bandwidth, double latency_s) {
  LinkParams link;
  link.bandwidth = bandwidth;
  link.planned_share = 1;
  link.ring = {};
  link.ring.ll_step_s = link.ring.ll128_step_s = link.ring.simple_step_s = latency_s;
  link.ring.ll_efficiency = link.ring.ll128_efficiency = link.ring.simple_efficiency = 1;
  link.ring.local_ratio = link.peer.local_ratio = std::numeric_limits<double>::infinity();
  link.ring.base_s = link.ring.ramp_s = link.ring.simple_start_s = 0;
  link.peer.base_s = link.peer.per_peer_s = link.peer.send_base_s = latency_s;
  link.peer.ramp_s = link.peer.send_ramp_s = link.peer.chunk_s = 0;
  link.peer.efficiency = 1;
  link.peer.buffer_bytes = 0;
  return link;
}

}  // namespace orrery::hw
