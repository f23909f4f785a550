// Figures of summary.json that several systems have: distributions, and means over replications.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/base/figure_table.hpp"
#include "sim/base/document.hpp"
#include "sim/statistics.hpp"

namespace orrery::experiments {

/// `mean`, the given quantiles and `max` of samples, times `unit`; null where there are none.
sim::Node distribution_figures(const sim::SampleStats& samples, double unit,
                               std::span<const std::pair<const char*, double>> quantiles);

/// Those of latencies.
inline constexpr std::array kLatencyQuantiles{std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p95", 0.95},
                                              std::pair{"p99", 0.99}};
/// Names of what distribution_figures() makes of them, as a path of a figure table has them:
/// "{mean,p50,p90,p95,p99,max}".
std::string latency_names();

/// part / whole, or null where there is no whole.
sim::Node ratio(double part, double whole);

/// Why a run has no result, from its summary: "infeasible: does not fit …"; empty if it is ok.
std::string reason_of(const sim::Node& summary);

/// Member `replications` of summary.json: `count`, and of the figures at `paths` mean and half width of the 95 %
/// interval (Student's t) over the summaries in which they are numbers.
sim::Node replication_figures(const std::vector<sim::Node>& summaries, std::span<const std::string_view> paths);
/// What it makes.
std::vector<FigureInfo> replication_infos();

}  // namespace orrery::experiments
