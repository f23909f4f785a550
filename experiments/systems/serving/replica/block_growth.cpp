#include "experiments/systems/serving/replica/block_growth.hpp"

#include <algorithm>

namespace orrery::experiments {

std::int64_t BlockGrowth::add(std::int64_t clock, std::int64_t blocks) {
  const std::int64_t at = residue(clock);
  taken_[static_cast<std::size_t>(at)] += blocks;
  period_ += blocks;
  return at;
}

void BlockGrowth::remove(std::int64_t residue, std::int64_t blocks) {
  taken_[static_cast<std::size_t>(residue)] -= blocks;
  period_ -= blocks;
}

std::int64_t BlockGrowth::blocks(std::int64_t clock, std::int64_t steps) const {
  if (period_ == 0 || steps <= 0) return 0;
  std::int64_t blocks = steps / block_tokens_ * period_;
  std::int64_t residue = this->residue(clock);  // once: a division for each step would take longer than the rest
  for (std::int64_t left = steps % block_tokens_; left > 0; --left) {
    blocks += taken_[static_cast<std::size_t>(residue)];
    if (++residue == block_tokens_) residue = 0;
  }
  return blocks;
}

std::int64_t BlockGrowth::steps_with(std::int64_t available, std::int64_t clock, std::int64_t most) const {
  if (period_ == 0) return most;
  if ((most / block_tokens_ + 1) <= available / period_) return most;
  std::int64_t steps = available / period_ * block_tokens_;
  std::int64_t left = available % period_;
  std::int64_t residue = this->residue(clock);  // `steps` are whole blocks so far
  while (steps < most) {
    left -= taken_[static_cast<std::size_t>(residue)];
    if (left < 0) break;
    ++steps;
    if (++residue == block_tokens_) residue = 0;
  }
  return std::min(steps, most);
}

}  // namespace orrery::experiments
