#include "hw/network/link.hpp"

namespace orrery::hw {

sim::FieldRows<RingConstants> RingConstants::fields() {
  using sim::Unit;
  constexpr sim::Range kShare = sim::between(0.01, 1);
  static const sim::FieldTable table{
      sim::field("base", &RingConstants::base_s, Unit::seconds, sim::at_least(0),
                 "Time of a collective of almost no bytes."),
      sim::field("ramp", &RingConstants::ramp_s, Unit::seconds, sim::at_least(0),
                 "Time added once the message is large enough to use every channel."),
      sim::field("ramp_bytes", &RingConstants::ramp_bytes, Unit::bytes, sim::at_least(1),
                 "Size of message at which half of ramp is added."),
      sim::field("ll_step", &RingConstants::ll_step_s, Unit::seconds, sim::at_least(0),
                 "Time of a ring step under protocol LL (a flag with every 4 bytes)."),
      sim::field("ll_efficiency", &RingConstants::ll_efficiency, Unit::ratio, kShare,
                 "Share of the link bandwidth reached under LL."),
      sim::field("ll128_step", &RingConstants::ll128_step_s, Unit::seconds, sim::at_least(0),
                 "Time of a ring step under protocol LL128 (a flag with every 120 bytes)."),
      sim::field("ll128_efficiency", &RingConstants::ll128_efficiency, Unit::ratio, kShare,
                 "Share of the link bandwidth reached under LL128."),
      sim::field("simple_start", &RingConstants::simple_start_s, Unit::seconds, sim::at_least(0),
                 "Time added under protocol Simple for the first chunk to pass the buffers."),
      sim::field("simple_step", &RingConstants::simple_step_s, Unit::seconds, sim::at_least(0),
                 "Time of a ring step under Simple (a fence and a flag per chunk)."),
      sim::field("simple_efficiency", &RingConstants::simple_efficiency, Unit::ratio, kShare,
                 "Share of the link bandwidth reached under Simple."),
      sim::field("local_ratio", &RingConstants::local_ratio, Unit::none, sim::between(0.1, 20),
                 "Rate at which a device handles its own shard, as a multiple of the link bandwidth."),
  };
  return table;
}

sim::FieldRows<InSwitchConstants> InSwitchConstants::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("ranks", &InSwitchConstants::ranks, Unit::count, sim::at_least(0),
                 "Smallest group for which the library reduces in the switch; 0: never."),
      sim::field(
          "chunk", &InSwitchConstants::chunk_s, Unit::seconds, sim::at_least(0),
          "Overhead of one pipelined chunk; with the best chunking, overheads add 2 sqrt(chunk x transfer time)."),
      sim::field("efficiency", &InSwitchConstants::efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the link bandwidth that is reached."),
  };
  return table;
}

sim::FieldRows<PeerConstants> PeerConstants::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("base", &PeerConstants::base_s, Unit::seconds, sim::at_least(0),
                 "Time of an all-to-all between two devices."),
      sim::field("per_peer", &PeerConstants::per_peer_s, Unit::seconds, sim::at_least(0),
                 "Time added for each peer after the first."),
      sim::field("ramp", &PeerConstants::ramp_s, Unit::seconds, sim::at_least(0),
                 "Time added once the message to a peer is too large for protocol LL."),
      sim::field("ramp_bytes", &PeerConstants::ramp_bytes, Unit::bytes, sim::at_least(1),
                 "Size of the message to a peer at which half of ramp is added."),
      sim::field("chunk", &PeerConstants::chunk_s, Unit::seconds, sim::at_least(0),
                 "Overhead of one pipelined chunk of an all-to-all."),
      sim::field("efficiency", &PeerConstants::efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the link bandwidth that is reached."),
      sim::field("local_ratio", &PeerConstants::local_ratio, Unit::none, sim::between(0.1, 20),
                 "Rate at which a device copies its own part of an all-to-all, as a multiple of the link bandwidth."),
      sim::field("send_base", &PeerConstants::send_base_s, Unit::seconds, sim::at_least(0),
                 "Time of a send of no bytes."),
      sim::field("send_ramp", &PeerConstants::send_ramp_s, Unit::seconds, sim::at_least(0),
                 "Time added once a send is too large for protocol LL."),
      sim::field("send_ramp_bytes", &PeerConstants::send_ramp_bytes, Unit::bytes, sim::at_least(1),
                 "Size of the send at which half of send_ramp is added."),
      sim::field("copy_bandwidth", &PeerConstants::copy_bandwidth, Unit::bytes_per_s, sim::positive(),
                 "Rate at which a sender fills the library's buffers."),
      sim::field("buffer", &PeerConstants::buffer_bytes, Unit::bytes, sim::at_least(0),
                 "Size of the library's buffers: a send that fits ends once it is copied."),
  };
  return table;
}

sim::FieldRows<FarConstants> FarConstants::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("bandwidth", &FarConstants::bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Peak bandwidth of the path, per direction; 0: links join all ranks, so there is no such path."),
      sim::field("efficiency", &FarConstants::efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the peak bandwidth that is reached."),
      sim::field("step", &FarConstants::step_s, Unit::seconds, sim::at_least(0), "Time of a ring step over the path."),
      sim::field("simple_start", &FarConstants::simple_start_s, Unit::seconds, sim::at_least(0),
                 "Time added once the library leaves protocol LL, for the first chunk to pass the buffers."),
      sim::field("local_bandwidth", &FarConstants::local_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Rate at which a device handles its own shard meanwhile; 0: at no cost."),
      sim::field("socket_ranks", &FarConstants::socket_ranks, Unit::count, sim::at_least(0),
                 "Devices on each socket of the host; a larger group has ranks on both sockets. 0: one socket."),
      sim::field("socket_share", &FarConstants::socket_share, Unit::ratio, sim::between(0.01, 1),
                 "Share of the path's bandwidth left to a group with ranks on both sockets."),
  };
  return table;
}

sim::FieldRows<UnalignedConstants> UnalignedConstants::fields() {
  using sim::Unit;
  constexpr sim::Range kShare = sim::between(0.01, 1);
  static const sim::FieldTable table{
      sim::field("gather", &UnalignedConstants::gather, Unit::ratio, kShare,
                 "Share of the bandwidth left to an all_gather."),
      sim::field("reduce", &UnalignedConstants::reduce, Unit::ratio, kShare,
                 "Share of the bandwidth left to a reduce_scatter."),
      sim::field("peer", &UnalignedConstants::peer, Unit::ratio, kShare,
                 "Share of the bandwidth left to an all_to_all."),
  };
  return table;
}

sim::FieldRows<LinkParams> LinkParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("bandwidth", &LinkParams::bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Peak bandwidth at which a device sends, per direction, over all its links.")),
      sim::field("pair_bandwidth", &LinkParams::pair_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Bandwidth of the links that join one pair, where there is no switch; n ranks use n-1 times as much. "
                 "0: there is a switch."),
      sim::field("mesh", &LinkParams::mesh,
                 "Number of links between each two devices, where pairs differ: a row of digits per device. Each has "
                 "pair_bandwidth. Empty: all pairs are joined."),
      sim::field("peers", &LinkParams::peers, Unit::count, sim::at_least(0),
                 "Number of ranks that the links join; larger groups go over far. 0: all."),
      sim::field("energy_per_byte", &LinkParams::byte_j, Unit::joules, sim::at_least(0), "Energy per byte sent."),
      sim::field("planned_share", &LinkParams::planned_share, Unit::ratio, sim::between(0.01, 1),
                 "Share of the link bandwidth that the library assumes when it chooses a protocol."),
      sim::field("ll_ceiling", &LinkParams::ll_ceiling, Unit::bytes_per_s, sim::positive(),
                 "Bandwidth that the library assumes for protocol LL."),
      sim::field("ring", &LinkParams::ring, "Constants of ring and chain collectives."),
      sim::field("in_switch", &LinkParams::in_switch, "Constants of all-reduce inside the switch."),
      sim::field("peer", &LinkParams::peer, "Constants of messages between pairs: all-to-all and send."),
      sim::field("far", &LinkParams::far, "Path between ranks that the links do not join."),
      sim::field("unaligned", &LinkParams::unaligned,
                 "Bandwidth left where the ranks' parts do not begin at multiples of 16 bytes."),
  };
  return table;
}

}  // namespace orrery::hw
