// How long runs at one rate have to be, so that they say what longer ones would.
//
// A short run flatters: it ends before the queue of an overloaded system has grown. So a run counts only if its
// arrivals span 20 mean times in system (E2E; of programs, their own time) and times in system, by order of arrival, do
// not grow. Else it is made longer, up to `max_requests`. What still grows then is overloaded: its figures are those of
// the length of the run, not of the system. What spans too little is too short to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/systems/serving/system.hpp"
#include "sim/trend.hpp"

namespace orrery::experiments::capacity {

enum class LoadState : std::uint8_t { steady, overloaded, too_short };
constexpr auto enum_names(LoadState) {
  using enum LoadState;
  return sim::names<LoadState>({{"steady", steady}, {"overloaded", overloaded}, {"too_short", too_short}});
}

constexpr std::int64_t kMaxRequests = 100'000;  ///< where the config does not say

/// What comes to a serving config, how fast, and how much of it there can be.
struct Arrivals {
  double per_s = 0;           ///< at a rate_scale of 1: an arrival process' parameter, or requests over time in a trace
  std::int64_t requests = 0;  ///< of the first run
  std::int64_t most = 0;      ///< of the longest; the same as `requests` where the config ends runs itself
  bool programs = false;      ///< these, not requests, are what arrives
  bool all = false;           ///< a first run has all that there is
};
/// `requests`: of the first run, in place of the config's; `most`: of the longest. Reads a trace to its end (or to
/// workload.limit) where nothing else tells its rate, which stays 0 if all arrive at once or when others have ended.
Arrivals arrivals_of(const ServingConfig& config, std::optional<std::int64_t> requests, std::int64_t most);
/// Throws sim::ConfigError for arrivals without a rate.
void require_rate(const ServingConfig& config, const Arrivals& arrivals);

class RunLength {
 public:
  static constexpr double kSpans = 20;  ///< mean times in system that arrivals span

  explicit RunLength(const Arrivals& arrivals);

  /// How many requests (programs) the next run is to have.
  std::int64_t requests() const { return requests_; }
  /// Books a run of that length; replications are taken together. Learns from it where a trace ends.
  void add(const ServingResult& run);
  /// Mean times in system that the arrivals span; 0 if nothing was completed.
  double spans() const;
  /// What runs of this length are. Before the longest, too_short means that longer ones are wanted.
  LoadState load() const;
  /// Goes on to longer runs, and forgets those before; false if there are none.
  bool lengthen();
  /// Why nothing longer was tried.
  std::string limit_text() const;

 private:
  bool grows() const;
  bool grows_from_nothing() const;
  bool plainly_overloaded() const;
  std::int64_t longest() const;
  double in_system_s() const { return runs_ > 0 ? in_system_s_ / static_cast<double>(runs_) : 0; }

  bool programs_;
  std::int64_t requests_, most_;
  bool exhausted_ = false;
  std::int64_t runs_ = 0;
  double span_s_ = 0, in_system_s_ = 0;  // summed over runs; mean of each
  sim::PlaceMeans by_arrival_;           // seconds
  double calls_each_ = 1;                // requests of a program
  // The length before: how many, their mean time in system, and whether it grew from nothing.
  std::int64_t before_ = 0;
  double before_s_ = 0;
  bool grew_before_ = false;
};

}  // namespace orrery::experiments::capacity
