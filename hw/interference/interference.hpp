// Interference: how much longer work takes on a device while other work runs beside it.
//
// Four kinds of work go on at once in a device that trains: kernels, a collective, copies from the host and copies to
// it. A model says how many times as long each takes while a given set of them runs. together_s() lets all run until
// the first is done, then the rest, slowed less, and so on. This is the recurrence of Mist (Zhu et al., EuroSys 2025);
// what the models disagree about is the slowdowns alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sim/base/registry.hpp"

namespace orrery::hw {

enum class Activity : std::uint8_t { kernels, collective, to_device, to_host };
inline constexpr std::size_t kActivities = 4;

/// A figure for each kind of work, in the order of Activity.
using PerActivity = std::array<double, kActivities>;

/// Which kinds run: bit i for Activity i.
using ActivitySet = std::uint8_t;
inline constexpr std::size_t kActivitySets = 1U << kActivities;
constexpr std::size_t index(Activity activity) {
  return static_cast<std::size_t>(activity);
}
constexpr ActivitySet activity_bit(Activity activity) {
  return static_cast<ActivitySet>(1U << static_cast<unsigned>(activity));
}
constexpr bool has(ActivitySet set, std::size_t activity) {
  return (set >> activity & 1U) != 0;
}

/// Where the ranks of the collective are: it stays inside a node, or crosses the network.
enum class CollectiveReach : std::uint8_t { node, network };

/// Contract: a pure function, cheap (planners ask millions of times), and at least 1 for every work of the set; what it
/// says of others is not read. Alone, nothing is slowed.
class Interference {
 public:
  virtual ~Interference() = default;
  virtual PerActivity slower(ActivitySet running, CollectiveReach reach) const = 0;
  /// Why its parameters do not go together; nothing if they do.
  virtual std::optional<std::string> fault() const { return std::nullopt; }
};

using InterferenceRegistry = sim::Registry<Interference>;

/// Adds every model: `none`, `shares`, `factors`.
void register_interference(InterferenceRegistry& registry);
void register_no_interference(InterferenceRegistry& registry);
void register_shares(InterferenceRegistry& registry);
void register_factors(InterferenceRegistry& registry);

/// Seconds until work that takes `alone_s` by itself (0: there is none) is done, all of it started at once.
double together_s(const Interference& model, PerActivity alone_s, CollectiveReach reach);

/// The same without interference: the longest.
double longest_s(const PerActivity& alone_s);

/// Whether the model slows nothing, whatever runs.
bool slows_nothing(const Interference& model);

}  // namespace orrery::hw
