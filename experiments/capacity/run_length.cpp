#include "experiments/capacity/run_length.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/systems/serving/load/program_load.hpp"
#include "experiments/systems/serving/load/workload.hpp"

namespace orrery::experiments::capacity {
namespace {

constexpr std::int64_t kMostFactor = 8;  // from one length to the next

// Times in system grow for certain if the slope is this many standard errors above zero and matters.
constexpr double kErrors = 3;
constexpr double kMatters = 0.2;  // growth over the run, as a share of the mean

/// The first tenth of a row: the system fills.
std::span<const double> filled(const std::vector<double>& means) {
  return std::span(means).subspan(means.size() / 10);
}

/// The rate that an arrival process is told, if it has one.
std::optional<double> told_rate(const traces::ArrivalRegistry::Choice& arrivals) {
  const sim::Node* rate = arrivals.params.find("rate");
  if (rate == nullptr || !rate->is_string()) return std::nullopt;
  return sim::parse_quantity(rate->as_string(), sim::Unit::per_s);
}

/// Requests (or instances of a program) that the config asks for; of a trace that nobody has counted, all.
std::int64_t asked_for(const WorkloadParams& workload) {
  constexpr std::int64_t kAll = std::int64_t{1} << 60;
  std::int64_t requests = workload.limit.value_or(kAll);
  if (workload.generator) requests = std::min(requests, workload.generator->requests);
  if (workload.program) requests = std::min(requests, instances_of(*workload.program, *workload.program->does.make()));
  return requests;
}

/// Requests of a trace and the time between the first and the last; true if it has no more than these.
bool read_rate(const ServingConfig& config, Arrivals& arrivals) {
  const auto source = open_workload(config, static_cast<std::uint64_t>(config.run.seed));
  traces::TraceRecord record;
  std::int64_t count = 0;
  std::int64_t first_ns = 0;
  while (count < arrivals.requests && source->next(record))
    if (count++ == 0) first_ns = record.arrival_ns;
  traces::TraceRecord more;
  const bool all = count < arrivals.requests || !source->next(more);
  arrivals.requests = std::max<std::int64_t>(count, 1);
  const auto span_s = static_cast<double>(record.arrival_ns - first_ns) * 1e-9;
  if (count > 1 && span_s > 0) arrivals.per_s = static_cast<double>(count - 1) / span_s;
  return all;
}

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

}  // namespace

Arrivals arrivals_of(const ServingConfig& config, std::optional<std::int64_t> requests, std::int64_t most) {
  const WorkloadParams& workload = config.workload;
  Arrivals arrivals;
  arrivals.programs = workload.program.has_value();
  arrivals.requests = requests.value_or(asked_for(workload));
  std::optional<double> told;
  if (workload.generator) told = told_rate(workload.generator->arrivals);
  if (workload.arrivals) told = told_rate(*workload.arrivals);
  if (workload.program && workload.program->arrivals) told = told_rate(*workload.program->arrivals);
  if (told) {
    arrivals.per_s = *told;
  } else if (!workload.program && !workload.clients) {
    arrivals.all = read_rate(config, arrivals) && workload.trace;
  }
  const bool ends_itself = config.run.until_s || config.run.until_requests;
  arrivals.most = std::max(arrivals.requests, std::min(most, workload.limit.value_or(most)));
  if (ends_itself || arrivals.all) arrivals.most = arrivals.requests;
  return arrivals;
}

void require_rate(const ServingConfig& config, const Arrivals& arrivals) {
  if (arrivals.per_s > 0) return;
  if (arrivals.programs)
    sim::throw_fault({config.file, "/workload/program"}, "expected 'arrivals' with a rate, which can be changed");
  sim::throw_fault({config.file, "/workload"},
                   "expected requests that arrive at different times, or the rate cannot be changed",
                   "workload.arrivals draws arrival times");
}

RunLength::RunLength(const Arrivals& arrivals)
    : programs_(arrivals.programs),
      requests_(std::max<std::int64_t>(std::min(arrivals.requests, arrivals.most), 1)),
      most_(std::max(arrivals.most, requests_)),
      exhausted_(arrivals.all) {}

void RunLength::add(const ServingResult& run) {
  const double tick_s = 1e-12 * static_cast<double>(run.metrics.ps_per_tick);
  ++runs_;
  std::int64_t arrived = run.metrics.arrived;
  sim::Time first = run.metrics.arrivals.first;
  sim::Time last = run.metrics.arrivals.last;
  sim::PlaceMeans by_arrival;
  double sum = 0;
  if (run.programs) {
    const auto& records = run.programs->records;
    arrived = run.programs->started;
    calls_each_ =
        arrived > 0 ? std::max(1.0, static_cast<double>(run.programs->calls) / static_cast<double>(arrived)) : 1;
    if (!records.empty()) first = records.front().started, last = records.back().started;
    for (const ProgramRecord& record : records) {
      if (!record.completed) continue;
      const double time_s = static_cast<double>((*record.finished - record.started).ticks) * tick_s;
      by_arrival.add(record.id, time_s);
      sum += time_s;
    }
    if (by_arrival.count() > 0) in_system_s_ += sum / static_cast<double>(by_arrival.count());
  } else {
    by_arrival = run.metrics.arrivals.e2e_s;
    if (run.metrics.e2e.count() > 0) in_system_s_ += run.metrics.e2e.mean() * tick_s;
  }
  by_arrival_.add(by_arrival);
  if (arrived > 1) span_s_ += static_cast<double>((last - first).ticks) * tick_s;
  if (arrived < requests_) {  // the trace, or the program, has no more
    exhausted_ = true;
    requests_ = most_ = std::max<std::int64_t>(arrived, 1);
  }
}

double RunLength::spans() const {
  return in_system_s_ > 0 ? span_s_ / in_system_s_ : 0;
}

bool RunLength::grows() const {
  const std::vector<double> means = by_arrival_.means();
  const sim::Trend trend = sim::trend_of(filled(means));
  return trend.t > kErrors && trend.growth > kMatters * trend.mean;
}

/// Long against the time that its first requests took, and the last quarter takes nearly as many times as long as the
/// second as a queue that grows from nothing makes it (7 / 3).
bool RunLength::grows_from_nothing() const {
  const std::vector<double> all = by_arrival_.means();
  if (all.size() < 16 || !grows()) return false;
  const std::span<const double> means(all);
  const std::size_t quarter = means.size() / 4;
  const double early_s = mean_of(means.first(std::max<std::size_t>(means.size() / 20, 1)));
  const double second_s = mean_of(means.subspan(quarter, quarter));
  const double last_s = mean_of(means.last(quarter));
  return span_s_ >= kSpans * early_s * static_cast<double>(runs_) && last_s > 1.8 * second_s;
}

/// That of two lengths, one after the other, and requests of the longer one take longer by half of what their number
/// would make of a queue without an end. Waves of a busy system do not grow with the run, so longer runs would only
/// make it plainer.
bool RunLength::plainly_overloaded() const {
  if (!grew_before_ || !grows_from_nothing()) return false;
  const double more = static_cast<double>(requests_) / static_cast<double>(before_);
  return in_system_s() > before_s_ * (1 + 0.5 * (more - 1));
}

LoadState RunLength::load() const {
  if (plainly_overloaded()) return LoadState::overloaded;
  if (!grows()) return spans() >= kSpans ? LoadState::steady : LoadState::too_short;
  return requests_ >= longest() && (spans() >= kSpans || grows_from_nothing()) ? LoadState::overloaded
                                                                               : LoadState::too_short;
}

/// Programs send many requests each, and it is these that cost.
std::int64_t RunLength::longest() const {
  return std::max(requests_, static_cast<std::int64_t>(static_cast<double>(most_) / calls_each_));
}

bool RunLength::lengthen() {
  const std::int64_t most = longest();
  if (requests_ >= most) return false;
  // As many as the times in system of this run call for, and twice as many at least.
  const double wanted = spans() > 0 ? 1.1 * kSpans / spans() * static_cast<double>(requests_) : 0;
  before_ = requests_;
  before_s_ = in_system_s();
  grew_before_ = grows_from_nothing();
  requests_ = std::min(
      most, std::clamp(static_cast<std::int64_t>(std::min(wanted, 1e15)), 2 * requests_, kMostFactor * requests_));
  runs_ = 0;
  span_s_ = in_system_s_ = 0;
  by_arrival_ = {};
  return true;
}

std::string RunLength::limit_text() const {
  const char* what = programs_ ? "programs" : "requests";
  if (exhausted_) return fmt::format("only {} {} arrive", requests_, what);
  return fmt::format("a run has at most {} {} (max_requests, or workload.limit)", requests_, what);
}

}  // namespace orrery::experiments::capacity
