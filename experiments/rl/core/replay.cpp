#include "experiments/rl/core/replay.hpp"

#include <algorithm>

namespace orrery::experiments::rl {
namespace {

/// Puts row i of `from` at row `at` of `rows`, which grows up to there.
template <class T>
void put(std::vector<T>& rows, std::size_t at, std::span<const T> from, std::size_t i, std::size_t width) {
  if (rows.size() < (at + 1) * width) rows.resize((at + 1) * width);
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i * width), width,
              rows.begin() + static_cast<std::ptrdiff_t>(at * width));
}

}  // namespace

void Replay::add(const Experience& experience) {
  for (std::size_t i = 0; i < experience.before.n; ++i) {
    const std::size_t at = next_;
    next_ = (next_ + 1) % capacity_;
    put(before_, at, experience.before.observations, i, observation_);
    put(after_, at, experience.after.observations, i, observation_);
    put(actions_, at, experience.actions, i, action_);
    put(rewards_, at, experience.rewards, i, 1);
    put(terminated_, at, experience.terminated, i, 1);
    put(masks_, at, experience.before.masks, i, mask_);
    put(after_masks_, at, experience.after.masks, i, mask_);
  }
}

Replay::Batch Replay::draw(std::size_t n, sim::RandomStream& random) const {
  Batch batch;
  batch.n = n;
  batch.before.resize(static_cast<Index>(observation_), static_cast<Index>(n));
  batch.after.resize(static_cast<Index>(observation_), static_cast<Index>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = random.below(size());
    std::copy_n(before_.data() + at * observation_, observation_, batch.before.col(static_cast<Index>(i)).data());
    std::copy_n(after_.data() + at * observation_, observation_, batch.after.col(static_cast<Index>(i)).data());
    put(batch.actions, i, std::span(actions_), at, action_);
    put(batch.masks, i, std::span(masks_), at, mask_);
    put(batch.after_masks, i, std::span(after_masks_), at, mask_);
    batch.rewards.push_back(rewards_[at]);
    batch.terminated.push_back(terminated_[at]);
  }
  return batch;
}

}  // namespace orrery::experiments::rl
