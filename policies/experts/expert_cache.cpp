#include "policies/experts/expert_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/fault.hpp"

namespace orrery::policies {

std::vector<std::int64_t> next_requests(std::span<const std::uint16_t> future, std::int64_t experts) {
  std::vector<std::int64_t> last(static_cast<std::size_t>(experts), kNever);
  std::vector<std::int64_t> next(future.size());
  for (std::size_t i = future.size(); i-- > 0;) {
    next[i] = last[future[i]];
    last[future[i]] = static_cast<std::int64_t>(i);
  }
  return next;
}

std::vector<std::uint16_t> by_frequency(std::span<const std::uint16_t> requests, std::int64_t experts) {
  std::vector<std::int64_t> times(static_cast<std::size_t>(experts), 0);
  for (const std::uint16_t e : requests) ++times[e];
  std::vector<std::uint16_t> order(times.size());
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  std::ranges::stable_sort(order, [&](std::uint16_t a, std::uint16_t b) { return times[a] > times[b]; });
  return order;
}

void need_future(const ExpertCacheSetup& setup, const char* policy) {
  if (setup.future.empty())
    sim::throw_fault({policy, ""}, fmt::format("expert cache {} needs a router trace: it knows what comes", policy));
}

}  // namespace orrery::policies
