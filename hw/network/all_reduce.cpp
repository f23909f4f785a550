#include "hw/network/all_reduce.hpp"

#include <cmath>

namespace orrery::hw {

CollectiveCost all_reduce(const LinkParams& link, std::int64_t ranks, std::int64_t bytes) {
  if (ranks <= 1 || bytes <= 0) return {};
  const double n = static_cast<double>(ranks);
  const double size = static_cast<double>(bytes);
  const double sent = 2.0 * (n - 1.0) / n * size;
  CollectiveCost cost;
  cost.time_s = link.fixed_s + link.start_skew_s + link.per_rank_s * (n - 1.0) +
                sent / (link.bandwidth * link.efficiency) + 2.0 * std::sqrt(link.chunk_s * size / link.bandwidth);
  cost.link_bytes = sent;
  cost.link_energy_j = sent * link.byte_j;
  return cost;
}

}  // namespace orrery::hw
