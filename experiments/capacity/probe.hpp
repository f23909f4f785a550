// Whether a serving config meets its targets at a rate: as many replications as it takes to say so.
//
// A criterion is a figure of the run (share of requests that attain the SLO, a percentile of a latency …) and a bound.
// Replications with seeds seed, seed + 1, … give the mean of the figure and its Student-t interval; a criterion is
// decided when its bound lies outside the interval. A rate meets the targets when all criteria are met and fails when
// one of them fails for certain. Runs that are too short to say so, or to show a queue that grows, are made longer
// (run_length.hpp); when these run out too the means decide, and the probe says that it is not certain. Replication i
// draws the same requests at every rate, only faster or slower: what is compared is the rate.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/capacity/run_length.hpp"
#include "experiments/systems/serving/system.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::capacity {

enum class Metric : std::uint8_t { ttft, tbt, tpot, e2e, queueing, normalised_latency };
constexpr auto enum_names(Metric) {
  using enum Metric;
  return sim::names<Metric>({{"ttft", ttft},
                             {"tbt", tbt},
                             {"tpot", tpot},
                             {"e2e", e2e},
                             {"queueing", queueing},
                             {"normalised_latency", normalised_latency}});
}

enum class Statistic : std::uint8_t { mean, p50, p90, p95, p99, max };
constexpr auto enum_names(Statistic) {
  using enum Statistic;
  return sim::names<Statistic>({{"mean", mean}, {"p50", p50}, {"p90", p90}, {"p95", p95}, {"p99", p99}, {"max", max}});
}

struct LimitParams {
  Metric metric = Metric::tbt;
  Statistic at = Statistic::p99;
  double most_s = 0;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(
            sim::field("metric", &LimitParams::metric, "Latency that is limited, over all requests of a run.")),
        sim::field("at", &LimitParams::at, "Statistic of the latency: mean, a percentile or the maximum."),
        sim::required(sim::field("most", &LimitParams::most_s, sim::Unit::seconds, sim::positive(),
                                 "Upper limit of the statistic."))};
  }
};

struct CapacityParams {
  std::optional<double> attainment;
  std::vector<LimitParams> limits;
  std::optional<double> rejected;
  std::optional<double> start_rate, min_rate, max_rate;
  double tolerance = 0.02;
  std::optional<std::int64_t> requests;
  std::int64_t max_requests = kMaxRequests;
  std::int64_t replications = 5;
  double confidence = 0.95;
  bool suggest = true;

  static constexpr auto fields() {
    using sim::Unit;
    using P = CapacityParams;
    return sim::FieldTable{
        sim::field("attainment", &P::attainment, Unit::ratio, sim::between(0, 1),
                   "Least attainment: share of requests within the targets of `slo`. null: 0.99 if there are no "
                   "limits, else any."),
        sim::field("limits", &P::limits, "Limits on latency statistics of the whole run."),
        sim::field("rejected", &P::rejected, Unit::ratio, sim::between(0, 1),
                   "Largest share of requests that may be rejected; null: any."),
        sim::field("start_rate", &P::start_rate, Unit::per_s, sim::between(1e-9, 1e9),
                   "First rate to try; null: the workload's own."),
        sim::field("min_rate", &P::min_rate, Unit::per_s, sim::between(1e-9, 1e9),
                   "Lowest rate to try; null: a thousandth of the first."),
        sim::field("max_rate", &P::max_rate, Unit::per_s, sim::between(1e-9, 1e9),
                   "Highest rate to try; null: a thousand times the first."),
        sim::field("tolerance", &P::tolerance, Unit::ratio, sim::between(1e-4, 1),
                   "Largest relative distance between the highest rate that meets the targets and the lowest that "
                   "fails them."),
        sim::field("requests", &P::requests, Unit::requests, sim::at_least(1),
                   "Requests (or instances of a program) of the first run at a rate; null: those of the workload. Runs "
                   "that are too short are made longer."),
        sim::field("max_requests", &P::max_requests, Unit::requests, sim::between(1, 1e8),
                   "Most requests of a run that is made longer. A generator or program then sends more; a trace ends."),
        sim::field("replications", &P::replications, Unit::count, sim::between(1, 1000),
                   "Most runs at a rate, with seeds seed, seed + 1, …."),
        sim::field("confidence", &P::confidence, Unit::ratio, sim::between(0.5, 0.9999),
                   "Confidence level of the interval that must exclude the bound before a rate is decided."),
        sim::field("suggest", &P::suggest,
                   "Whether to try changes to the batching policy that may relieve the limiting cause, and report the "
                   "best one.")};
  }
};

/// Longest run that is tried, as time goes: a quarter of what the config's tick can count.
double horizon_s(const ServingConfig& config);

/// One criterion at one rate.
struct Criterion {
  std::string name;  ///< "attainment", "tbt_s.p99", …
  double bound = 0;
  bool at_least = false;            ///< the figure is to be at least, else at most, the bound
  double mean = 0, half_width = 0;  ///< over replications; NaN where a figure is not there
  bool met() const { return at_least ? mean >= bound : mean <= bound; }
  /// The bound lies outside the interval.
  bool decided() const { return mean + half_width < bound || mean - half_width > bound || half_width == 0; }
};

struct Probe {
  double rate = 0, rate_scale = 0;
  bool meets = false, certain = false;
  std::int64_t replications = 0;  ///< of the last length, as all figures
  std::int64_t requests = 0;      ///< of a run (of a program: instances)
  LoadState load = LoadState::steady;
  double spans = 0;   ///< mean times in system that the arrivals span
  std::string limit;  ///< why no longer run was tried
  std::vector<Criterion> criteria;
  /// The targets are met, and longer runs would meet them too.
  bool holds() const { return meets && load == LoadState::steady; }
};

class Prober {
 public:
  /// Both are borrowed.
  Prober(const ServingConfig& config, const ServingSetup& setup, const CapacityParams& params);
  const Arrivals& arrivals() const { return arrivals_; }
  Probe at(double rate, const std::function<void(const Progress&)>& progress = {});
  std::uint64_t events() const { return events_; }
  std::int64_t runs() const { return runs_; }

 private:
  std::vector<Criterion> criteria() const;
  double figure(const Criterion& criterion, std::size_t index, const ServingResult& result) const;
  void replicate(Probe& probe, RunLength& length, const std::function<void(const Progress&)>& progress);
  void judge(Probe& probe, const std::vector<std::vector<double>>& samples) const;

  const ServingConfig& config_;
  const ServingSetup& setup_;
  const CapacityParams& params_;
  Arrivals arrivals_;
  bool varies_ = true;  ///< replications differ
  std::uint64_t events_ = 0;
  std::int64_t runs_ = 0;
};

}  // namespace orrery::experiments::capacity
