#include "experiments/systems/serving/replica/lock_step.hpp"

#include <algorithm>

#include "experiments/systems/serving/replica/replica.hpp"

namespace orrery::experiments {

void LockStep::ready() {
  if (due_ || std::any_of(lanes_.begin(), lanes_.end(), [](Replica* lane) { return lane->lane().iterating(); })) return;
  due_ = true;
  engine_.schedule_in({}, *this, 0);
}

void LockStep::on_event(std::uint64_t) {
  // A lane that was cut in the meantime, its replica having failed, leaves nothing to wait for; one that runs does.
  const sim::Time now = engine_.now();
  const ExactTime start = end_.tick() == now ? end_ : ExactTime{now.ticks, 0};
  planned_.clear();
  std::int64_t step_ps = 1;
  for (Replica* lane : lanes_) {
    if (!lane->plan(start)) continue;
    planned_.push_back(lane);
    step_ps = std::max(step_ps, lane->planned_ps());
  }
  due_ = false;
  if (planned_.empty()) {
    // Whoever was sent while the lanes rejected others came too late for a lane that had looked already.
    if (std::any_of(lanes_.begin(), lanes_.end(), [](const Replica* lane) { return lane->can_begin(); })) ready();
    return;
  }
  for (Replica* lane : planned_) {
    work_ps_ += lane->planned_ps();
    lane->go(step_ps);
  }
  occupied_ps_ += step_ps;
  end_ = start.plus(step_ps, engine_.scale().ps_per_tick());
}

}  // namespace orrery::experiments
