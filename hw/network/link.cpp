#include "hw/network/link.hpp"

namespace orrery::hw {

sim::FieldRows<RingConstants> RingConstants::fields() {
  using sim::Unit;
  constexpr sim::Range kShare = sim::between(0.01, 1);
  static const sim::FieldTable table{
      sim::field("base", &RingConstants::base_s, Unit::seconds, sim::at_least(0), "A collective of next to no bytes."),
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
  return table;
}

sim::FieldRows<InSwitchConstants> InSwitchConstants::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("ranks", &InSwitchConstants::ranks, Unit::count, sim::at_least(0),
                 "Smallest group for which the library uses it; 0: never."),
      sim::field("chunk", &InSwitchConstants::chunk_s, Unit::seconds, sim::at_least(0),
                 "Overhead of one pipelined chunk; the best chunking costs twice the root of chunk times transfer."),
      sim::field("efficiency", &InSwitchConstants::efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the link."),
  };
  return table;
}

sim::FieldRows<PeerConstants> PeerConstants::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
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
  return table;
}

sim::FieldRows<FarConstants> FarConstants::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("bandwidth", &FarConstants::bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Peak of the path, per direction; 0: links join all ranks."),
      sim::field("efficiency", &FarConstants::efficiency, Unit::ratio, sim::between(0.01, 1), "Share of that."),
      sim::field("step", &FarConstants::step_s, Unit::seconds, sim::at_least(0), "A step of a ring over it."),
      sim::field("simple_start", &FarConstants::simple_start_s, Unit::seconds, sim::at_least(0),
                 "Added once the library leaves protocol LL: the first chunk through the buffers."),
      sim::field("local_bandwidth", &FarConstants::local_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Rate at which a device handles its own shard meanwhile; 0: at no cost."),
      sim::field("socket_ranks", &FarConstants::socket_ranks, Unit::count, sim::at_least(0),
                 "Devices of one socket of the host: a larger group has ranks on both. 0: one socket."),
      sim::field("socket_share", &FarConstants::socket_share, Unit::ratio, sim::between(0.01, 1),
                 "Share of the path left to such a group."),
  };
  return table;
}

sim::FieldRows<UnalignedConstants> UnalignedConstants::fields() {
  using sim::Unit;
  constexpr sim::Range kShare = sim::between(0.01, 1);
  static const sim::FieldTable table{
      sim::field("gather", &UnalignedConstants::gather, Unit::ratio, kShare, "Share left to an all_gather."),
      sim::field("reduce", &UnalignedConstants::reduce, Unit::ratio, kShare, "Share left to a reduce_scatter."),
      sim::field("peer", &UnalignedConstants::peer, Unit::ratio, kShare, "Share left to an all_to_all."),
  };
  return table;
}

sim::FieldRows<LinkParams> LinkParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("bandwidth", &LinkParams::bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Peak a device sends, per direction, over all its links.")),
      sim::field("pair_bandwidth", &LinkParams::pair_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Links that join one pair, where there is no switch: n ranks use n-1 times as much. 0: a switch."),
      sim::field(
          "mesh", &LinkParams::mesh,
          "Links of each device to each, where pairs differ: a row of digits a device. Of `pair_bandwidth` each; "
          "empty: all pairs are joined."),
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
  return table;
}

}  // namespace orrery::hw
