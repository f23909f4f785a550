#include "experiments/systems/serving/replica/lane_scheduler.hpp"

#include <algorithm>

#include "experiments/systems/serving/replica/contract.hpp"
#include "experiments/systems/serving/replica/replica.hpp"

namespace orrery::experiments {

void LaneScheduler::ready() {
  if (due_) return;
  due_ = true;
  engine_.schedule_in({}, *this, 0);
}

bool LaneScheduler::in_flight() const {
  return std::ranges::any_of(lanes_, [](const Replica* lane) { return lane->iterating(); });
}

/// Lanes that may begin a batch: those with sequences first.
std::vector<Replica*> LaneScheduler::between_batches() const {
  const std::int32_t mode = lanes_.front()->mode();
  const std::int64_t most = pipe_.modes() == 1 ? std::ssize(lanes_) : pipe_.stages(mode);
  std::vector<Replica*> lanes;
  for (const bool empty : {false, true})
    for (std::int64_t i = 0; i < most; ++i) {
      Replica* const lane = lanes_[static_cast<std::size_t>(i)];
      if (!lane->iterating() && lane->sequences().running().empty() == empty) lanes.push_back(lane);
    }
  return lanes;
}

void LaneScheduler::on_event(std::uint64_t) {
  due_ = false;
  if (switching_) {
    if (in_flight()) return;
    switching_ = false;
    for (Replica* lane : lanes_)
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
  if (std::ranges::any_of(lanes_, [](const Replica* lane) { return lane->can_begin(); }))
    broken_policy("sequences wait or run, but no lane was given work");
}

void LaneScheduler::give_out() {
  for (Replica* lane : between_batches()) {
    if (switching_) return;
    lane->take_turn();
  }
}

/// Decodes of lanes between two batches go to those among them that have less than their share.
void LaneScheduler::spread() {
  std::vector<Replica*> lanes = between_batches();
  if (lanes.size() < 2) return;
  const auto decodes = [](const Replica* lane) { return lane->sequences().decoding(); };
  std::ranges::stable_sort(lanes, std::ranges::greater{}, decodes);
  std::int64_t all = 0;
  for (const Replica* lane : lanes) all += decodes(lane);
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

Elsewhere LaneScheduler::elsewhere(const Replica& lane) const {
  Elsewhere others;
  for (const Replica* other : lanes_) {
    if (other == &lane) continue;
    others.sequences += std::ssize(other->sequences().running());
    if (pipe_.modes() > 1) others.kv_tokens += other->cached_tokens();
  }
  return others;
}

bool LaneScheduler::alone(const Replica& lane) const {
  return std::ranges::all_of(
      lanes_, [&](const Replica* other) { return other == &lane || other->sequences().running().empty(); });
}

bool LaneScheduler::may_switch(const Replica& lane) {
  if (&lane == lanes_.front() && alone(lane)) return true;
  switching_ = true;
  ready();
  return false;
}

void LaneScheduler::set_mode(std::int32_t mode) {
  for (Replica* lane : lanes_) lane->set_mode(mode);
}

std::int64_t LaneScheduler::cached_tokens() const {
  std::int64_t tokens = 0;
  for (const Replica* lane : lanes_) tokens += lane->cached_tokens();
  return tokens;
}

std::int64_t LaneScheduler::final_tokens() const {
  std::int64_t tokens = 0;
  for (const Replica* lane : lanes_) tokens += lane->final_tokens();
  return tokens;
}

}  // namespace orrery::experiments
