#include "traces/trace.hpp"

#include <fmt/format.h>

#include <numeric>

namespace orrery::traces {

std::int64_t SkipCounts::total() const {
  return std::accumulate(by_reason.begin(), by_reason.end(), std::int64_t{0});
}

std::string SkipCounts::text() const {
  std::string text;
  for (std::size_t i = 0; i < by_reason.size(); ++i)
    if (by_reason[i] > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", by_reason[i], sim::names_of<SkipReason>[i].first);
  return text;
}

}  // namespace orrery::traces
