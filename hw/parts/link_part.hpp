// A link as a part of the catalog: what a bundle of lanes between two devices carries.
//
//   wire bytes  = bytes + header_bytes * (packets), a message of m bytes being cut into ceil(m / payload) packets
//   time        = latency + wire bytes / (efficiency * bandwidth)
//   energy      = wire bytes * energy_per_byte
// `bandwidth` is the peak of one direction after line coding (128b/130b of PCIe 3 to 5, say), `payload` the largest
// packet that carries data, `efficiency` what flow control, acknowledgements and the copying engine leave; where the
// two directions differ (NVLink-C2C, host to device and back), `reverse_efficiency` is that of the way back. Messages
// follow each other without gaps: `latency` is paid once, between the first byte's departure and its arrival.
// Assumptions: both directions are independent; packets are full but for the last of a message. Left out: retries,
// ordering stalls, contention (the engine's affair: hw/network).
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/base/params.hpp"

namespace orrery::hw {

/// Sizes in bytes, bandwidth in bytes/s, times in s, energy in J.
struct LinkPart {
  static constexpr std::string_view kKind = "link";
  double bandwidth = 0;
  double latency_s = 0;
  std::int64_t payload_bytes = 256;
  std::int64_t header_bytes = 0;
  double efficiency = 1;
  double reverse_efficiency = 0;
  bool coherent = false;
  double byte_j = 0;

  static sim::FieldRows<LinkPart> fields();
};

enum class LinkDirection : std::uint8_t { forward, reverse };

/// Bytes on the wire for `messages` of together `bytes`, cut evenly. No messages or bytes: none.
double wire_bytes(const LinkPart& link, std::int64_t bytes, std::int64_t messages = 1);
/// Seconds until the last of `messages` has arrived. No bytes take no time. Constant time, as all here.
double transfer_time(const LinkPart& link, std::int64_t bytes, std::int64_t messages = 1,
                     LinkDirection direction = LinkDirection::forward);
double transfer_energy(const LinkPart& link, std::int64_t bytes, std::int64_t messages = 1);
/// Bytes/s of large messages: what a link of the network engine gets as its bandwidth (its latency is `latency_s`).
double achieved_bandwidth(const LinkPart& link, LinkDirection direction = LinkDirection::forward);

}  // namespace orrery::hw
