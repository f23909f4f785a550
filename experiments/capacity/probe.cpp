#include "experiments/capacity/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/capacity/serving_question.hpp"

namespace orrery::experiments::capacity {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double statistic(const sim::SampleStats& samples, Statistic at) {
  if (samples.count() == 0) return kNone;
  switch (at) {
    case Statistic::mean:
      return samples.mean();
    case Statistic::max:
      return static_cast<double>(samples.max());
    case Statistic::p50:
      return samples.quantile(0.5);
    case Statistic::p90:
      return samples.quantile(0.9);
    case Statistic::p95:
      return samples.quantile(0.95);
    case Statistic::p99:
      return samples.quantile(0.99);
  }
  return kNone;
}

}  // namespace

double horizon_s(const ServingConfig& config) {
  return 0.25 * 9.2e18 * config.run.tick_s;
}

Prober::Prober(const ServingConfig& config, const ServingSetup& setup, const CapacityParams& params)
    : config_(config),
      setup_(setup),
      params_(params),
      arrivals_(arrivals_of(config, params.requests, params.max_requests)) {
  require_rate(config, arrivals_);
}

std::vector<Criterion> Prober::criteria() const {
  std::vector<Criterion> all;
  for (const LimitParams& limit : params_.limits)
    all.push_back({.name = fmt::format("{}_s.{}", sim::to_string(limit.metric), sim::to_string(limit.at)),
                   .bound = limit.most_s});
  if (params_.attainment) all.push_back({.name = "attainment", .bound = *params_.attainment, .at_least = true});
  if (params_.rejected) all.push_back({.name = "rejected", .bound = *params_.rejected});
  return all;
}

double Prober::figure(const Criterion& criterion, std::size_t index, const ServingResult& result) const {
  const ServingMetrics& m = result.metrics;
  const auto share = [](std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : kNone;
  };
  if (index < params_.limits.size()) {
    const LimitParams& limit = params_.limits[index];
    for (const Distribution& distribution : distributions(m))
      if (distribution.name == sim::to_string(limit.metric))
        return statistic(*distribution.samples, limit.at) * distribution.unit_s;
    return kNone;
  }
  return criterion.at_least ? share(m.verdicts.attained, m.measured) : share(m.rejected, m.arrived);
}

void Prober::judge(Probe& probe, const std::vector<std::vector<double>>& samples) const {
  bool all_met = true;
  bool all_decided = true;
  bool one_fails = false;
  for (std::size_t i = 0; i < probe.criteria.size(); ++i) {
    Criterion& criterion = probe.criteria[i];
    const std::vector<double>& values = samples[i];
    const auto n = static_cast<double>(values.size());
    double sum = 0;
    for (const double value : values) sum += value;
    criterion.mean = sum / n;
    criterion.half_width = half_width(values, criterion.mean, params_.confidence);
    // A figure without samples (no request completed) meets nothing.
    const bool met = criterion.met();
    const bool decided = (values.size() > 1 || !varies_) && criterion.decided();
    all_met = all_met && met;
    all_decided = all_decided && decided;
    one_fails = one_fails || (!met && (decided || std::isnan(criterion.mean)));
  }
  probe.meets = all_met;
  probe.certain = one_fails || all_decided;
}

void Prober::replicate(Probe& probe, RunLength& length, const std::function<void(const Progress&)>& progress) {
  std::vector<std::vector<double>> samples(probe.criteria.size());
  const std::int64_t most = varies_ ? params_.replications : 1;
  probe.replications = 0;
  probe.requests = length.requests();
  do {
    const ServingResult result =
        setup_.run(nullptr, progress,
                   {.replication = probe.replications, .rate_scale = probe.rate_scale, .requests = probe.requests});
    events_ += result.events;
    ++runs_;
    length.add(result);
    ++probe.replications;
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i].push_back(figure(probe.criteria[i], i, result));
    // A trace that is replayed as it is comes out the same with every seed, unless a policy draws: look once.
    if (probe.replications == 2 && config_.workload.trace && !config_.workload.arrivals)
      varies_ = std::any_of(samples.begin(), samples.end(), [](const auto& s) { return s[0] != s[1]; });
    judge(probe, samples);
  } while (!probe.certain && probe.replications < most);
}

Probe Prober::at(double rate, const std::function<void(const Progress&)>& progress) {
  Probe probe;
  probe.rate = rate;
  probe.rate_scale = rate / arrivals_.per_s;
  probe.criteria = criteria();
  Arrivals arrivals = arrivals_;
  const double reach = rate * horizon_s(config_);
  if (static_cast<double>(arrivals.most) > reach) arrivals.most = static_cast<std::int64_t>(reach);
  RunLength length(arrivals);
  for (;;) {
    replicate(probe, length, progress);
    probe.load = length.load();
    probe.spans = length.spans();
    const bool fails = probe.certain && !probe.meets;  // a longer run has no shorter queues
    const bool decided = probe.load == LoadState::steady && (probe.certain || params_.replications == 1);
    if (fails || decided || probe.load == LoadState::overloaded || !length.lengthen()) break;
  }
  probe.limit = length.limit_text();
  if (probe.load == LoadState::overloaded && probe.meets) probe.certain = true;  // and yet it does not
  return probe;
}

}  // namespace orrery::experiments::capacity
