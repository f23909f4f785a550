#include "experiments/base/early_end.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/base/figures.hpp"

namespace orrery::experiments {
namespace {

/// The share of values that a statistic has below it; nothing for the mean.
std::optional<double> quantile_of(std::string_view statistic) {
  if (statistic == "max") return 1;
  for (const auto& [name, quantile] : kLatencyQuantiles)
    if (statistic == name) return quantile;
  return std::nullopt;
}

}  // namespace

std::optional<std::pair<std::string, std::string>> distribution_path(std::string_view path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view statistic = path.substr(dot + 1);
  if (statistic != "mean" && !quantile_of(statistic)) return std::nullopt;
  return std::pair(std::string(path.substr(0, dot)), std::string(statistic));
}

CertainlyAbove::CertainlyAbove(std::string_view statistic, double most, std::int64_t values)
    : most_(most), values_(std::max<std::int64_t>(1, values)) {
  // Of n sorted values the quantile q lies at or above place k = floor(q (n-1)): n - k values above the bound suffice.
  // Fewer values than expected need no more of them, so an upper bound of n serves.
  if (const auto quantile = quantile_of(statistic))
    needed_ = values_ - static_cast<std::int64_t>(std::floor(*quantile * static_cast<double>(values_ - 1)));
}

bool CertainlyAbove::add(double value) {
  sum_ += value;
  if (value > most_) ++above_;
  return needed_ > 0 ? above_ >= needed_ : sum_ > most_ * static_cast<double>(values_);
}

}  // namespace orrery::experiments
