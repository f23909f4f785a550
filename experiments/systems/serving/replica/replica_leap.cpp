#include "experiments/systems/serving/replica/replica_internal.hpp"

namespace orrery::experiments {

/// Blocks that steady decodes take in `steps` steps from `clock` on.
std::int64_t Replica::growth(std::int64_t clock, std::int64_t steps) const {
  if (growth_period_ == 0 || steps <= 0) return 0;
  std::int64_t blocks = steps / growth_tokens_ * growth_period_;
  for (std::int64_t left = steps % growth_tokens_; left > 0; --left, ++clock) blocks += growth_[residue_of(clock)];
  return blocks;
}

/// How many steps (up to `most`) there are blocks for.
std::int64_t Replica::steps_until_blocks_lack(std::int64_t most) const {
  if (growth_period_ == 0) return most;
  const std::int64_t available = parts_.kv->available_blocks();
  if ((most / growth_tokens_ + 1) <= available / growth_period_) return most;
  std::int64_t steps = available / growth_period_ * growth_tokens_;
  std::int64_t left = available % growth_period_;
  while (steps < most) {
    left -= growth_[residue_of(clock_ + steps)];
    if (left < 0) break;
    ++steps;
  }
  return std::min(steps, most);
}

/// Clock of the next steady decode to end or to begin taking blocks.
std::int64_t Replica::next_clock_event() {
  while (!ends_.empty()) {
    const ClockEvent& top = ends_.front();
    const Sequence& seq = sequence(top.seq);
    if (seq.order == top.order && seq.steady && account(top.seq).finish_clock == top.clock) break;
    std::pop_heap(ends_.begin(), ends_.end(), std::greater<>{});
    ends_.pop_back();
  }
  std::int64_t clock = ends_.empty() ? policies::kStable : ends_.front().clock;
  if (!growers_.empty()) clock = std::min(clock, growers_.front().clock);
  return clock;
}

std::int64_t Replica::iterations_ahead(const IterationPrice& price) const {
  if (!parts_.leap || !arriving_.empty() || stall_ps_ > 0 || !loading_.empty() || !outbound_.empty() ||
      !decision_.items.empty() || !decision_.preempt.empty() || steady_ == 0 || self_growing_ > 0)
    return 1;
  // What decodes push out of a prefix cache comes to be found in a tier some time later: who waits may want it then.
  if (hands_on_ && !waiting_.empty()) return 1;
  return std::max<std::int64_t>(1, std::min(price.horizon, decision_.stable_iterations));
}

void Replica::begin(std::int64_t iterations, const IterationPrice& price, std::int64_t extra_ps) {
  leap_ = {.start = at_, .planned = iterations, .price = price, .extra_ps = extra_ps};
  leap_.price.time_ps = std::max<std::int64_t>(1, leap_.price.time_ps);
  if (parts_.pipe != nullptr) leap_.work_ps = parts_.pipe->last_work_ps() / parts_.pipe->stages();
  if (decision_.decode_rest && steady_ > 0) {
    const std::int64_t until = next_clock_event() - clock_;
    if (iterations > 1) {
      leap_.planned = steps_until_blocks_lack(std::min(iterations, until));
      leap_.planned = std::max<std::int64_t>(1, leap_.planned);
    }
    const std::int64_t blocks = growth(clock_, 1);
    if (blocks > parts_.kv->available_blocks()) broken_policy("a decode has no block to grow into");
    if (blocks > 0) parts_.kv->take(blocks);
    if (self_growing_ > 0) {
      for (const SeqId id : running_) {
        const Sequence& seq = sequence(id);
        if (account(id).self_growing && !parts_.kv->reserve(id, seq, seq.kv_tokens(clock_) + 1))
          broken_policy("a decode has no block to grow into");
      }
    }
    leap_.measured = steady_measured_;
  }
  fit_in_time();
  leap_.grown = 1;
  record_waiting_ = queued();
  ServingMetrics& metrics = *parts_.metrics;
  counts_.kv_peak_bytes = std::max(counts_.kv_peak_bytes, parts_.kv->used_bytes());
  metrics.kv_peak_bytes = std::max(metrics.kv_peak_bytes, counts_.kv_peak_bytes);
  iterating_ = true;
  // Several iterations may end within a tick: exact time goes on all the same.
  event_ =
      parts_.engine->schedule_at(std::max(time_of(leap_.planned).tick(), parts_.engine->now()), *this, kIterationEnd);
}

/// Cuts a leap that lasts longer than 63 bits of picoseconds tell. Throws std::overflow_error for one that ends past
/// the reach of the tick.
void Replica::fit_in_time() {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  const auto last = static_cast<__int128>(leap_.planned);
  const __int128 length = static_cast<__int128>(leap_.price.time_ps + leap_.extra_ps) * last +
                          static_cast<__int128>(leap_.price.step_ps) * last * (last - 1) / 2;
  if (length < kMost && leap_.start.ticks < kMost) return;  // and their sum fits
  if (length >= kMost && leap_.planned > 1) {
    leap_.planned /= 2;
    return fit_in_time();
  }
  const sim::TickScale& scale = parts_.engine->scale();
  (void)scale.duration(scale.seconds(sim::Time{leap_.start.ticks}) + static_cast<double>(length) * 1e-12);
}

/// Iterations of the leap that are over by now.
std::int64_t Replica::over_by_now() const {
  const std::int64_t now = parts_.engine->now().ticks;
  std::int64_t low = leap_.done;
  std::int64_t high = leap_.planned;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (time_of(middle).tick().ticks <= now) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

void Replica::sync() {
  // Stepping too: an iteration that ends at this very instant is over, whether its event came first or not.
  if (iterating_) complete(over_by_now());
}

/// Ends the leap with the iteration under way, for somebody wants to be decided upon.
void Replica::interrupt() {
  if (!iterating_ || leap_.planned <= leap_.done + 1) return;
  const std::int64_t over = over_by_now();
  if (over == leap_.planned) return;  // its event is due at this instant
  const bool between = over > 0 && time_of(over).tick() == parts_.engine->now();
  const std::int64_t planned = between ? over : over + 1;
  if (planned < leap_.planned) {
    leap_.planned = planned;
    parts_.engine->cancel(event_);
    event_ = parts_.engine->schedule_at(time_of(planned).tick(), *this, kIterationEnd);
  }
  complete(over);
}

/// Books iterations of the leap up to the `upto`-th.
void Replica::complete(std::int64_t upto) {
  const std::int64_t from = leap_.done;
  const std::int64_t steps = upto - from;
  if (steps <= 0) return;
  const bool steady = decision_.decode_rest && steady_ > 0;
  if (steady) take_growth(from + 1);
  if (parts_.kv->reports_split()) book_split(steps);
  ledger_->book(shape_, steps);
  ServingMetrics& metrics = *parts_.metrics;
  metrics.iterations += steps;
  counts_.iterations += steps;
  for (const Segment& segment : shape_.segments) {
    if (segment.last != parts_.limits.layers) continue;
    metrics.processed_tokens += steps * segment.tokens;
    counts_.processed_tokens += steps * segment.tokens;
  }
  book_busy(parts_.pipe != nullptr ? leap_.work_ps : leap_.elapsed(upto) - leap_.elapsed(from));
  at_ = time_of(upto);
  if (parts_.observer != nullptr) observe(from, upto);
  if (steady) {
    book_gaps(from, upto);
    // The next iteration takes its blocks when it starts; at this very instant it may yet be another one.
    const bool begun = upto < leap_.planned && at_.tick() < parts_.engine->now();
    take_growth(begun ? upto + 1 : upto);
    clock_ += steps;
    steady_kv_ += steps * steady_branches_;
    steady_last_ = at_;
  }
  if (upto < leap_.planned) advance(shape_, steps);
  leap_.done = upto;
}

/// Takes the blocks of the leap's first `iterations` iterations, as far as they are not taken.
void Replica::take_growth(std::int64_t iterations) {
  if (iterations <= leap_.grown) return;
  // A tier is told of each block when it goes; without one they go together.
  const std::int64_t stride = hands_on_ ? 1 : iterations - leap_.grown;
  bool any = false;
  for (; leap_.grown < iterations; leap_.grown += stride) {
    const std::int64_t blocks = growth(clock_ + leap_.grown - leap_.done, stride);
    if (blocks == 0) continue;
    if (hands_on_) tell_time(time_of(leap_.grown));
    parts_.kv->take(blocks);
    any = true;
  }
  if (!any) return;
  counts_.kv_peak_bytes = std::max(counts_.kv_peak_bytes, parts_.kv->used_bytes());
  parts_.metrics->kv_peak_bytes = std::max(parts_.metrics->kv_peak_bytes, counts_.kv_peak_bytes);
}

/// How the cache divides in the next `steps` iterations of the leap.
void Replica::book_split(std::int64_t steps) {
  std::int64_t tokens = 0, in_the_end = 0;
  for (const SeqId id : running_) {
    const Sequence& seq = sequence(id);
    tokens += seq.branches * seq.kv_tokens(clock_);
    in_the_end += seq.branches * (seq.prompt_tokens + seq.output_tokens - 1);
  }
  const policies::KvCache& kv = *parts_.kv;
  std::int64_t held = kv.allocated_tokens();
  const std::int64_t grows = decision_.decode_rest ? steady_branches_ : 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    counts_.split.add(kv.total_tokens(), held, tokens, in_the_end);
    tokens += grows;
    if (growth_period_ > 0) held += growth_[residue_of(clock_ + i + 1)] * growth_tokens_;
  }
}

/// TBTs of steady decodes: alike for all but those whose last token came by itself, and for these from their second on.
void Replica::book_gaps(std::int64_t from, std::int64_t upto) {
  ServingMetrics& metrics = *parts_.metrics;
  const ExactTime first_end = time_of(from + 1);
  std::int64_t alike = leap_.measured;
  for (const SeqId id : fresh_) {
    Account& own = account(id);
    own.fresh = false;
    const std::int64_t gap = first_end.minus(own.request->last_token, ps_per_tick_);
    const std::int32_t branches = sequence(id).branches;
    if (measured(id)) {
      metrics.tbt.add(gap, branches);
      alike -= branches;
    }
    if (gaps_) own.request->tbts.add(gap, gaps_->target());
  }
  const std::int64_t joined = std::ssize(fresh_);
  if (joined < steady_) {
    const std::int64_t gap = first_end.minus(steady_last_, ps_per_tick_);
    if (alike > 0) metrics.tbt.add(gap, alike);
    if (gaps_) gaps_->add_run(gap, 0, 1);
  }
  for (const SeqId id : fresh_)
    if (gaps_) account(id).gaps = gaps_->mark();
  fresh_.clear();
  if (upto - from < 2) return;
  const std::int64_t second = leap_.elapsed(from + 2) - leap_.elapsed(from + 1);
  if (leap_.measured > 0) metrics.tbt.add_run(second, leap_.price.step_ps, upto - from - 1, leap_.measured);
  if (gaps_) gaps_->add_run(second, leap_.price.step_ps, upto - from - 1);
}

void Replica::observe(std::int64_t from, std::int64_t upto) {
  const ExactTime start = time_of(from);
  IterationRun run;
  run.start = start.tick();
  run.start_ps = start.ps > 0 ? ps_per_tick_ - start.ps : 0;
  run.count = upto - from;
  run.time_ps = leap_.elapsed(from + 1) - leap_.elapsed(from);
  run.step_ps = leap_.price.step_ps;
  run.energy_pj = leap_.price.energy_pj + from * leap_.price.step_energy_pj;
  run.step_energy_pj = leap_.price.step_energy_pj;
  run.replica = parts_.index;
  run.stream = parts_.stream;
  run.prefill_tokens = record_prefill_;
  run.decodes = record_decodes_;
  run.chunks = record_chunks_;
  run.shape = &shape_;
  run.model = parts_.model;
  run.stages = stage_times_;
  run.running = std::ssize(running_);
  // Who came during the last of the iterations waits; in those before, the queue was as it had been.
  run.waiting = waiting_before(time_of(upto).tick());
  run.kv_used_bytes = parts_.kv->used_bytes();
  if (run.count > 1 && growth_period_ > 0) {
    run.kv_growth = growth_.data();
    run.kv_period = growth_tokens_;
    run.kv_phase = static_cast<std::int64_t>(residue_of(clock_));
    run.kv_block_bytes = parts_.kv->block_bytes();
  }
  parts_.observer->iterations_ended(run);
}

void Replica::tell(const Request& request, RequestPhase phase, sim::Time at) {
  parts_.observer->request_step({request.id, at, phase, parts_.index, parts_.stream});
}

/// The prompts of the iterations decided upon.
void Replica::tell_chunks() {
  chunks_.clear();
  SeqId previous{~0U};
  for (const Item& item : decision_.items) {
    if (sequence(item.seq).phase != Phase::prefill || item.seq == previous) continue;
    previous = item.seq;
    chunks_.push_back({account(item.seq).request->id, item.new_tokens});
  }
  parts_.observer->chunks_planned(parts_.stream, chunks_);
}

/// Length of the queue but for those who came at `end` itself.
std::int64_t Replica::waiting_before(sim::Time end) const {
  return last_submit_ >= end ? std::min(waiting_then_, queued()) : queued();
}

void Replica::on_event(std::uint64_t payload) {
  if (payload == kDecide) {
    // What was due at this instant is through; waiting for more could go on for ever between two replicas.
    decide_due_ = false;
    if (!iterating_) start_iteration();
    return;
  }
  complete(leap_.planned);
  boundary();
}

}  // namespace orrery::experiments
