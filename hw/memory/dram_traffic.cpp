#include "hw/memory/dram_traffic.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "hw/memory/dram_address.hpp"
#include "sim/base/distributions.hpp"

namespace orrery::hw {
namespace {

constexpr std::int64_t kPage = 4096;

/// Bursts of one pseudo-channel, counted from 0, that a traffic touches.
struct Area {
  std::int64_t pages = 1, bursts_a_page = 1;
  std::int64_t bursts() const { return pages * bursts_a_page; }
};

class Source {
 public:
  Source(const DramTraffic& traffic, const Area& area, sim::RandomStream random)
      : traffic_(traffic), area_(area), pages_(area.pages, traffic.skew), random_(std::move(random)) {
    last_ = random_.integer(0, area.bursts() - 1);
    while (std::gcd(multiplier_, area.pages) != 1) ++multiplier_;
  }

  /// The next burst.
  std::int64_t next() {
    if (random_.bernoulli(traffic_.sequential)) {
      last_ = (last_ + 1) % area_.bursts();
    } else {
      const std::int64_t page = (pages_(random_) - 1) * multiplier_ % area_.pages;
      last_ = page * area_.bursts_a_page + random_.integer(0, area_.bursts_a_page - 1);
    }
    return last_;
  }
  bool write() { return random_.bernoulli(traffic_.write_share); }
  double gap() { return traffic_.interval_s > 0 ? random_.exponential(traffic_.interval_s) : 0; }

 private:
  const DramTraffic& traffic_;
  Area area_;
  sim::Zipf pages_;
  sim::RandomStream random_;
  std::int64_t multiplier_ = 7919;  // shuffles pages: it has no factor in common with their number
  std::int64_t last_ = 0;
};

}  // namespace

std::vector<DramAccess> draw_traffic(const DramParams& dram, const DramTraffic& traffic, sim::RandomStream random) {
  if (traffic.footprint_bytes > dram.capacity_bytes())
    throw std::invalid_argument("the footprint is larger than the memory");
  const std::int64_t of_lane = static_cast<std::int64_t>(traffic.footprint_bytes) / dram.lanes();
  Area area;
  area.bursts_a_page = std::max<std::int64_t>(1, kPage / dram.access_bytes());
  area.pages = std::max<std::int64_t>(1, of_lane / (area.bursts_a_page * dram.access_bytes()));
  const DramAddressMap map(dram);
  std::vector<DramAccess> all;
  for (std::int64_t thread = 0; thread < traffic.threads; ++thread) {
    Source source(traffic, area, random.child(static_cast<std::uint64_t>(thread)));
    double clock = 0;
    for (std::int64_t i = thread; i < traffic.accesses; i += traffic.threads) {
      const auto burst = static_cast<std::uint64_t>(source.next());
      const DramPlace place = map.place(burst * static_cast<std::uint64_t>(dram.lanes() * dram.access_bytes()));
      const double gap = source.gap() * dram.clock_hz;
      clock = traffic.dependent && i > thread ? gap : clock + gap;
      all.push_back({thread, static_cast<std::int64_t>(clock), traffic.dependent && i > thread, place.bank, place.row,
                     source.write()});
    }
  }
  if (!traffic.dependent)
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.ready < b.ready; });
  return all;
}

}  // namespace orrery::hw
