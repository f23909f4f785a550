#include "experiments/systems/serving/replica/lock_step.hpp"

#include <algorithm>

#include "experiments/systems/serving/replica/replica.hpp"

namespace orrery::experiments {

bool LockStep::iterating() const {
  return std::ranges::any_of(lanes_, [](Replica* lane) { return lane->lane().iterating(); });
}

void LockStep::ready() {
  if (!iterating()) instants_.ask_turn(number_);
}

/// The step begins.
void LockStep::take_turn() {
  if (iterating()) return;  // it was asked for again while it began
  // A lane that was cut in the meantime, its replica having failed, leaves nothing to wait for; one that runs does.
  const ExactTime start = instants_.now();
  planned_.clear();
  LaneStep fullest{.time_ps = 1, .sent = {}};
  for (Replica* lane : lanes_) {
    if (!lane->plan(start)) continue;
    planned_.push_back(lane);
    const LaneStep own = lane->planned();
    fullest.time_ps = std::max(fullest.time_ps, own.time_ps);
    fullest.sent.ring = std::max(fullest.sent.ring, own.sent.ring);
    fullest.sent.exchange = std::max(fullest.sent.exchange, own.sent.exchange);
  }
  if (planned_.empty()) {
    // Whoever was sent while the lanes rejected others came too late for a lane that had looked already.
    if (std::any_of(lanes_.begin(), lanes_.end(), [](const Replica* lane) { return lane->can_begin(); })) ready();
    return;
  }
  for (Replica* lane : planned_) {
    work_ps_ += lane->planned().time_ps;
    lane->go(fullest);
  }
  occupied_ps_ += fullest.time_ps;
}

}  // namespace orrery::experiments
