#include "hw/interference/interference.hpp"

#include <algorithm>
#include <limits>

namespace orrery::hw {

void register_interference(InterferenceRegistry& registry) {
  register_no_interference(registry);
  register_shares(registry);
  register_factors(registry);
}

double longest_s(const PerActivity& alone_s) {
  return std::max(0.0, *std::max_element(alone_s.begin(), alone_s.end()));
}

double together_s(const Interference& model, PerActivity alone_s, CollectiveReach reach) {
  double time = 0;
  for (;;) {
    ActivitySet running = 0;
    for (std::size_t i = 0; i < kActivities; ++i)
      if (alone_s[i] > 0) running |= activity_bit(static_cast<Activity>(i));
    if (running == 0) return time;
    const PerActivity slower = model.slower(running, reach);
    double until = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < kActivities; ++i)
      if (alone_s[i] > 0) until = std::min(until, alone_s[i] * slower[i]);
    time += until;
    // What ends now ends exactly, so that each round has fewer of them.
    for (std::size_t i = 0; i < kActivities; ++i)
      alone_s[i] = alone_s[i] * slower[i] <= until ? 0 : alone_s[i] - until / slower[i];
  }
}

bool slows_nothing(const Interference& model) {
  for (const CollectiveReach reach : {CollectiveReach::node, CollectiveReach::network})
    for (std::size_t set = 1; set < kActivitySets; ++set) {
      const PerActivity slower = model.slower(static_cast<ActivitySet>(set), reach);
      for (std::size_t i = 0; i < kActivities; ++i)
        if (has(static_cast<ActivitySet>(set), i) && slower[i] > 1) return false;
    }
  return true;
}

}  // namespace orrery::hw
