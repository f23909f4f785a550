#include "experiments/systems/serving/pricing/host_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "experiments/systems/serving/pricing/picoseconds.hpp"

namespace orrery::experiments {

std::int64_t copy_picoseconds(double seconds) {
  if (!(seconds < 9e6)) throw std::overflow_error(fmt::format("a copy of {:.3g} s: check the host bandwidth", seconds));
  return picoseconds(seconds);
}

std::int64_t HostStore::copy(Way& way, std::int64_t tokens) {
  const std::int64_t ps = engine_.scale().ps_per_tick();
  const std::int64_t now = engine_.now().ticks * ps;
  // The first copy of a decision waits for what earlier ones left; the others follow it on the link.
  std::int64_t stall = 0;
  if (way.asked != engine_.now()) {
    stall = std::max<std::int64_t>(0, way.free_at - now);
    way.asked = engine_.now();
  }
  way.free_at =
      std::max(way.free_at, now) + copy_picoseconds(static_cast<double>(tokens * bytes_per_token_) / bandwidth_);
  return stall;
}

std::optional<std::int64_t> HostStore::swap_out(std::int64_t key, std::int64_t tokens, std::int64_t, std::int64_t) {
  if (tokens > free_tokens_) return std::nullopt;
  free_tokens_ -= tokens;
  held_[key] += tokens;
  return copy(out_, tokens);
}

std::int64_t HostStore::swap_in(std::int64_t key, std::int64_t tokens, std::int64_t, std::int64_t) {
  drop(key);
  return copy(in_, tokens);
}

void HostStore::drop(std::int64_t key) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  free_tokens_ += found->second;
  held_.erase(found);
}

}  // namespace orrery::experiments
