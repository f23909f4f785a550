// The links of a device inside its node, and the constants of the collective library that drives them.
//
// `bandwidth` is what one device can send while it receives as much (NVLink: all its links together, per direction).
// Where devices are joined directly, a pair has `pair_bandwidth` of it, and where pairs differ (the cube mesh of eight
// V100) four have `quad_bandwidth`, and `relayed_bandwidth` is what an all-to-all among more reaches. Where links join
// pairs only (bridges), `peers` is 2 and `far` is the path that a larger group has to take, PCIe as a rule; `peers` 1
// is a device without links. The rest belongs to the closed forms of hw/network/library_collective.hpp, which holds
// their equations; parts of one generation share it. Left out: links of different speed inside one node other than
// `far`, and contention.
#pragma once

#include <cstdint>

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
  static constexpr auto fields() {
    using sim::Unit;
    constexpr sim::Range kShare = sim::between(0.01, 1);
    return sim::FieldTable{
        sim::field("base", &RingConstants::base_s, Unit::seconds, sim::at_least(0),
                   "A collective of next to no bytes."),
        sim::field("ramp", &RingConstants::ramp_s, Unit::seconds, sim::at_least(0),
                   "Added once the message has put every channel to work."),
        sim::field("ramp_bytes", &RingConstants::ramp_bytes, Unit::bytes, sim::at_least(1),
                   "Message with half of `ramp`."),
        sim::field("ll_step", &RingConstants::ll_step_s, Unit::seconds, sim::at_least(0),
                   "A step of the ring under protocol LL (a flag with every 4 bytes)."),
        sim::field("ll_efficiency", &RingConstants::ll_efficiency, Unit::ratio, kShare, "Share of the link under LL."),
        sim::field("ll128_step", &RingConstants::ll128_step_s, Unit::seconds, sim::at_least(0),
                   "A step under protocol LL128 (a flag with every 120 bytes)."),
        sim::field("ll128_efficiency", &RingConstants::ll128_efficiency, Unit::ratio, kShare,
                   "Share of the link under LL128."),
        sim::field("simple_start", &RingConstants::simple_start_s, Unit::seconds, sim::at_least(0),
                   "Added under protocol Simple: the first chunk through the buffers."),
        sim::field("simple_step", &RingConstants::simple_step_s, Unit::seconds, sim::at_least(0),
                   "A step under Simple (a fence and a flag for a chunk)."),
        sim::field("simple_efficiency", &RingConstants::simple_efficiency, Unit::ratio, kShare,
                   "Share of the link under Simple."),
        sim::field("local_ratio", &RingConstants::local_ratio, Unit::none, sim::between(0.1, 20),
                   "How fast a device handles its own shard, in link bandwidths."),
    };
  }
};

/// All-reduce inside the switch (NVLink SHARP): the switch adds and copies.
struct InSwitchConstants {
  std::int64_t ranks = 0;
  double chunk_s = 7e-6;
  double efficiency = 0.68;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("ranks", &InSwitchConstants::ranks, Unit::count, sim::at_least(0),
                   "Smallest group for which the library uses it; 0: never."),
        sim::field("chunk", &InSwitchConstants::chunk_s, Unit::seconds, sim::at_least(0),
                   "Overhead of one pipelined chunk; the best chunking costs twice the root of chunk times transfer."),
        sim::field("efficiency", &InSwitchConstants::efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Share of the link."),
    };
  }
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
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("base", &PeerConstants::base_s, Unit::seconds, sim::at_least(0), "All-to-all between two."),
        sim::field("per_peer", &PeerConstants::per_peer_s, Unit::seconds, sim::at_least(0),
                   "Added for every peer after the first."),
        sim::field("ramp", &PeerConstants::ramp_s, Unit::seconds, sim::at_least(0),
                   "Added once the message to a peer is past protocol LL."),
        sim::field("ramp_bytes", &PeerConstants::ramp_bytes, Unit::bytes, sim::at_least(1),
                   "Message to a peer with half of `ramp`."),
        sim::field("chunk", &PeerConstants::chunk_s, Unit::seconds, sim::at_least(0),
                   "Overhead of one pipelined chunk of an all-to-all."),
        sim::field("efficiency", &PeerConstants::efficiency, Unit::ratio, sim::between(0.01, 1), "Share of the link."),
        sim::field("local_ratio", &PeerConstants::local_ratio, Unit::none, sim::between(0.1, 20),
                   "How fast a device copies its own part of an all-to-all, in link bandwidths."),
        sim::field("send_base", &PeerConstants::send_base_s, Unit::seconds, sim::at_least(0), "Send of no bytes."),
        sim::field("send_ramp", &PeerConstants::send_ramp_s, Unit::seconds, sim::at_least(0),
                   "Added once a send is past protocol LL."),
        sim::field("send_ramp_bytes", &PeerConstants::send_ramp_bytes, Unit::bytes, sim::at_least(1),
                   "Send with half of `send_ramp`."),
        sim::field("copy_bandwidth", &PeerConstants::copy_bandwidth, Unit::bytes_per_s, sim::positive(),
                   "Rate at which a sender fills the library's buffers."),
        sim::field("buffer", &PeerConstants::buffer_bytes, Unit::bytes, sim::at_least(0),
                   "What these buffers hold: a send of no more ends when it is copied."),
    };
  }
};

/// The path between ranks that the links do not join. `bandwidth` 0: there is none, all ranks are joined.
struct FarConstants {
  double bandwidth = 0;
  double efficiency = 0.75;
  double step_s = 5e-6;
  double local_bandwidth = 0;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("bandwidth", &FarConstants::bandwidth, Unit::bytes_per_s, sim::at_least(0),
                   "Peak of the path, per direction; 0: links join all ranks."),
        sim::field("efficiency", &FarConstants::efficiency, Unit::ratio, sim::between(0.01, 1), "Share of that."),
        sim::field("step", &FarConstants::step_s, Unit::seconds, sim::at_least(0), "A step of a ring over it."),
        sim::field("local_bandwidth", &FarConstants::local_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                   "Rate at which a device handles its own shard meanwhile; 0: at no cost."),
    };
  }
};

/// What is left of a path's bandwidth where the ranks' parts of a buffer do not begin at multiples of 16 bytes: the
/// library then moves single elements instead of 16 bytes at once.
struct UnalignedConstants {
  double gather = 0.5;
  double reduce = 0.5;
  double peer = 0.5;
  static constexpr auto fields() {
    using sim::Unit;
    constexpr sim::Range kShare = sim::between(0.01, 1);
    return sim::FieldTable{
        sim::field("gather", &UnalignedConstants::gather, Unit::ratio, kShare, "Share left to an all_gather."),
        sim::field("reduce", &UnalignedConstants::reduce, Unit::ratio, kShare, "Share left to a reduce_scatter."),
        sim::field("peer", &UnalignedConstants::peer, Unit::ratio, kShare, "Share left to an all_to_all."),
    };
  }
};

/// Link of a device into its node. Times in s, bandwidth in bytes/s, energy in J.
struct LinkParams {
  double bandwidth = 0;
  double pair_bandwidth = 0;
  double quad_bandwidth = 0;
  double relayed_bandwidth = 0;
  std::int64_t peers = 0;
  double byte_j = 0;
  double planned_share = 0.78;
  double ll_ceiling = 87.7e9;
  RingConstants ring;
  InSwitchConstants in_switch;
  PeerConstants peer;
  FarConstants far;
  UnalignedConstants unaligned;

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("bandwidth", &LinkParams::bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Peak a device sends, per direction, over all its links.")),
        sim::field("pair_bandwidth", &LinkParams::pair_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                   "Links that join one pair, where there is no switch: n ranks use n-1 times as much. 0: a switch."),
        sim::field("quad_bandwidth", &LinkParams::quad_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                   "What a rank sends in a ring of three or four of such a mesh; 0: as many pairs as it has peers."),
        sim::field("relayed_bandwidth", &LinkParams::relayed_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                   "What it sends in an all-to-all among more than four, part of it through others; 0: no relays."),
        sim::field("peers", &LinkParams::peers, Unit::count, sim::at_least(0),
                   "Ranks that the links join; larger groups go over `far`. 0: all."),
        sim::field("energy_per_byte", &LinkParams::byte_j, Unit::joules, sim::at_least(0), "Energy of a byte sent."),
        sim::field("planned_share", &LinkParams::planned_share, Unit::ratio, sim::between(0.01, 1),
                   "Share of the link with which the library reckons when it chooses a protocol."),
        sim::field("ll_ceiling", &LinkParams::ll_ceiling, Unit::bytes_per_s, sim::positive(),
                   "Bandwidth with which the library reckons for protocol LL."),
        sim::field("ring", &LinkParams::ring, "Ring and chain collectives."),
        sim::field("in_switch", &LinkParams::in_switch, "All-reduce inside the switch."),
        sim::field("peer", &LinkParams::peer, "Messages between pairs."),
        sim::field("far", &LinkParams::far, "Path between ranks that the links do not join."),
        sim::field("unaligned", &LinkParams::unaligned, "Parts that do not begin at multiples of 16 bytes."),
    };
  }
  /// Faults that no single field shows. A part calls it with the node of its link.
  static void check(const LinkParams& link, const sim::Node& fields, sim::Faults& faults);
};

}  // namespace orrery::hw
