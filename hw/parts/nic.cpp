#include "hw/parts/nic.hpp"

#include <algorithm>

namespace orrery::hw {

void NicPart::check(const NicPart& nic, const sim::Node& fields, sim::Faults& faults) {
  if (!nic.rdma && nic.copy_bandwidth == 0)
    faults.add(fields.origin_at("copy_bandwidth"), "expected > 0 B/s where the host copies (rdma false)");
}

double wire_bytes(const NicPart& nic, std::int64_t bytes, std::int64_t messages) {
  if (messages <= 0) return 0;
  const std::int64_t total = std::max<std::int64_t>(bytes, 0);
  const std::int64_t small = total / messages, larger = total % messages;  // this many are a byte larger
  const auto packets = [&](std::int64_t size) {
    return size == 0 ? 1 : size / nic.mtu_bytes + (size % nic.mtu_bytes != 0 ? 1 : 0);
  };
  const double count = static_cast<double>(messages - larger) * static_cast<double>(packets(small)) +
                       static_cast<double>(larger) * static_cast<double>(packets(small + 1));
  return static_cast<double>(total) + count * static_cast<double>(nic.header_bytes);
}

double host_time(const NicPart& nic, double bytes) {
  const bool copies = !nic.rdma && nic.copy_bandwidth > 0;
  return nic.cpu_per_message_s + (copies ? bytes / nic.copy_bandwidth : 0);
}

double transfer_time(const NicPart& nic, std::int64_t bytes, std::int64_t messages) {
  if (messages <= 0) return 0;
  const double count = static_cast<double>(messages);
  const double host = host_time(nic, static_cast<double>(std::max<std::int64_t>(bytes, 0)) / count);
  const double wire = wire_bytes(nic, bytes, messages) / (nic.efficiency * nic.bandwidth);
  const double queue = nic.message_rate > 0 ? (count - 1) / nic.message_rate : 0;
  return nic.latency_s + host + std::max({wire, queue, (count - 1) * host});
}

double transfer_energy(const NicPart& nic, std::int64_t bytes, std::int64_t messages) {
  return wire_bytes(nic, bytes, messages) * nic.byte_j;
}

double achieved_bandwidth(const NicPart& nic) {
  const double mtu = static_cast<double>(nic.mtu_bytes);
  const double wire = nic.efficiency * nic.bandwidth * mtu / (mtu + static_cast<double>(nic.header_bytes));
  return !nic.rdma && nic.copy_bandwidth > 0 ? std::min(wire, nic.copy_bandwidth) : wire;
}

double message_latency(const NicPart& nic) {
  return nic.latency_s + nic.cpu_per_message_s;
}

sim::FieldRows<NicPart> NicPart::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("bandwidth", &NicPart::bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Bandwidth of the port per direction, after line coding.")),
      sim::required(
          sim::field("latency", &NicPart::latency_s, Unit::seconds, sim::between(0, 1),
                     "Latency of an empty message between two adapters through one switch, without the hosts' work.")),
      sim::field("message_rate", &NicPart::message_rate, Unit::per_s, sim::at_least(0),
                 "Most messages per second; 0: no bound."),
      sim::field("mtu", &NicPart::mtu_bytes, Unit::bytes, sim::at_least(64), "Most data bytes in a packet."),
      sim::field("header", &NicPart::header_bytes, Unit::bytes, sim::at_least(0),
                 "Bytes of headers, checks and gaps per packet."),
      sim::field("efficiency", &NicPart::efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the remaining bandwidth that flow control and the adapter's bus leave."),
      sim::field("rdma", &NicPart::rdma,
                 "Whether the adapter accesses memory directly (RDMA); otherwise the host copies."),
      sim::field("ring_share", &NicPart::ring_share, Unit::ratio, sim::between(0.01, 1),
                 "Bandwidth that a collective's ring reaches, as a share of that of large messages."),
      sim::field("cpu_per_message", &NicPart::cpu_per_message_s, Unit::seconds, sim::at_least(0),
                 "Host time per message, both sides together, for posting it or for the kernel's protocols."),
      sim::field("copy_bandwidth", &NicPart::copy_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Bandwidth of the host's copy, where there is no RDMA."),
      sim::field("energy_per_byte", &NicPart::byte_j, Unit::joules, sim::at_least(0), "Energy per byte on the wire."),
  };
  return table;
}

}  // namespace orrery::hw
