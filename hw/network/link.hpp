// The links of a device inside its node, and the constants of the collective library that drives them.
//
// `bandwidth` is what one device can send while it receives as much (NVLink: all its links together, per direction).
// Where devices are joined directly, a pair has `pair_bandwidth` of it. Where pairs differ (the cube mesh of eight
// V100) `mesh` says how many links each has, and pair_bandwidth is that of one (hw/network/mesh.hpp); groups through
// which no ring closes take `far`. Where links join pairs only (bridges), `peers` is 2 and `far` is the path that a
// larger group has to take, PCIe as a rule; `peers` 1 is a device without links. The rest belongs to the closed forms
// of hw/network/library_collective.hpp, which holds their equations; parts of one generation share it. Left out: links
// of different speed inside one node other than `far`, and contention.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sim/base/params.hpp"

namespace orrery::hw {

/// Ring and chain collectives: all-reduce, all-gather, reduce-scatter, broadcast, reduce. Times in s.
struct RingConstants {
  double base_s = 7.8e-6;
  double ramp_s = 4e-6;
  std::int64_t ramp_bytes = 18000;
  double ll_step_s = 0.94e-6, ll_efficiency = 0.4;
  double ll128_step_s = 2e-6, ll128_efficiency = 0.44;
  double simple_start_s = 18e-6, simple_step_s = 9e-6, simple_efficiency = 0.8;
  double local_ratio = 1.4;
  static sim::FieldRows<RingConstants> fields();
};

/// All-reduce inside the switch (NVLink SHARP): the switch adds and copies.
struct InSwitchConstants {
  std::int64_t ranks = 0;
  double chunk_s = 7e-6;
  double efficiency = 0.68;
  static sim::FieldRows<InSwitchConstants> fields();
};

/// Messages between pairs: all-to-all, and send with its receive.
struct PeerConstants {
  double base_s = 11e-6;
  double per_peer_s = 0.33e-6;
  double ramp_s = 1.1e-6;
  std::int64_t ramp_bytes = 20000;
  double chunk_s = 3.4e-6;
  double efficiency = 0.8;
  double local_ratio = 1.4;
  double send_base_s = 1.3e-6;
  double send_ramp_s = 13e-6;
  std::int64_t send_ramp_bytes = 2000;
  double copy_bandwidth = 350e9;
  std::int64_t buffer_bytes = 33554432;
  static sim::FieldRows<PeerConstants> fields();
};

/// The path between ranks that the links do not join. `bandwidth` 0: there is none, all ranks are joined. A host whose
/// devices cannot reach each other copies through its memory; a group of more than `socket_ranks` has ranks on both its
/// sockets, and `socket_share` of the path is left to it.
struct FarConstants {
  double bandwidth = 0;
  double efficiency = 0.75;
  double step_s = 5e-6;
  double simple_start_s = 0;
  double local_bandwidth = 0;
  std::int64_t socket_ranks = 0;
  double socket_share = 1;
  static sim::FieldRows<FarConstants> fields();
};

/// What is left of a path's bandwidth where the ranks' parts of a buffer do not begin at multiples of 16 bytes: the
/// library then moves single elements instead of 16 bytes at once.
struct UnalignedConstants {
  double gather = 0.5;
  double reduce = 0.5;
  double peer = 0.5;
  static sim::FieldRows<UnalignedConstants> fields();
};

/// What measured collectives of a link say of the closed forms' times.
class CollectiveCorrection {
 public:
  virtual ~CollectiveCorrection() = default;
  /// What the time of a call of kind `call` (the number of a LibraryCall) is to be multiplied by; 1 for what was not
  /// measured.
  virtual double factor(int call, std::int64_t ranks, std::int64_t bytes) const = 0;
};

/// Link of a device into its node. Times in s, bandwidth in bytes/s, energy in J.
struct LinkParams {
  double bandwidth = 0;
  double pair_bandwidth = 0;
  std::string mesh;
  std::int64_t peers = 0;
  double byte_j = 0;
  double planned_share = 0.78;
  double ll_ceiling = 87.7e9;
  RingConstants ring;
  InSwitchConstants in_switch;
  PeerConstants peer;
  FarConstants far;
  UnalignedConstants unaligned;
  std::shared_ptr<const CollectiveCorrection> correction;  ///< of the device's cost model; null: none

  static sim::FieldRows<LinkParams> fields();
  /// Faults that no single field shows. A part calls it with the node of its link.
  static void check(const LinkParams& link, const sim::Node& fields, sim::Faults& faults);
};

}  // namespace orrery::hw
