#include "sim/task/dispatch.hpp"

#include <algorithm>

namespace orrery::sim {

namespace {
constexpr auto kLater = [](const auto& a, const auto& b) { return b.key < a.key; };
}

void TaskDispatch::extend() {
  for (std::size_t r = resources_.size(); r < graph_.resources(); ++r) {
    const ResourceId id{static_cast<std::uint32_t>(r)};
    Resource& resource = resources_.emplace_back();
    resource.free = graph_.capacity(id);
    resource.program = graph_.order(id) == TaskOrder::program;
    programs_ |= resource.program;
  }
  for (std::size_t set = lanes_.size(); set < graph_.demand_sets(); ++set) add_lane(static_cast<std::uint32_t>(set));
  if (programs_)
    for (std::size_t task = tasks_; task < graph_.tasks(); ++task) {
      const auto index = static_cast<std::uint32_t>(task);
      if (!lanes_[graph_.demand_set_of({index})].program()) continue;
      for (const Demand& demand : graph_.demands({index})) {
        Resource& resource = resources_[demand.resource.index];
        if (resource.program) resource.line.push_back(index);
      }
    }
  tasks_ = graph_.tasks();
}

void TaskDispatch::add_lane(std::uint32_t set) {
  const auto demands = graph_.demand_set(set);
  Lane& lane = lanes_.emplace_back();
  bool ordered = false;
  for (const Demand& demand : demands) {
    lane_of_.push_back(set);
    place_.push_back(kNone);
    if (resources_[demand.resource.index].program) {
      if (lane.lead == kNone) lane.lead = demand.resource.index;
    } else if (!ordered) {
      ordered = true;
      lane.order = graph_.order(demand.resource);
      lane.key = graph_.key(demand.resource);
    }
  }
  if (demands.size() < 2) return;
  // The head of a program resource that stood alone so far is offered when the resource is touched, as any other.
  for (const Demand& demand : demands) resources_[demand.resource.index].shared = true;
}

OrderKey TaskDispatch::key_of(std::uint32_t task, const Lane& lane) const {
  const Time ready = runs_[task].ready;
  const auto key = [&]() -> std::int64_t {
    switch (lane.order) {
      case TaskOrder::priority:
        return -std::int64_t{graph_.priority({task})};
      case TaskOrder::lifo:
        return -ready.ticks;
      case TaskOrder::shortest:
        return graph_.work({task});
      case TaskOrder::longest:
        return -graph_.work({task});
      case TaskOrder::custom:
        return lane.key->key(graph_, {task}, ready);
      case TaskOrder::fifo:
      case TaskOrder::program:
        break;
    }
    return ready.ticks;
  };
  const std::uint64_t tie = std::uint64_t{runs_[task].cause} << 32 | task;
  return {key(), ready.ticks, lane.order == TaskOrder::lifo ? ~tie : tie};
}

inline void TaskDispatch::touch(std::uint32_t resource) {
  if (resources_[resource].touched) return;
  resources_[resource].touched = true;
  touched_.push_back(resource);
}

void TaskDispatch::ready(std::uint32_t task) {
  const std::uint32_t set = graph_.demand_set_of({task});
  const auto demands = graph_.demand_set(set);
  Lane& lane = lanes_[set];
  const std::uint32_t first = demands.front().resource.index;
  const bool alone = !resources_[first].shared;
  if (lane.program()) {
    if (!alone) {
      offer(task);
    } else if (is_head(task, resources_[first])) {
      touch(first);
    }
    return;
  }
  lane.queue.push(key_of(task, lane), task);
  if (!lane.active) activate(set);
  if (!alone) {
    consider(set);
  } else if (resources_[first].free > 0) {
    touch(first);
  }
}

void TaskDispatch::withdraw(std::uint32_t task) {
  const std::uint32_t set = graph_.demand_set_of({task});
  Lane& lane = lanes_[set];
  if (lane.program()) {
    if (lane.active && lane.offered == task) deactivate(set);
  } else if (lane.queue.remove(task) && lane.queue.empty()) {
    deactivate(set);
  }
}

void TaskDispatch::release(std::uint32_t task) {
  for (const Demand& demand : graph_.demands({task})) {
    resources_[demand.resource.index].free += demand.units;
    touch(demand.resource.index);
  }
}

std::uint32_t TaskDispatch::next() {
  if (!serving_) {
    serving_ = true;
    served_ = 0;
    // What was touched first depends on the order of dependencies; what is started first must not.
    if (touched_.size() > 1) std::sort(touched_.begin(), touched_.end());
  }
  for (; served_ < touched_.size(); ++served_) {
    const std::uint32_t index = touched_[served_];
    Resource& resource = resources_[index];
    if (!resource.shared) {
      const std::uint32_t task = next_alone(index);
      if (task != kNone) return task;
    } else {
      for (const std::uint32_t demand : resource.active) consider(lane_of_[demand]);
      if (resource.program) offer_head(index);
    }
    resource.touched = false;
  }
  if (!competing_) {
    competing_ = true;
    touched_.clear();
    served_ = 0;
    for (const std::uint32_t lane : candidates_) push_candidate(lane);
    candidates_.clear();
  }
  const std::uint32_t task = next_candidate();
  if (task == kNone) serving_ = competing_ = false;
  return task;
}

std::uint32_t TaskDispatch::next_alone(std::uint32_t index) {
  Resource& resource = resources_[index];
  if (resource.program) {
    if (!has_head(resource)) return kNone;
    const std::uint32_t task = resource.line[resource.head];
    if (!is_ready(task) || graph_.demands({task}).front().units > resource.free) return kNone;
    start(task);
    return task;
  }
  std::uint32_t best = kNone;
  OrderKey best_key;
  for (const std::uint32_t demand : resource.active) {
    const std::uint32_t lane = lane_of_[demand];
    if (graph_.demand_set(lane).front().units > resource.free) continue;
    const OrderKey key = lanes_[lane].queue.front_key();
    if (best != kNone && best_key < key) continue;
    best = lane;
    best_key = key;
  }
  return best == kNone ? kNone : take(best);
}

void TaskDispatch::consider(std::uint32_t lane) {
  if (lanes_[lane].considered) return;
  lanes_[lane].considered = true;
  // Keys are read when the lanes' turn comes, since what is first in a lane may change until then.
  if (competing_) {
    push_candidate(lane);
  } else {
    candidates_.push_back(lane);
  }
}

void TaskDispatch::push_candidate(std::uint32_t lane) {
  // A lane that does not fit now will not in this round: units only become fewer, and a new head is offered anew.
  lanes_[lane].considered = lanes_[lane].active && fits(lane);
  if (!lanes_[lane].considered) return;
  heap_.push_back({front_key(lanes_[lane]), lane});
  std::push_heap(heap_.begin(), heap_.end(), kLater);
}

std::uint32_t TaskDispatch::next_candidate() {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), kLater);
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    Lane& lane = lanes_[candidate.lane];
    if (lane.active && front_key(lane) != candidate.key) {  // its first task was withdrawn
      push_candidate(candidate.lane);
      continue;
    }
    lane.considered = false;
    if (!lane.active || !fits(candidate.lane)) continue;
    const std::uint32_t task = take(candidate.lane);
    if (lane.active) consider(candidate.lane);
    return task;
  }
  return kNone;
}

bool TaskDispatch::fits(std::uint32_t lane) const {
  for (const Demand& demand : graph_.demand_set(lane)) {
    const Resource& resource = resources_[demand.resource.index];
    if (demand.units > resource.free) return false;
    if (resource.program && !is_head(lanes_[lane].offered, resource)) return false;
  }
  return true;
}

/// Starts the first task of a lane.
std::uint32_t TaskDispatch::take(std::uint32_t index) {
  Lane& lane = lanes_[index];
  const std::uint32_t task = lane.program() ? lane.offered : lane.queue.front();
  if (!lane.program()) lane.queue.pop();
  if (lane.program() || lane.queue.empty()) deactivate(index);
  start(task);
  return task;
}

void TaskDispatch::start(std::uint32_t task) {
  const std::uint32_t set = graph_.demand_set_of({task});
  for (const Demand& demand : graph_.demand_set(set)) resources_[demand.resource.index].free -= demand.units;
  if (lanes_[set].program()) leave_lines(task);
}

void TaskDispatch::leave_lines(std::uint32_t task) {
  const std::uint32_t set = graph_.demand_set_of({task});
  if (lanes_[set].active && lanes_[set].offered == task) deactivate(set);
  for (const Demand& demand : graph_.demand_set(set)) {
    Resource& resource = resources_[demand.resource.index];
    if (!resource.program) continue;
    ++resource.head;
    if (resource.head < 64 || 2 * resource.head < resource.line.size()) continue;
    resource.line.erase(resource.line.begin(), resource.line.begin() + static_cast<std::ptrdiff_t>(resource.head));
    resource.head = 0;
  }
  // Only now: a task may be the new head of several.
  for (const Demand& demand : graph_.demand_set(set))
    if (resources_[demand.resource.index].program) offer_head(demand.resource.index);
}

/// Makes the head of a shared program resource compete, if it is ready.
void TaskDispatch::offer_head(std::uint32_t resource) {
  const Resource& program = resources_[resource];
  if (program.shared && has_head(program) && is_ready(program.line[program.head])) offer(program.line[program.head]);
}

/// A ready task demands shared program resources: it competes once it is the head of the first; of the others, fits()
/// sees to that.
void TaskDispatch::offer(std::uint32_t task) {
  const std::uint32_t set = graph_.demand_set_of({task});
  Lane& lane = lanes_[set];
  if (!is_head(task, resources_[lane.lead])) return;
  if (!lane.active) {
    lane.offered = task;
    lane.offered_key = key_of(task, lane);
    activate(set);
  }
  consider(set);
}

void TaskDispatch::activate(std::uint32_t lane) {
  lanes_[lane].active = true;
  std::uint32_t at = graph_.first_demand(lane);
  for (const Demand& demand : graph_.demand_set(lane)) {
    auto& active = resources_[demand.resource.index].active;
    place_[at] = static_cast<std::uint32_t>(active.size());
    active.push_back(at++);
  }
}

void TaskDispatch::deactivate(std::uint32_t lane) {
  lanes_[lane].active = false;
  std::uint32_t at = graph_.first_demand(lane);
  for (const Demand& demand : graph_.demand_set(lane)) {
    auto& active = resources_[demand.resource.index].active;
    active[place_[at]] = active.back();
    place_[active.back()] = place_[at];
    active.pop_back();
    ++at;
  }
}

}  // namespace orrery::sim
