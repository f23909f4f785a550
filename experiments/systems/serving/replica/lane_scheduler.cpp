#include "experiments/systems/serving/replica/lane_scheduler.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "experiments/systems/serving/replica/contract.hpp"
#include "experiments/systems/serving/replica/lane.hpp"
#include "experiments/systems/serving/replica/stage_pipe.hpp"

namespace orrery::experiments {

bool LaneScheduler::in_flight() const {
  return std::ranges::any_of(lanes_, [](const Lane* lane) { return lane->iterating(); });
}

/// Lanes that may begin a batch: the earliest admission first, those without sequences last.
std::vector<Lane*> LaneScheduler::between_batches() const {
  // A mode of few stages has no more batches in flight than these.
  const std::int64_t most = pipe_.modes() == 1
                                ? std::ssize(lanes_)
                                : std::min<std::int64_t>(std::ssize(lanes_), pipe_.stages(lanes_.front()->mode()));
  std::vector<Lane*> lanes;
  for (std::int64_t i = 0; i < std::ssize(lanes_); ++i) {
    Lane* const lane = lanes_[static_cast<std::size_t>(i)];
    if (i >= most && !lane->sequences().running().empty())
      throw std::logic_error("a sequence runs in a lane that the mode has not");
    if (i < most && !lane->iterating()) lanes.push_back(lane);
  }
  std::ranges::stable_sort(lanes, std::ranges::less{}, [](const Lane* lane) {
    const std::vector<policies::SeqId>& running = lane->sequences().running();
    return running.empty() ? policies::kStable : lane->sequences()[running.front()].turn;
  });
  return lanes;
}

void LaneScheduler::ready_at(const ExactTime& time) {
  engine_.schedule_at(std::max(time.tick(), engine_.now()), *this);
}

void LaneScheduler::on_event(std::uint64_t) {
  ready();
  instants_.settle();
}

void LaneScheduler::take_turn() {
  if (switching_) {
    if (in_flight()) return;
    switching_ = false;
    for (Lane* lane : lanes_)
      if (lane != lanes_.front()) lanes_.front()->take_over(*lane);
    lanes_.front()->take_turn();
  }
  spread();
  give_out();
  if (switching_ || in_flight()) return;
  // Whoever came first may have waited for blocks that another one gave back since.
  give_out();
  const SequenceTable& all = lanes_.front()->sequences();
  if (in_flight() || switching_ || all.leaving() > 0) return;
  if (std::ranges::any_of(lanes_, [](const Lane* lane) { return lane->loading(); })) return;
  if (all.queued() > 0 ||
      std::ranges::any_of(lanes_, [](const Lane* lane) { return !lane->sequences().running().empty(); }))
    broken_policy("sequences wait or run, but no lane was given work");
}

void LaneScheduler::give_out() {
  const std::int32_t mode = lanes_.front()->mode();
  for (Lane* lane : between_batches()) {
    if (switching_) return;
    if (lanes_.front()->mode() != mode) return ready();  // it has other lanes
    lane->take_turn();
  }
}

/// Decodes of lanes between two batches go to those among them that have less than their share.
void LaneScheduler::spread() {
  std::vector<Lane*> lanes = between_batches();
  if (lanes.size() < 2) return;
  const auto decodes = [](const Lane* lane) { return lane->sequences().decoding(); };
  std::ranges::stable_sort(lanes, std::ranges::greater{}, decodes);
  std::int64_t all = 0;
  for (const Lane* lane : lanes) all += decodes(lane);
  const auto share = [&](std::size_t of) {  // those that have most keep what is left over
    const std::int64_t count = std::ssize(lanes);
    return all / count + (static_cast<std::int64_t>(of) < all % count ? 1 : 0);
  };
  std::size_t from = 0;
  for (std::size_t to = lanes.size(); to-- > 0;) {
    while (decodes(lanes[to]) < share(to)) {
      while (decodes(lanes[from]) <= share(from)) ++from;
      lanes[to]->take_decodes(*lanes[from],
                              std::min(share(to) - decodes(lanes[to]), decodes(lanes[from]) - share(from)));
    }
  }
}

Elsewhere LaneScheduler::elsewhere(const Lane& lane) const {
  Elsewhere others;
  for (const Lane* other : lanes_) {
    if (other == &lane) continue;
    others.sequences += std::ssize(other->sequences().running());
    if (pipe_.modes() > 1) others.kv_tokens += other->tokens().claimed;
  }
  return others;
}

bool LaneScheduler::alone(const Lane& lane) const {
  return std::ranges::all_of(lanes_,
                             [&](const Lane* other) { return other == &lane || other->sequences().running().empty(); });
}

/// A lane's policy preempts these: finds out who goes instead, and preempts one of them if it may be done now.
RoomFrom LaneScheduler::make_room(const Lane& lane, const std::vector<policies::Preemption>& victims) {
  // A policy that chooses by anything but the turn has its reasons.
  const std::vector<policies::SeqId>& running = lane.sequences().running();
  const auto turn = [&](policies::SeqId id) { return lane.sequences()[id].turn; };
  std::vector<std::int64_t> turns;
  for (const policies::Preemption& victim : victims) {
    if (victim.how == policies::Preempt::pause) return RoomFrom::itself;
    turns.push_back(turn(victim.seq));
  }
  std::ranges::sort(turns);
  std::size_t latest = running.size();
  for (std::size_t i = turns.size(); i-- > 0;) {
    while (latest > 0 && lane.sequences()[running[latest - 1]].phase == policies::Phase::paused) --latest;
    if (latest == 0 || turns[i] != turn(running[--latest])) return RoomFrom::itself;
  }
  Lane* from = nullptr;
  bool flying = false;
  std::int64_t last = turns.front();
  for (Lane* other : lanes_) {
    if (other == &lane) continue;
    const std::optional<policies::SeqId> id = latest_admission(other->sequences());
    if (!id || turn(*id) <= turns.front()) continue;
    flying = flying || other->iterating();
    if (other->iterating() || turn(*id) <= last) continue;
    last = turn(*id);
    from = other;
  }
  if (from == nullptr) return flying ? RoomFrom::later : RoomFrom::itself;
  from->give_up_latest(victims.front().how);
  return RoomFrom::others;
}

ExactTime LaneScheduler::host_until(const ExactTime& from, std::int64_t ps, std::int64_t ps_per_tick) {
  if (ps == 0) return from;
  return host_free_ = std::max(from, host_free_).plus(ps, ps_per_tick);
}

bool LaneScheduler::agrees(const Lane& lane, policies::BatchDecision& decision, const std::function<void()>& decide) {
  dropped_ = false;
  while (!dropped_) {
    if (decision.mode.value_or(lane.mode()) != lane.mode() && !may_switch(lane)) {
      dropped_ = true;
    } else {
      const RoomFrom room = decision.preempt.empty() ? RoomFrom::itself : make_room(lane, decision.preempt);
      if (room == RoomFrom::itself) return true;
      dropped_ = room == RoomFrom::later;
      if (!dropped_) decide();
    }
  }
  return false;
}

/// A lane's policy wants another mode: true if it may be switched now, with everything in this lane.
bool LaneScheduler::may_switch(const Lane& lane) {
  if (&lane == lanes_.front() && alone(lane)) return true;
  switching_ = true;
  ready();
  return false;
}

void LaneScheduler::set_mode(std::int32_t mode) {
  for (Lane* lane : lanes_) lane->set_mode(mode);
}

TokenSums LaneScheduler::tokens() const {
  TokenSums all;
  for (const Lane* lane : lanes_) {
    const TokenSums sums = lane->tokens();
    all.cached += sums.cached;
    all.claimed += sums.claimed;
    all.in_the_end += sums.in_the_end;
  }
  return all;
}

}  // namespace orrery::experiments
