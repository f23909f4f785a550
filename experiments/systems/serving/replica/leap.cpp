#include "experiments/systems/serving/replica/leap.hpp"

namespace orrery::experiments {

std::int64_t Leap::over_at(const ExactTime& now) const {
  if (open) return done;
  std::int64_t low = done;
  std::int64_t high = planned;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (time_of(middle) <= now) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

void Leap::fit_in_time(const sim::TickScale& scale) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  const auto last = static_cast<__int128>(planned);
  const __int128 length = static_cast<__int128>(price.time_ps + extra_ps) * last +
                          static_cast<__int128>(price.step_ps) * last * (last - 1) / 2;
  if (length < kMost && start.ticks < kMost) return;  // and their sum fits
  if (length >= kMost && planned > 1) {
    planned /= 2;
    return fit_in_time(scale);
  }
  (void)scale.duration(scale.seconds(sim::Time{start.ticks}) + static_cast<double>(length) * 1e-12);
}

}  // namespace orrery::experiments
