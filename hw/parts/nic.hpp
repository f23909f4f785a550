// A network adapter as a part of the catalog: InfiniBand, RoCE, Ethernet.
//
// A stream of M messages of together S bytes passes three stages that work at the same time, each on another message:
//   host   M h,  h = cpu_per_message + (S/M) / copy_bandwidth      (RDMA: the copy is left out)
//   queue  (M - 1) / message_rate
//   wire   (S + header * packets) / (efficiency * bandwidth),      packets = M ceil((S/M) / mtu)
// The first message goes through the host before anything is on the wire; from then on the slowest stage decides:
//   time = latency + h + max(wire, (M - 1) / message_rate, (M - 1) h)
// `latency` is that between the two hosts' adapters through one switch: what is left of a message of no bytes beside
// the host's work. `bandwidth` is the rate of the port after line coding; `efficiency` what flow control and the
// adapter's own bus leave of it; of what large messages reach, a collective's ring gets `ring_share`. Energy counts
// bytes on the wire. Left out: congestion control, losses, interrupts that are put together, several cores at work for
// one adapter.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/base/params.hpp"

namespace orrery::hw {

/// Sizes in bytes, bandwidth in bytes/s, times in s, rates per s, energy in J.
struct NicPart {
  static constexpr std::string_view kKind = "nic";
  double bandwidth = 0;
  double latency_s = 0;
  double message_rate = 0;
  std::int64_t mtu_bytes = 4096;
  std::int64_t header_bytes = 0;
  double efficiency = 1;
  bool rdma = true;
  double ring_share = 1;
  double cpu_per_message_s = 0;
  double copy_bandwidth = 0;
  double byte_j = 0;

  static sim::FieldRows<NicPart> fields();
  /// A host that copies needs a rate.
  static void check(const NicPart& nic, const sim::Node& fields, sim::Faults& faults);
};

/// Bytes on the wire for `messages` of together `bytes`, cut evenly; a message without bytes is a packet.
double wire_bytes(const NicPart& nic, std::int64_t bytes, std::int64_t messages = 1);
/// The host's work for one message of `bytes`, s.
double host_time(const NicPart& nic, double bytes);
/// Seconds from the first message's posting to the last one's arrival. No messages take no time. Constant time.
double transfer_time(const NicPart& nic, std::int64_t bytes, std::int64_t messages = 1);
double transfer_energy(const NicPart& nic, std::int64_t bytes, std::int64_t messages = 1);
/// Bytes/s of large messages, and the latency of a message of no bytes: what a link of the network engine gets.
double achieved_bandwidth(const NicPart& nic);
double message_latency(const NicPart& nic);

}  // namespace orrery::hw
