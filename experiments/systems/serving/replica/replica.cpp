#include "experiments/systems/serving/replica/replica_internal.hpp"

namespace orrery::experiments {

Replica::Replica(ReplicaParts parts)
    : parts_(std::move(parts)),
      ps_per_tick_(parts_.engine->scale().ps_per_tick()),
      growth_tokens_(parts_.kv->growth_tokens()),
      growth_(static_cast<std::size_t>(growth_tokens_), 0),
      ledger_(parts_.model->ledger()) {
  if (parts_.metrics->slo.tbt_ps) gaps_.emplace(*parts_.metrics->slo.tbt_ps);
  watched_ = parts_.observer != nullptr && parts_.observer->wants_steps();
  hands_on_ = parts_.tier != nullptr && parts_.tier->takes_prefixes() && parts_.kv->hand_on_to(*parts_.tier);
}

SeqId Replica::new_slot() {
  if (!free_slots_.empty()) {
    const SeqId id = free_slots_.back();
    free_slots_.pop_back();
    sequence(id) = {};
    account(id) = {};
    return id;
  }
  const SeqId id{static_cast<std::uint32_t>(sequences_.size())};
  sequences_.emplace_back();
  accounts_.emplace_back();
  return id;
}

void Replica::submit(Request& request, bool first) {
  const sim::Time now = parts_.engine->now();
  if (now != last_submit_) {
    last_submit_ = now;
    waiting_then_ = queued();
  }
  interrupt();
  const SeqId id = new_slot();
  Sequence& seq = sequence(id);
  seq.order = next_order_++;
  seq.arrived = request.arrived;
  seq.prompt_tokens = request.prompt_tokens;
  seq.output_tokens = request.output_tokens;
  seq.predicted_tokens = request.predicted_tokens;
  seq.deadline_ticks = request.deadline_ticks;
  seq.priority = request.priority;
  seq.tenant = request.tenant;
  seq.branches = request.branches;
  seq.generated_then = request.generated;
  seq.prefill_tokens = request.prompt_tokens + request.generated;
  seq.ready_tokens = std::min(request.ready_tokens, seq.prefill_tokens - 1);
  if (!request.text.empty()) seq.text = &request.text;
  account(id).request = &request;
  request.replica = parts_.index;
  if (seq.prompt_tokens + seq.output_tokens > parts_.limits.max_context) {
    end_request(id, "rejected:context_exceeded", std::nullopt);
    return;
  }
  if (const auto reason = parts_.batching->reject(seq, *parts_.kv, parts_.limits)) {
    end_request(id, fmt::format("rejected:{}", *reason), std::nullopt);
    return;
  }
  if (parts_.tier != nullptr && parts_.tier->keeps_turns()) claim_turn(id);
  if (parts_.host != nullptr && parts_.host->decides_ahead()) {
    arriving_.emplace_back(id, now);
  } else if (first) {
    waiting_.push_front(id);
  } else {
    waiting_.push_back(id);
  }
}

/// A host that decides ahead settled the coming iteration when the last one began: later arrivals are not in it.
void Replica::take_arrivals() {
  const bool nothing_decided = running_.empty() && waiting_.empty();
  while (!arriving_.empty() && (nothing_decided || arriving_.front().second <= begun_)) {
    waiting_.push_back(arriving_.front().first);
    arriving_.pop_front();
  }
}

void Replica::wake() {
  if (iterating_ || decide_due_ || unsettled_) return;
  if (parts_.engine->more_now()) {
    // Whoever else arrives at this instant joins first; the order of equal events decides nothing.
    decide_due_ = true;
    parts_.engine->schedule_in({}, *this, kDecide);
  } else {
    start_iteration();
  }
}

void Replica::start_iteration() {
  if (parts_.lock_step != nullptr) return parts_.lock_step->ready();
  // The devices went on to the picosecond; if they idled, they start with the event.
  if (at_.tick() < parts_.engine->now()) move_on({parts_.engine->now().ticks, 0});
  settle_on_iteration();
}

/// Time goes on to `now` without an iteration; copies went on meanwhile.
void Replica::move_on(ExactTime now) {
  stall(-std::min(stall_ps_, now.minus(at_, ps_per_tick_)));
  at_ = now;
}

bool Replica::plan(ExactTime start) {
  if (at_ < start) move_on(start);
  return settle_on_iteration();
}

void Replica::go(std::int64_t time_ps) {
  planned_.time_ps = time_ps;
  planned_.step_ps = 0;
  planned_.horizon = 1;
  stall_ps_ = 0;
  begin(1, planned_, 0);
}

/// Asks the policy until there is an iteration, or nothing left to make one of.
bool Replica::settle_on_iteration() {
  bool decided = false;
  unsettled_ = true;
  for (take_arrivals(); !running_.empty() || !waiting_.empty(); take_arrivals()) {
    finish_loads();
    if ((decided = decide())) break;
    if (!decision_.preempt.empty()) continue;  // it made room: what it does with that comes next
    if (!loading_.empty()) {                   // nothing to run but what is on its way back
      await_load();
      continue;
    }
    // Nothing to run although something waits: the head of the queue can never be scheduled.
    if (!running_.empty()) broken_policy("sequences run, but none was given work");
    if (leaving_ > 0) break;  // their blocks may be what it lacks
    reject_head();
  }
  unsettled_ = false;
  return decided;
}

void Replica::reject_head() {
  const SeqId id = waiting_.front();
  waiting_.pop_front();
  end_request(id, "rejected:unschedulable", std::nullopt);
}

policies::BatchView Replica::view() const {
  std::int64_t growth_blocks = growth_tokens_ > 0 ? growth(clock_, 1) : 0;
  if (self_growing_ > 0)
    for (const SeqId id : running_)
      if (accounts_[id.index].self_growing)
        growth_blocks += parts_.kv->blocks_to_grow(id, sequence(id), sequence(id).kv_tokens(clock_) + 1);
  return {.now = parts_.engine->now(),
          .running = running_,
          .prefilling = prefilling_,
          .waiting = waiting_,
          .sequences = sequences_,
          .kv = *parts_.kv,
          .clock = clock_,
          .decoding = decoding_,
          .decode_tokens = steady_branches_,
          .growth_blocks = growth_blocks,
          .decode_context = steady_kv_ + steady_branches_,
          .mode = shape_.mode,
          .limits = parts_.limits,
          .pricer = this,
          .ps_per_tick = ps_per_tick_};
}

std::int64_t Replica::time_ps(const policies::BatchSketch& sketch) const {
  BatchShape shape;
  shape.mode = shape_.mode;
  shape.sequences = sketch.decodes + (sketch.chunk_tokens > 0 ? 1 : 0);
  shape.logit_rows = shape.sequences;
  Segment segment{.first = 0, .last = parts_.limits.layers};
  segment.tokens = sketch.decodes + sketch.chunk_tokens;
  segment.decode = {sketch.decodes, sketch.decode_context};
  if (sketch.chunk_tokens > 0) segment.prefill.add(sketch.chunk_tokens, sketch.chunk_past);
  shape.segments.push_back(segment);
  IterationPrice price = parts_.model->price(shape);
  if (parts_.host != nullptr) parts_.host->apply(shape, price);
  return price.time_ps;
}

std::int64_t Replica::queued_prefill_tokens() const {
  std::int64_t tokens = 0;
  for (const SeqId id : waiting_) tokens += sequence(id).prefill_tokens - sequence(id).ready_tokens;
  for (const auto& [id, since] : arriving_) tokens += sequence(id).prefill_tokens - sequence(id).ready_tokens;
  for (const SeqId id : prefilling_) tokens += sequence(id).prefill_left();
  return tokens;
}

// ---- decisions

bool Replica::decide() {
  // Sequences that fill what they had reserved take blocks from now on.
  while (!growers_.empty() && growers_.front().clock <= clock_) {
    const ClockEvent event = growers_.front();
    std::pop_heap(growers_.begin(), growers_.end(), std::greater<>{});
    growers_.pop_back();
    Account& own = account(event.seq);
    if (sequence(event.seq).order != event.order || own.grow_clock != event.clock) continue;
    own.grow_clock = -1;
    own.residue = static_cast<std::int64_t>(residue_of(event.clock));
    growth_[residue_of(event.clock)] += sequence(event.seq).branches;
    growth_period_ += sequence(event.seq).branches;
  }
  decision_.clear();
  tell_time(at_);
  parts_.batching->decide(view(), decision_);

  for (const Preemption& preemption : decision_.preempt) preempt(preemption);
  if (decision_.mode && *decision_.mode != shape_.mode) {
    stall_ps_ += parts_.model->switch_ps(shape_.mode, *decision_.mode);
    shape_.mode = *decision_.mode;
    ++switches_;
  }
  for (const SeqId id : decision_.resume) resume(id);
  if (decision_.admit.size() > 1 && parts_.kv->keeps_prefixes())
    for (const Admission& admission : decision_.admit) parts_.kv->pin(admission.seq, sequence(admission.seq));
  for (const Admission& admission : decision_.admit) admit(admission);
  if (!decision_.preempt.empty()) trim_items();
  // Prompts had the iteration for themselves, but are on their way from a tier: decodes need not wait.
  if (!loading_.empty() && decision_.items.empty() && !decision_.decode_rest)
    decision_.decode_rest = view().growth_blocks <= parts_.kv->available_blocks();
  ++decision_number_;
  for (const Item& item : decision_.items) account(item.seq).marked = decision_number_;
  if (parts_.speculator != nullptr && decision_.decode_rest) add_drafts();

  build_shape();
  if (shape_.sequences == 0) return false;
  if (watched_) tell_chunks();
  reserve_explicit();
  if (!outbound_.empty()) {
    // What this iteration writes to must have been read; blocks of sequences on their way back are written to later.
    std::int64_t unused = parts_.kv->available_blocks();
    if (decision_.decode_rest && growth_tokens_ > 0) unused -= growth(clock_, 1);
    for (const Copy& copy : loading_) unused += copy.blocks;
    stall(outbound_until(unused).minus(at_, ps_per_tick_));
  }
  IterationPrice price = parts_.model->price(shape_);
  const std::int64_t devices_ps = price.time_ps;
  if (parts_.host != nullptr) parts_.host->apply(shape_, price);
  if (parts_.pipe != nullptr) {
    const std::int64_t before = stall_ps_ + price.time_ps - devices_ps;
    price.time_ps = parts_.pipe->pass(at_.plus(before, ps_per_tick_), shape_).minus(at_, ps_per_tick_) - stall_ps_;
    price.horizon = 1;
    if (watched_) stage_times_ = parts_.pipe->last_times();
  }
  if (parts_.lock_step != nullptr) {
    planned_ = price;
    return true;
  }
  begin(iterations_ahead(price), price, stall_ps_);
  stall_ps_ = 0;
  return true;
}

void Replica::preempt(const Preemption& preemption) {
  const SeqId id = preemption.seq;
  Sequence& seq = sequence(id);
  if (seq.phase == Phase::waiting) broken_policy("it preempted a sequence that does not run");
  if (seq.phase == Phase::decode) {
    --decoding_;
    if (seq.steady) leave_steady(id);
  } else if (seq.phase == Phase::prefill) {
    erase_prefilling(id);
  }
  ++seq.preemptions;
  ++account(id).request->preemptions;
  if (watched_) tell(*account(id).request, RequestPhase::preempted, parts_.engine->now());
  ++counts_.preemptions;
  if (preemption.how == Preempt::pause) {
    seq.phase = Phase::paused;
    return;
  }
  erase_running(id);
  seq.phase = Phase::waiting;
  const std::int64_t kept = seq.kv_then;
  seq.prefill_tokens = seq.prompt_tokens + seq.generated_then;
  seq.ready_tokens = 0;
  if (preemption.how == Preempt::swap && parts_.tier != nullptr && kept > 0) {
    const std::int64_t blocks = parts_.kv->held_blocks(id);
    if (const auto ps = parts_.tier->swap_out(account(id).request->id, kept, blocks, parts_.kv->pieces(id))) {
      seq.ready_tokens = std::min(kept, seq.prefill_tokens - 1);
      account(id).stored = true;
      copy_out(id, blocks, *ps);
    }
  }
  parts_.kv->release(id, seq, kept, parts_.kv->left_by_preempted());
  seq.prefilled = seq.kv_then = seq.chunk_tokens = 0;
  seq.layers_done = 0;
  waiting_.push_front(id);
}

void Replica::resume(SeqId id) {
  Sequence& seq = sequence(id);
  if (seq.phase != Phase::paused) broken_policy("it resumed a sequence that is not paused");
  if (seq.prefill_left() > 0) {
    seq.phase = Phase::prefill;
    if (watched_) tell(*account(id).request, RequestPhase::prefill, parts_.engine->now());
    const auto at = std::lower_bound(prefilling_.begin(), prefilling_.end(), seq.turn,
                                     [&](SeqId a, std::int64_t turn) { return sequence(a).turn < turn; });
    prefilling_.insert(at, id);
  } else {
    seq.phase = Phase::decode;
    if (watched_) tell(*account(id).request, RequestPhase::decode, parts_.engine->now());
    ++decoding_;
    enter_steady(id, true);
  }
}

void Replica::admit(const Admission& admission) {
  const SeqId id = admission.seq;
  Sequence& seq = sequence(id);
  if (seq.phase != Phase::waiting) broken_policy("it admitted a sequence that does not wait");
  const std::optional<std::int64_t> found =
      parts_.kv->admit(id, seq, std::max(admission.reserve_tokens, seq.ready_tokens));
  if (!found) {
    if (decision_.preempt.empty()) broken_policy("it admitted a sequence whose blocks are not free");
    return;
  }
  if (waiting_.front() == id) {
    waiting_.pop_front();
  } else {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), id));
  }
  // At least the last prompt token is computed, or there would be nothing to sample the first token from.
  const std::int64_t cached = std::min(*found, seq.prefill_tokens - 1);
  Request& request = *account(id).request;
  seq.prefilled = seq.kv_then = std::max(cached, seq.ready_tokens);
  seq.since = clock_;
  const bool first = !request.admitted;
  if (first) {
    request.admitted = parts_.engine->now();
    const std::int64_t there = account(id).stored ? seq.prefilled : cached;
    request.cached_tokens = seq.cached_tokens = std::min(there, seq.prompt_tokens);
    counts_.prompt_tokens += seq.prompt_tokens;
    counts_.device_tokens += cached;
  }
  seq.phase = Phase::prefill;
  if (watched_) tell(request, RequestPhase::prefill, parts_.engine->now());
  seq.turn = next_turn_++;
  running_.push_back(id);
  prefilling_.push_back(id);
  if (parts_.tier != nullptr) load(id, cached, first);
}

/// Where sequences were preempted, the policy could not see exactly what the cache has then: who still waits gets no
/// chunk, and nobody more than is left of its prompt.
void Replica::trim_items() {
  std::erase_if(decision_.items, [&](const Item& item) { return sequence(item.seq).phase == Phase::waiting; });
  for (Item& item : decision_.items) {
    const Sequence& seq = sequence(item.seq);
    if (seq.phase == Phase::prefill) item.new_tokens = std::min(item.new_tokens, seq.prefill_left());
  }
}

void Replica::erase_running(SeqId id) {
  const auto at = std::lower_bound(running_.begin(), running_.end(), sequence(id).turn,
                                   [&](SeqId a, std::int64_t turn) { return sequence(a).turn < turn; });
  if (at == running_.end() || *at != id) broken_policy("it preempted a sequence that does not run");
  running_.erase(at);
}

void Replica::erase_prefilling(SeqId id) {
  prefilling_.erase(std::find(prefilling_.begin(), prefilling_.end(), id));
}

}  // namespace orrery::experiments
