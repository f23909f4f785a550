// All-reduce among the devices of one node, in closed form.
//
//   t = fixed + start_skew + per_rank (n-1) + 2 (n-1)/n * bytes / (bandwidth * efficiency)
//       + 2 sqrt(chunk * bytes / bandwidth)
//
// The bandwidth term is that of a reduce-scatter and an all-gather, each of which moves (n-1)/n of the message over
// every device's link (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms", 2009). The last term is a message
// cut into the best number of pipelined chunks: c chunks cost c * chunk, and filling the pipeline costs bytes/(c *
// bandwidth); the sum is least at twice the root of the product. Left out: contention with other traffic, more than one
// node, and the switch between protocols of the measured library, which shows below a few hundred KB.
#pragma once

#include <cstdint>

#include "hw/network/link.hpp"

namespace orrery::hw {

/// What a collective costs each of its ranks.
struct CollectiveCost {
  double time_s = 0;
  double link_bytes = 0;     ///< sent by each rank
  double link_energy_j = 0;  ///< of the bytes that one rank sends
};

/// All-reduce of `bytes` on each of `ranks` devices. One rank or no bytes cost nothing. Constant time.
CollectiveCost all_reduce(const LinkParams& link, std::int64_t ranks, std::int64_t bytes);

}  // namespace orrery::hw
