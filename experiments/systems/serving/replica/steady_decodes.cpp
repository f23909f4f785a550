#include "experiments/systems/serving/replica/steady_decodes.hpp"

#include <algorithm>
#include <functional>

#include "experiments/systems/serving/replica/contract.hpp"

namespace orrery::experiments {

using policies::SeqId;
using policies::Sequence;

SteadyDecodes::SteadyDecodes(SequenceTable& sequences, const ReplicaParts& parts)
    : sequences_(sequences),
      kv_(*parts.kv),
      metrics_(*parts.metrics),
      lane_(parts.lane),
      ps_per_tick_(parts.engine->scale().ps_per_tick()),
      growth_(parts.kv->growth_tokens()) {
  if (metrics_.slo.tbt_ps) gaps_.emplace(*metrics_.slo.tbt_ps);
}

void SteadyDecodes::push(std::vector<ClockEvent>& heap, const ClockEvent& event) {
  heap.push_back(event);
  std::push_heap(heap.begin(), heap.end(), std::greater<>{});
}

SteadyDecodes::ClockEvent SteadyDecodes::pop(std::vector<ClockEvent>& heap) {
  const ClockEvent event = heap.front();
  std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
  heap.pop_back();
  return event;
}

std::int64_t SteadyDecodes::blocks_of_a_step() const {
  std::int64_t blocks = growth_.next(clock_);
  if (self_growing_ > 0)
    for (const SeqId id : sequences_.running())
      if (sequences_.account(id).steady.self_growing)
        blocks += kv_.blocks_to_grow(id, sequences_[id], sequences_[id].kv_tokens(clock_) + 1);
  return blocks;
}

void SteadyDecodes::enter(SeqId id, bool fresh) {
  Sequence& seq = sequences_[id];
  SteadyState& own = state(id);
  seq.steady = true;
  seq.since = clock_;
  own.fresh = fresh;
  if (fresh) fresh_.push_back(id);
  if (gaps_) own.gaps = gaps_->mark();
  ++count_;
  branches_ += seq.branches;
  kv_tokens_ += seq.branches * seq.kv_then;
  if (measured(id)) measured_ += seq.branches;
  const std::int64_t left = seq.output_tokens - seq.generated_then;
  own.lane = lane_;
  own.finish_clock = clock_ + left;
  push(ends_, {own.finish_clock, seq.order, id});
  own.residue = own.grow_clock = -1;
  const std::int64_t capacity = kv_.capacity(id, seq);
  if (capacity < seq.kv_then + left) grow_from(id, capacity);  // or it has all it will ever need
}

/// It takes blocks once `capacity` tokens are in the cache.
void SteadyDecodes::grow_from(SeqId id, std::int64_t capacity) {
  const Sequence& seq = sequences_[id];
  SteadyState& own = state(id);
  if (growth_.block_tokens() == 0) {
    ++self_growing_;
    own.self_growing = true;
    return;
  }
  const std::int64_t full = clock_ + std::max<std::int64_t>(0, capacity - seq.kv_then);
  if (full - clock_ < growth_.block_tokens()) {
    own.residue = growth_.add(full, seq.branches);
  } else {
    own.grow_clock = full;
    push(growers_, {full, seq.order, id});
  }
}

void SteadyDecodes::leave(SeqId id, std::int64_t kv_ahead) {
  Sequence& seq = sequences_[id];
  SteadyState& own = state(id);
  const std::int64_t steps = clock_ - seq.since;
  seq.kv_then += steps;
  seq.generated_then += steps;
  seq.since = clock_;
  seq.steady = false;
  if (own.fresh) {
    fresh_.erase(std::find(fresh_.begin(), fresh_.end(), id));
    own.fresh = false;
  } else {
    Request& request = sequences_.request(id);
    request.last_token = last_;
    if (gaps_) gaps_->judge(own.gaps, request.tbts);
  }
  --count_;
  branches_ -= seq.branches;
  kv_tokens_ -= seq.branches * seq.kv_then;
  if (measured(id)) measured_ -= seq.branches;
  own.finish_clock = -1;
  if (own.residue >= 0) {
    growth_.remove(own.residue, seq.branches);
    kv_.settle(id, seq, seq.kv_then + kv_ahead);
    own.residue = -1;
  }
  if (own.self_growing) --self_growing_;
  own.self_growing = false;
  own.grow_clock = -1;
  if (count_ == 0 && gaps_) gaps_->clear();
}

void SteadyDecodes::pop_growers() {
  while (!growers_.empty() && growers_.front().clock <= clock_) {
    const ClockEvent event = pop(growers_);
    SteadyState& own = state(event.seq);
    if (sequences_[event.seq].order != event.order || own.lane != lane_ || own.grow_clock != event.clock) continue;
    own.grow_clock = -1;
    own.residue = growth_.add(event.clock, sequences_[event.seq].branches);
  }
}

/// Whether a decode does end then; else it left (for another lane, say), or is another one.
bool SteadyDecodes::ends_at(const ClockEvent& event) const {
  const Sequence& seq = sequences_[event.seq];
  const SteadyState& own = sequences_.account(event.seq).steady;
  return seq.order == event.order && seq.steady && own.lane == lane_ && own.finish_clock == event.clock;
}

/// Clock of the next decode to end or to begin taking blocks.
std::int64_t SteadyDecodes::next_event() {
  while (!ends_.empty() && !ends_at(ends_.front())) (void)pop(ends_);
  std::int64_t clock = ends_.empty() ? policies::kStable : ends_.front().clock;
  if (!growers_.empty()) clock = std::min(clock, growers_.front().clock);
  return clock;
}

std::int64_t SteadyDecodes::begin(std::int64_t iterations) {
  const std::int64_t until = next_event() - clock_;
  if (iterations > 1) {
    iterations = growth_.steps_with(kv_.available_blocks(), clock_, std::min(iterations, until));
    iterations = std::max<std::int64_t>(1, iterations);
  }
  const std::int64_t blocks = growth_.next(clock_);
  if (blocks > kv_.available_blocks()) broken_policy("a decode has no block to grow into");
  if (blocks > 0) kv_.take(blocks);
  if (self_growing_ > 0) reserve_own();
  return iterations;
}

void SteadyDecodes::reserve_own() {
  for (const SeqId id : sequences_.running()) {
    const Sequence& seq = sequences_[id];
    if (state(id).self_growing && !kv_.reserve(id, seq, seq.kv_tokens(clock_) + 1))
      broken_policy("a decode has no block to grow into");
  }
}

void SteadyDecodes::step(std::int64_t steps, const ExactTime& end) {
  clock_ += steps;
  kv_tokens_ += steps * branches_;
  last_ = end;
}

/// Alike for all but those whose last token came by itself, and for these from their second on.
void SteadyDecodes::book_gaps(const Leap& leap, std::int64_t from, std::int64_t upto) {
  const ExactTime first_end = leap.time_of(from + 1);
  std::int64_t alike = leap.measured;
  for (const SeqId id : fresh_) {
    Request& request = sequences_.request(id);
    state(id).fresh = false;
    const std::int64_t gap = first_end.minus(request.last_token, ps_per_tick_);
    const std::int32_t branches = sequences_[id].branches;
    if (measured(id)) {
      metrics_.tbt.add(gap, branches);
      alike -= branches;
    }
    if (gaps_) request.tbts.add(gap, gaps_->target());
  }
  const std::int64_t joined = std::ssize(fresh_);
  if (joined < count_) {
    const std::int64_t gap = first_end.minus(last_, ps_per_tick_);
    if (alike > 0) metrics_.tbt.add(gap, alike);
    if (gaps_) gaps_->add_run(gap, 0, 1);
  }
  for (const SeqId id : fresh_)
    if (gaps_) state(id).gaps = gaps_->mark();
  fresh_.clear();
  if (upto - from < 2) return;
  const std::int64_t second = leap.elapsed(from + 2) - leap.elapsed(from + 1);
  if (leap.measured > 0) metrics_.tbt.add_run(second, leap.price.step_ps, upto - from - 1, leap.measured);
  if (gaps_) gaps_->add_run(second, leap.price.step_ps, upto - from - 1);
}

std::optional<SeqId> SteadyDecodes::pop_ended() {
  while (!ends_.empty() && ends_.front().clock <= clock_) {
    const ClockEvent event = pop(ends_);
    if (!ends_at(event)) continue;
    leave(event.seq);
    return event.seq;
  }
  return std::nullopt;
}

}  // namespace orrery::experiments
