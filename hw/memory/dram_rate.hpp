// What a pseudo-channel delivers, in closed form from its timings; the command-level controller is the check.
//
// Refresh takes tRFC of every tREFI, and the rows must be closed before it and opened after it:
//   refresh = (tRFC + tRTP + tRP + tRCDRD) / tREFI
// Streaming reads over rows that lie in different bank groups: the slowest of bus, tCCD_S, and opening rows:
//   clocks per access = max(t_burst, tCCD_S, tRRD_S / n, tFAW / (4 n))         n = accesses of a row
//   with fewer than two bank groups tCCD_L stands for tCCD_S
// Random reads, each in a row of its own, `window` requests in the scheduler's sight. Of b banks w requests occupy
//   busy = b (1 - (1 - 1/b)^w)
// and each bank turns over in tRC at best:
//   clocks per access = max(t_burst, tCCD_S, tRRD_S / ranks, tFAW / (4 ranks), tRC / busy)
// Every rate is a share of the peak; 1 - refresh multiplies it. Left out: reads and writes mixed (turnarounds).
#pragma once

#include <cstdint>

#include "hw/memory/dram.hpp"

namespace orrery::hw {

/// Share of time that refreshes take from a busy device, and from one whose rows are closed anyway.
double refresh_share(const DramParams& dram);
inline double refresh_share_idle(const DramParams& dram) {
  return static_cast<double>(dram.timing.rfc) / static_cast<double>(dram.timing.refi);
}

/// Shares of the peak bandwidth, refresh included.
double streaming_share(const DramParams& dram);
double random_share(const DramParams& dram, std::int64_t window = 32);

/// Latencies of a lone read from command to last word, s: its row open, its bank closed, another row open.
double hit_latency_s(const DramParams& dram);
double miss_latency_s(const DramParams& dram);
double conflict_latency_s(const DramParams& dram);

}  // namespace orrery::hw
