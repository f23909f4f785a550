#include "hw/memory/dram_rate.hpp"

#include <algorithm>

#include "hw/base/real.hpp"

namespace orrery::hw {
namespace {

/// Clocks that the bus needs for an access when nothing else limits it.
double burst_clocks(const DramParams& dram) {
  return d(dram.organisation.burst) / d(dram.transfers_per_clock);
}

double seconds(const DramParams& dram, std::int64_t clocks) {
  return d(clocks) / dram.clock_hz;
}

}  // namespace

double refresh_share(const DramParams& dram) {
  const DramTiming& t = dram.timing;
  return std::min(1.0, d(t.rfc + t.rtp + t.rp + t.rcd_rd) / d(t.refi));
}

double streaming_share(const DramParams& dram) {
  const DramTiming& t = dram.timing;
  const double n = d(dram.accesses_per_row());
  const double column = d(dram.organisation.bank_groups >= 2 ? t.ccd_s : t.ccd_l);
  const double clocks = std::max({burst_clocks(dram), column, d(t.rrd_s) / n, d(t.faw) / (4 * n)});
  return burst_clocks(dram) / clocks * (1 - refresh_share(dram));
}

double random_share(const DramParams& dram, std::int64_t window) {
  const DramTiming& t = dram.timing;
  const double banks = d(dram.banks_per_lane());
  double idle = 1;
  for (std::int64_t i = 0; i < window && idle > 1e-12; ++i) idle *= 1 - 1 / banks;
  const double busy = banks * (1 - idle);
  const double clocks = std::max({burst_clocks(dram), d(t.ccd_s), d(t.rrd_s) / d(dram.organisation.ranks),
                                  d(t.faw) / 4 / d(dram.organisation.ranks), d(t.rc) / busy});
  return burst_clocks(dram) / clocks * (1 - refresh_share(dram));
}

double hit_latency_s(const DramParams& dram) {
  return seconds(dram, dram.timing.rl + dram.burst_clocks());
}

double miss_latency_s(const DramParams& dram) {
  return hit_latency_s(dram) + seconds(dram, dram.timing.rcd_rd);
}

double conflict_latency_s(const DramParams& dram) {
  return miss_latency_s(dram) + seconds(dram, dram.timing.rp);
}

}  // namespace orrery::hw
