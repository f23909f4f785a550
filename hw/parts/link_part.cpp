#include "hw/parts/link_part.hpp"

namespace orrery::hw {
namespace {

double share(const LinkPart& link, LinkDirection direction) {
  return direction == LinkDirection::reverse && link.reverse_efficiency > 0 ? link.reverse_efficiency : link.efficiency;
}

}  // namespace

double wire_bytes(const LinkPart& link, std::int64_t bytes, std::int64_t messages) {
  if (bytes <= 0 || messages <= 0) return 0;
  const std::int64_t small = bytes / messages, larger = bytes % messages;  // this many are a byte larger
  const auto packets = [&](std::int64_t size) {
    return size == 0 ? 1 : size / link.payload_bytes + (size % link.payload_bytes != 0 ? 1 : 0);
  };
  const double count = static_cast<double>(messages - larger) * static_cast<double>(packets(small)) +
                       static_cast<double>(larger) * static_cast<double>(packets(small + 1));
  return static_cast<double>(bytes) + count * static_cast<double>(link.header_bytes);
}

double transfer_time(const LinkPart& link, std::int64_t bytes, std::int64_t messages, LinkDirection direction) {
  const double wire = wire_bytes(link, bytes, messages);
  return wire == 0 ? 0 : link.latency_s + wire / (share(link, direction) * link.bandwidth);
}

double transfer_energy(const LinkPart& link, std::int64_t bytes, std::int64_t messages) {
  return wire_bytes(link, bytes, messages) * link.byte_j;
}

double achieved_bandwidth(const LinkPart& link, LinkDirection direction) {
  const double payload = static_cast<double>(link.payload_bytes);
  return share(link, direction) * link.bandwidth * payload / (payload + static_cast<double>(link.header_bytes));
}

sim::FieldRows<LinkPart> LinkPart::fields() {
  using sim::Unit;
  constexpr sim::Range kShare = sim::between(0.01, 1);
  static const sim::FieldTable table{
      sim::required(sim::field("bandwidth", &LinkPart::bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Peak bandwidth per direction after line coding, over all lanes or links together.")),
      sim::required(sim::field("latency", &LinkPart::latency_s, Unit::seconds, sim::between(0, 1),
                               "Time from a byte's departure to its arrival.")),
      sim::field("payload", &LinkPart::payload_bytes, Unit::bytes, sim::at_least(1), "Most data bytes in a packet."),
      sim::field("header", &LinkPart::header_bytes, Unit::bytes, sim::at_least(0),
                 "Bytes of header, checks and framing per packet."),
      sim::field("efficiency", &LinkPart::efficiency, Unit::ratio, kShare,
                 "Share of the remaining bandwidth that flow control and copy engines leave."),
      sim::field("reverse_efficiency", &LinkPart::reverse_efficiency, Unit::ratio, sim::between(0, 1),
                 "Efficiency on the way back (device to host); 0: as efficiency."),
      sim::field("coherent", &LinkPart::coherent,
                 "Whether caches stay coherent over the link, so that loads and stores reach the other side."),
      sim::field("energy_per_byte", &LinkPart::byte_j, Unit::joules, sim::at_least(0), "Energy per byte on the wire."),
  };
  return table;
}

}  // namespace orrery::hw
