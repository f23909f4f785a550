#include "experiments/capacity/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/base/config_parts.hpp"
#include "experiments/capacity/serving_question.hpp"
#include "experiments/systems/serving/load/program_load.hpp"
#include "experiments/systems/serving/load/workload.hpp"

namespace orrery::experiments::capacity {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// The rate that an arrival process is told, if it has one.
std::optional<double> told_rate(const traces::ArrivalRegistry::Choice& arrivals) {
  const sim::Node* rate = arrivals.params.find("rate");
  if (rate == nullptr || !rate->is_string()) return std::nullopt;
  return sim::parse_quantity(rate->as_string(), sim::Unit::per_s);
}

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

NominalRate nominal_rate(const ServingConfig& config, std::optional<std::int64_t> limit) {
  NominalRate nominal;
  std::optional<double> told;
  if (config.workload.generator) told = told_rate(config.workload.generator->arrivals);
  if (config.workload.arrivals) told = told_rate(*config.workload.arrivals);
  if (!limit) limit = config.workload.limit;
  if (config.workload.program) {  // the rate is that of programs, each of which sends what it sends
    if (config.workload.program->arrivals) told = told_rate(*config.workload.program->arrivals);
    if (!told)
      sim::throw_fault({config.file, "/workload/program"}, "expected 'arrivals' with a rate, which can be changed");
    nominal.per_s = *told;
    nominal.requests = limit.value_or(config.workload.program->instances.value_or(100));
    return nominal;
  }
  if (told && config.workload.generator) {
    nominal.per_s = *told;
    nominal.requests =
        std::min(config.workload.generator->requests, limit.value_or(config.workload.generator->requests));
    return nominal;
  }
  const auto source = open_workload(config, static_cast<std::uint64_t>(config.run.seed));
  traces::TraceRecord record;
  std::int64_t first_ns = 0;
  while ((!limit || nominal.requests < *limit) && source->next(record))
    if (nominal.requests++ == 0) first_ns = record.arrival_ns;
  const auto span_s = static_cast<double>(record.arrival_ns - first_ns) * 1e-9;
  if (told) {
    nominal.per_s = *told;
  } else if (nominal.requests > 1 && span_s > 0) {
    nominal.per_s = static_cast<double>(nominal.requests - 1) / span_s;
  } else {
    sim::throw_fault({config.file, "/workload"},
                     "expected requests that arrive at different times, or the rate cannot be changed",
                     "workload.arrivals draws arrival times");
  }
  return nominal;
}

Prober::Prober(const ServingConfig& config, const ServingSetup& setup, const CapacityParams& params)
    : config_(config), setup_(setup), params_(params), nominal_(nominal_rate(config, params.requests)) {}

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
  return criterion.at_least ? share(m.attained, m.measured) : share(m.rejected, m.arrived);
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

Probe Prober::at(double rate, const std::function<void(const Progress&)>& progress) {
  Probe probe;
  probe.rate = rate;
  probe.rate_scale = rate / nominal_.per_s;
  probe.criteria = criteria();
  std::vector<std::vector<double>> samples(probe.criteria.size());
  const std::int64_t most = varies_ ? params_.replications : 1;
  do {
    const ServingResult result =
        setup_.run(nullptr, progress,
                   {.replication = probe.replications, .rate_scale = probe.rate_scale, .limit = params_.requests});
    events_ += result.events;
    if (probe.replications == 0) probe.first = summarise(result, tick_scale(config_.run.tick_s));
    ++probe.replications;
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i].push_back(figure(probe.criteria[i], i, result));
    // A trace that is replayed as it is comes out the same with every seed, unless a policy draws: look once.
    if (probe.replications == 2 && config_.workload.trace && !config_.workload.arrivals)
      varies_ = std::any_of(samples.begin(), samples.end(), [](const auto& s) { return s[0] != s[1]; });
    judge(probe, samples);
  } while (!probe.certain && probe.replications < most);
  return probe;
}

}  // namespace orrery::experiments::capacity
