#include "experiments/systems/serving/observe/early_end.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/figures.hpp"

namespace orrery::experiments {

EndFigures end_figures() {
  return {.above = {"ttft_s", "tpot_s", "e2e_s", "queueing_s", "normalised_latency_s"}, .below = {"slo.attainment"}};
}

EarlyEnd::EarlyEnd(RunObserver* next, const std::vector<RunEnd>& ends, std::int64_t requests,
                   const ServingMetrics& metrics)
    : PassingObserver(next), metrics_(metrics), requests_(requests) {
  const EndFigures known = end_figures();
  const double margin = requests > kExactRequests ? 1.001 : 1;  // percentiles of more are within 0.05 %
  for (const RunEnd& end : ends) {
    if (end.below && end.path == known.below.front()) attainment_ = &end;
    const auto path = end.below ? std::nullopt : distribution_path(end.path);
    if (path && std::ranges::find(known.above, path->first) != known.above.end())
      all_.push_back({&end, path->first, {path->second, end.bound * margin, requests}});
  }
}

std::optional<double> EarlyEnd::value_of(const RequestRecord& record, std::string_view distribution) const {
  const auto ps = [&](sim::Duration time) { return static_cast<__int128>(time.ticks) * metrics_.ps_per_tick; };
  if (distribution == "ttft_s") return seconds_of(ps(*record.first_token - record.arrived));
  if (distribution == "e2e_s") return seconds_of(ps(*record.finished - record.arrived));
  if (distribution == "queueing_s") return seconds_of(ps(*record.admitted - record.arrived));
  // Times a token are whole picoseconds, as in the metrics.
  if (distribution == "normalised_latency_s")
    return seconds_of(ps(*record.finished - record.arrived) / record.output_tokens);
  if (record.output_tokens <= 1) return std::nullopt;
  return seconds_of(ps(*record.finished - *record.first_token) / (record.output_tokens - 1));
}

/// Of n measured requests at most n - missed attain, a share that grows with n: it is largest for all that can come.
bool EarlyEnd::attains_too_few(double least) const {
  const auto all = static_cast<double>(requests_);
  return (all - static_cast<double>(metrics_.measured - metrics_.verdicts.attained)) / all < least;
}

/// The figure over the requests so far: beyond the bound too, as fewer of them have a smaller share within it.
double EarlyEnd::so_far(const RunEnd& on) const {
  if (on.below) return static_cast<double>(metrics_.verdicts.attained) / static_cast<double>(metrics_.measured);
  const auto [name, statistic] = *distribution_path(on.path);
  const auto all = distributions(metrics_);
  const auto own =
      std::ranges::find_if(all, [&](const Distribution& one) { return name == std::string(one.name) + "_s"; });
  return distribution_figures(*own->samples, own->unit_s, kLatencyQuantiles).find(statistic)->as_number();
}

void EarlyEnd::end(const RunEnd& on) const {
  throw EndedEarly{
      .reason = fmt::format("{} is {} {:.4g}{} whatever follows: ended after {} of at most {} requests", on.path,
                            on.below ? "below" : "above", on.bound, on.below ? "" : " s", ended_, requests_),
      .path = on.path,
      .value = so_far(on)};
}

void EarlyEnd::request_ended(const RequestRecord& record) {
  PassingObserver::request_ended(record);
  ++ended_;
  if (!metrics_.measures(record.arrived)) return;
  if (attainment_ != nullptr && attains_too_few(attainment_->bound)) end(*attainment_);
  if (!record.finished) return;
  for (Watched& one : all_)
    if (const auto value = value_of(record, one.distribution); value && one.above.add(*value)) end(*one.end);
}

}  // namespace orrery::experiments
