#include <algorithm>

#include "hw/interference/shares.hpp"

namespace orrery::hw {
namespace {

/// What each work takes of a resource that is there once.
using Shares = PerActivity;

/// Max-min fair speeds of those that run. Rounds: as many as resources, at most.
template <std::size_t N>
PerActivity fair_speeds(const std::array<Shares, N>& resources, ActivitySet running) {
  PerActivity speeds{};
  ActivitySet rising = running;
  while (rising != 0) {
    const auto rises = [&](std::size_t i) { return has(rising, i); };
    double level = 1;
    std::array<double, N> full_at{};
    for (std::size_t r = 0; r < N; ++r) {
      double taken = 0, wanted = 0;
      for (std::size_t i = 0; i < kActivities; ++i)
        (rises(i) ? wanted : taken) += resources[r][i] * (rises(i) ? 1 : speeds[i]);
      full_at[r] = wanted > 0 ? std::max(0.0, 1 - taken) / wanted : 2;
      level = std::min(level, full_at[r]);
    }
    ActivitySet stays = level >= 1 ? rising : ActivitySet{0};
    for (std::size_t r = 0; r < N; ++r)
      for (std::size_t i = 0; i < kActivities; ++i)
        if (rises(i) && full_at[r] <= level && resources[r][i] > 0) stays |= activity_bit(static_cast<Activity>(i));
    for (std::size_t i = 0; i < kActivities; ++i)
      if (has(stays, i)) speeds[i] = level;
    rising &= static_cast<ActivitySet>(~stays);
  }
  return speeds;
}

class SharedResources final : public Interference {
 public:
  explicit SharedResources(const SharesParams& p) {
    for (const CollectiveReach reach : {CollectiveReach::node, CollectiveReach::network}) {
      const bool network = reach == CollectiveReach::network;
      const double on_link = network ? p.network_link : 0;
      const std::array<Shares, 4> resources{Shares{1, network ? p.network_collective : p.node_collective, 0, 0},
                                            Shares{0, on_link, 1, 0}, Shares{0, on_link, 0, 1},
                                            Shares{p.host_kernels, p.host_collective, p.host_copy, p.host_copy}};
      for (std::size_t set = 1; set < kActivitySets; ++set) {
        const PerActivity speeds = fair_speeds(resources, static_cast<ActivitySet>(set));
        PerActivity& slower = slower_[static_cast<std::size_t>(reach)][set];
        for (std::size_t i = 0; i < kActivities; ++i) slower[i] = speeds[i] > 0 ? 1 / speeds[i] : 1;
      }
    }
  }
  PerActivity slower(ActivitySet running, CollectiveReach reach) const override {
    return slower_[static_cast<std::size_t>(reach)][running];
  }

 private:
  std::array<std::array<PerActivity, kActivitySets>, 2> slower_{};
};

}  // namespace

std::unique_ptr<Interference> make_shares(const SharesParams& params) {
  return std::make_unique<SharedResources>(params);
}

void register_shares(InterferenceRegistry& registry) {
  registry.add<SharesParams>(
      "shares", "Work shares what the device, the link to its host and the host have once, max-min fair.", make_shares);
}

}  // namespace orrery::hw
