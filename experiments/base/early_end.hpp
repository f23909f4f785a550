// Runs that end before their time: once a figure is certain to be beyond a bound, whatever follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery::experiments {

/// A run is to end once the figure at `path` of summary.json is certain to be above the bound (or below it).
struct RunEnd {
  std::string path;
  double bound = 0;
  bool below = false;
};

/// Figures that a system can end runs on.
struct EndFigures {
  std::vector<std::string> above;  ///< distributions, by any statistic of distribution_path(): "ttft_s"
  std::vector<std::string> below;  ///< figures: "slo.attainment"
};

/// "ttft_s.p99" as distribution and statistic: mean, max, or one of kLatencyQuantiles. Nothing for another path.
std::optional<std::pair<std::string, std::string>> distribution_path(std::string_view path);

/// Whether a statistic of values >= 0 is certain to be above a bound, while they come.
class CertainlyAbove {
 public:
  /// `statistic` as of distribution_path(); `values`: how many there will be at the most.
  CertainlyAbove(std::string_view statistic, double most, std::int64_t values);
  /// One more value; whether it is certain now.
  bool add(double value);

 private:
  double most_;
  std::int64_t values_;
  std::int64_t needed_ = 0;  ///< values above the bound that make it certain; 0: the mean is looked at
  std::int64_t above_ = 0;
  double sum_ = 0;
};

/// Thrown out of a run that ends so.
struct EndedEarly {
  std::string reason;
  std::string path;  ///< of the figure, and its value so far
  double value = 0;
};

}  // namespace orrery::experiments
