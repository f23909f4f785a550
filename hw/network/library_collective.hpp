// What a collective of an NCCL-class library takes among the devices of one node, in closed form.
//
// n ranks, S bytes, B the link's bandwidth (in a mesh without a switch: (n-1) pair_bandwidth at most; where its pairs
// differ, what hw/network/mesh.hpp says of its rings and peers), w the bytes that a rank sends, s the steps of the
// ring:
//   all_reduce      s = 2(n-1)   w = 2(n-1)/n S      S: the buffer of a rank
//   all_gather      s =  n-1     w =  (n-1)/n S      S: the gathered result
//   reduce_scatter  s =  n-1     w =  (n-1)/n S      S: the input of a rank
//   broadcast, reduce  s = n-1   w = S               a chain, its chunks in a pipeline
// The library moves them by one of three protocols, or inside the switch:
//   LL      base + s ll_step + ramp S/(S + ramp_bytes) + w / (ll_efficiency B)
//   LL128   base + ramp + s ll128_step + w / (ll128_efficiency B) + own
//   Simple  base + simple_start + s simple_step + w / (simple_efficiency B) + own
//   switch  base + simple_start + y + 2 sqrt(chunk y),   y = (1 + 1/n) S / (efficiency B)
// own = (S/n) / (local_ratio B): the device's own shard, copied or added beside what the ring brings (broadcast and
// reduce have none). The switch adds all ranks' buffers, which each rank sends whole, and hands out shards of the
// result, which go back to all: (n+1)/n S either way over each link. Its root is the cost of the best number of
// pipelined chunks.
//
// Which of them is used is the library's decision, made with its own idea of their cost, not with these equations:
// latencies 6.6 + 0.6 s, 14 + 1.9 s, 8.4 + 3.4 s us (LL, LL128, Simple) and 25 us (switch), bandwidths of
// min(ll_ceiling, P/2), 0.92 P, P and P, P = planned_share B (NCCL 2.28, src/graph/tuning.cc: constants of the tuning
// model, one node). So a protocol that is the wrong one for a size shows here as it does on the machine: steps upward
// where LL hands over to Simple, and now and then a larger message that takes less time.
//
//   all_to_all  base + per_peer (n-2) + ramp z/(z + ramp_bytes) + y + 2 sqrt(chunk y),  z = S/n,
//               y = (n-1) z / (efficiency B) + z / (peer's local_ratio B);  S is what a rank holds for all
//   send_recv   send_base + send_ramp S/(S + send_ramp_bytes) + S / (efficiency B). The sender's part may end sooner:
//               up to `buffer` bytes it ends when they are copied, at copy_bandwidth.
// Groups of more than `peers` ranks go over the path `far`: base + ramp S/(S + ramp_bytes) + s step + w / (efficiency
// bandwidth) + (S/n) / local_bandwidth, and simple_start where the library takes Simple by its estimates (LL128 needs
// links); all_to_all and send_recv put that bandwidth in place of the link's. Of it `socket_share` is left to a group
// of more than `socket_ranks`. Of all_gather, reduce_scatter and all_to_all every rank's part of the buffer begins at
// its own address. Where that is no multiple of 16 bytes the library moves single elements, and the share `unaligned`
// of the bandwidth is left.
//
// Where this holds: devices behind one switch or one bridge, nothing else on the links, all ranks at once. For
// contention, stragglers, several nodes and other algorithms run the schedules of hw/network/collective.hpp; at large
// sizes the ring's bandwidth term is the same (a test holds the two together). Left out: trees (the library prefers
// rings inside a node), registered buffers, groups of mixed devices. Errors against measurement:
// docs/explain/collectives.md.
#pragma once

#include <cstdint>
#include <string_view>

#include "hw/network/link.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::hw {

enum class LibraryCall : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  reduce,
  send_recv
};
constexpr auto enum_names(LibraryCall) {
  using enum LibraryCall;
  return sim::names<LibraryCall>({{"all_reduce", all_reduce},
                                  {"all_gather", all_gather},
                                  {"reduce_scatter", reduce_scatter},
                                  {"all_to_all", all_to_all},
                                  {"broadcast", broadcast},
                                  {"reduce", reduce},
                                  {"send_recv", send_recv}});
}

/// Whether the ranks' parts of a buffer begin at multiples of 16 bytes.
enum class PartAlignment : std::uint8_t { full, partial };

/// How a call is carried out.
enum class LibraryProtocol : std::uint8_t { none, ll, ll128, simple, in_switch, peer, far };
constexpr auto enum_names(LibraryProtocol) {
  using enum LibraryProtocol;
  return sim::names<LibraryProtocol>({{"none", none},
                                      {"ll", ll},
                                      {"ll128", ll128},
                                      {"simple", simple},
                                      {"in_switch", in_switch},
                                      {"peer", peer},
                                      {"far", far}});
}

/// What a collective costs each of its ranks.
struct CollectiveCost {
  double time_s = 0;         ///< until the last rank has its data
  double sender_s = 0;       ///< send_recv: until the sender is free; else as time_s
  double link_bytes = 0;     ///< sent by a rank (of a chain: by each rank but the last)
  double link_energy_j = 0;  ///< of the bytes that one rank sends
  LibraryProtocol protocol = LibraryProtocol::none;
};

/// The protocol that the library takes for a ring or chain collective. Constant time.
LibraryProtocol library_protocol(const LinkParams& link, LibraryCall call, std::int64_t ranks, std::int64_t bytes);

/// Cost of `call` on `bytes` among `ranks` devices (send_recv: two, whatever `ranks`; more than `peers` says only
/// which path it takes). One rank or no bytes cost nothing. Constant time, no allocation.
CollectiveCost library_collective(const LinkParams& link, LibraryCall call, std::int64_t ranks, std::int64_t bytes,
                                  PartAlignment parts = PartAlignment::full);

/// A link without the library's own costs: every step of a ring, and every message, takes the latency and its bytes at
/// that bandwidth.
LinkParams plain_link(double bandwidth, double latency_s);

}  // namespace orrery::hw
