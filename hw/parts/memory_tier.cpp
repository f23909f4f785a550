#include "hw/parts/memory_tier.hpp"

#include <algorithm>

namespace orrery::hw {

double moved_bytes(const MemoryTier& tier, std::int64_t bytes, std::int64_t requests) {
  if (bytes <= 0 || requests <= 0) return 0;
  const std::int64_t small = bytes / requests, larger = bytes % requests;  // this many are a byte larger
  const auto granules = [&](std::int64_t size) {
    return size / tier.granule_bytes + (size % tier.granule_bytes != 0 ? 1 : 0);
  };
  const double count = static_cast<double>(requests - larger) * static_cast<double>(granules(small)) +
                       static_cast<double>(larger) * static_cast<double>(granules(small + 1));
  return count * static_cast<double>(tier.granule_bytes);
}

double transfer_time(const MemoryTier& tier, TierDirection direction, std::int64_t bytes, std::int64_t requests,
                     std::int64_t depth) {
  const double moved = moved_bytes(tier, bytes, requests);
  if (moved == 0) return 0;
  const TierAccess& access = direction == TierDirection::read ? tier.read : tier.write;
  const double under_way = static_cast<double>(depth > 0 ? std::min(depth, tier.outstanding) : tier.outstanding);
  const double lines = moved / static_cast<double>(tier.granule_bytes);
  const double waiting = std::max(0.0, lines - under_way) / under_way * access.latency_s;
  const double issued = access.iops > 0 ? static_cast<double>(requests) / access.iops : 0;
  return access.latency_s + std::max({moved / access.bandwidth, waiting, issued});
}

double transfer_energy(const MemoryTier& tier, TierDirection direction, std::int64_t bytes, std::int64_t requests) {
  return moved_bytes(tier, bytes, requests) * (direction == TierDirection::read ? tier.read : tier.write).byte_j;
}

sim::FieldRows<TierAccess> TierAccess::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("bandwidth", &TierAccess::bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Peak bandwidth that the tier reaches.")),
      sim::required(sim::field("latency", &TierAccess::latency_s, Unit::seconds, sim::between(0, 1),
                               "Latency of one access on an idle tier.")),
      sim::field("iops", &TierAccess::iops, Unit::per_s, sim::at_least(0), "Most requests per second; 0: no bound."),
      sim::field("energy_per_byte", &TierAccess::byte_j, Unit::joules, sim::at_least(0), "Energy per byte moved."),
  };
  return table;
}

sim::FieldRows<MemoryTier> MemoryTier::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("capacity", &MemoryTier::capacity_bytes, Unit::bytes, sim::positive(),
                               "Capacity of one module, stack or drive.")),
      sim::required(sim::field("granule", &MemoryTier::granule_bytes, Unit::bytes, sim::at_least(1),
                               "Smallest unit that is moved.")),
      sim::required(sim::field("outstanding", &MemoryTier::outstanding, Unit::count, sim::at_least(1),
                               "Most granules that can be in flight at once.")),
      sim::required(sim::field("read", &MemoryTier::read, "Figures of reads.")),
      sim::required(sim::field("write", &MemoryTier::write, "Figures of writes.")),
  };
  return table;
}

}  // namespace orrery::hw
