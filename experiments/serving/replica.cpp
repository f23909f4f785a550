#include "experiments/serving/replica.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace orrery::experiments {

using policies::Admission;
using policies::Item;
using policies::Leave;
using policies::Phase;
using policies::Preempt;
using policies::Preemption;
using policies::SeqId;
using policies::Sequence;

namespace {

[[noreturn]] void broken_policy(std::string_view what) {
  throw std::logic_error(fmt::format("the batching policy broke its contract: {}", what));
}

constexpr std::uint64_t kIterationEnd = 0, kDecide = 1;  // payloads

}  // namespace

Replica::Replica(ReplicaParts parts)
    : parts_(std::move(parts)),
      ps_per_tick_(parts_.engine->scale().ps_per_tick()),
      growth_tokens_(parts_.kv->growth_tokens()),
      growth_(static_cast<std::size_t>(growth_tokens_), 0),
      ledger_(parts_.model->ledger()) {
  if (parts_.metrics->slo.tbt_ps) gaps_.emplace(*parts_.metrics->slo.tbt_ps);
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
  // The devices went on to the picosecond; if they idled, they start with the event.
  if (at_.tick() < parts_.engine->now()) at_ = {parts_.engine->now().ticks, 0};
  unsettled_ = true;
  for (take_arrivals(); !running_.empty() || !waiting_.empty(); take_arrivals()) {
    finish_loads();
    if (decide()) break;
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
  ++decision_number_;
  for (const Item& item : decision_.items) account(item.seq).marked = decision_number_;
  if (parts_.speculator != nullptr && decision_.decode_rest) add_drafts();

  build_shape();
  if (shape_.sequences == 0) return false;
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
      if (parts_.tier->overlaps()) {
        out_free_ = std::max(out_free_, at_).plus(*ps, ps_per_tick_);
        outbound_.push_back({id, blocks, out_free_});
      } else {
        stall(*ps);
      }
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
    const auto at = std::lower_bound(prefilling_.begin(), prefilling_.end(), seq.order,
                                     [&](SeqId a, std::int64_t order) { return sequence(a).order < order; });
    prefilling_.insert(at, id);
  } else {
    seq.phase = Phase::decode;
    ++decoding_;
    enter_steady(id, true);
  }
}

void Replica::admit(const Admission& admission) {
  const SeqId id = admission.seq;
  Sequence& seq = sequence(id);
  if (seq.phase != Phase::waiting) broken_policy("it admitted a sequence that does not wait");
  if (waiting_.front() == id) {
    waiting_.pop_front();
  } else {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), id));
  }
  const std::optional<std::int64_t> found =
      parts_.kv->admit(id, seq, std::max(admission.reserve_tokens, seq.ready_tokens));
  if (!found) broken_policy("it admitted a sequence whose blocks are not free");
  // At least the last prompt token is computed, or there would be nothing to sample the first token from.
  const std::int64_t cached = std::min(*found, seq.prefill_tokens - 1);
  Request& request = *account(id).request;
  seq.prefilled = seq.kv_then = std::max(cached, seq.ready_tokens);
  seq.since = clock_;
  if (!request.admitted) {
    request.admitted = parts_.engine->now();
    request.cached_tokens = seq.cached_tokens = cached;
  }
  seq.phase = Phase::prefill;
  insert_running(id);
  if (seq.ready_tokens > cached && parts_.tier != nullptr && seq.preemptions > 0)
    bring_back(id, seq.ready_tokens - cached);
}

void Replica::stall(std::int64_t ps) {
  stall_ps_ += ps;
  counts_.swap_stall_ps += ps;
}

/// Copies `tokens` tokens of an admitted sequence back: the next iteration waits for it, or the sequence for the copy.
void Replica::bring_back(SeqId id, std::int64_t tokens) {
  const std::int64_t blocks = parts_.kv->blocks_for(tokens);
  const std::int64_t ps =
      parts_.tier->swap_in(account(id).request->id, tokens, blocks, std::min(blocks, parts_.kv->pieces(id)));
  if (!parts_.tier->overlaps()) return stall(ps);
  // Into blocks that others are still being read from it goes when these are through.
  ExactTime start = std::max({in_free_, at_, outbound_until(parts_.kv->available_blocks())});
  for (const Copy& copy : outbound_)
    if (copy.seq == id) start = std::max(start, copy.until);
  in_free_ = start.plus(ps, ps_per_tick_);
  erase_prefilling(id);
  sequence(id).phase = Phase::paused;
  std::erase_if(decision_.items, [&](const Item& item) { return item.seq == id; });
  loading_.push_back({id, blocks, in_free_});
}

/// Sequences whose copy back is through go on: in decode where they were in decode.
void Replica::finish_loads() {
  while (!loading_.empty() && loading_.front().until <= at_) {
    const SeqId id = loading_.front().seq;
    loading_.pop_front();
    Sequence& seq = sequence(id);
    if (seq.generated_then > 0 && seq.prefill_left() == 1) seq.prefilled = seq.prefill_tokens;
    resume(id);
  }
}

/// Waits for the first copy back.
void Replica::await_load() {
  const ExactTime until = loading_.front().until;
  if (at_ < until) {
    counts_.swap_stall_ps += until.minus(at_, ps_per_tick_);
    at_ = until;
  }
}

/// When so many copies off the device are through that `unused` blocks hold the rest.
ExactTime Replica::outbound_until(std::int64_t unused) {
  while (!outbound_.empty() && outbound_.front().until <= at_) outbound_.pop_front();
  std::int64_t under_way = 0;
  for (const Copy& copy : outbound_) under_way += copy.blocks;
  ExactTime until = at_;
  for (const Copy& copy : outbound_) {
    if (under_way <= unused) break;
    under_way -= copy.blocks;
    until = copy.until;
  }
  return until;
}

void Replica::insert_running(SeqId id) {
  const auto before = [&](SeqId a, std::int64_t order) { return sequence(a).order < order; };
  const std::int64_t order = sequence(id).order;
  running_.insert(std::lower_bound(running_.begin(), running_.end(), order, before), id);
  prefilling_.insert(std::lower_bound(prefilling_.begin(), prefilling_.end(), order, before), id);
}

void Replica::erase_running(SeqId id) {
  const auto at = std::lower_bound(running_.begin(), running_.end(), sequence(id).order,
                                   [&](SeqId a, std::int64_t order) { return sequence(a).order < order; });
  if (at == running_.end() || *at != id) broken_policy("it preempted a sequence that does not run");
  running_.erase(at);
}

void Replica::erase_prefilling(SeqId id) {
  prefilling_.erase(std::find(prefilling_.begin(), prefilling_.end(), id));
}

/// Chunks of prompts, and decodes with an item of their own (they leave the steady ones), reserve what they write.
/// Gives decodes without an item of their own one with as many proposals as the speculator says and blocks allow.
void Replica::add_drafts() {
  std::int64_t prompt_tokens = 0;
  for (const Item& item : decision_.items)
    if (sequence(item.seq).phase == Phase::prefill) prompt_tokens += item.new_tokens;
  const std::int64_t most = parts_.speculator->length(steady_, prompt_tokens);
  if (most <= 0) return;
  decision_.stable_iterations = 1;  // whoever gets none now may get some next time
  // The decision has blocks for its items and a token of every decode; proposals get what is left.
  std::int64_t spare = parts_.kv->available_blocks() - view().growth_blocks;
  for (const Item& item : decision_.items) {
    const Sequence& seq = sequence(item.seq);
    const std::int64_t tokens = seq.phase == Phase::decode ? 1 + item.draft_tokens : item.new_tokens;
    spare -= parts_.kv->blocks_to_grow(item.seq, seq, seq.kv_tokens(clock_) + tokens);
  }
  for (const SeqId id : running_) {
    const Sequence& seq = sequence(id);
    if (!seq.steady || seq.branches > 1 || account(id).marked == decision_number_) continue;
    const std::int64_t room = parts_.limits.max_context - seq.kv_tokens(clock_) - 1;
    const std::int64_t wanted = std::min(parts_.speculator->drafts(seq, seq.generated(clock_), most), room);
    if (wanted <= 0) continue;
    leave_steady(id);
    if (const std::int64_t drafts = fitting_drafts(id, wanted, spare); drafts > 0) {
      decision_.items.push_back({.seq = id, .draft_tokens = drafts});
    } else {
      enter_steady(id, true);
    }
  }
}

/// At most as many as `spare` blocks hold beside those of the decode itself; takes them out of `spare`.
std::int64_t Replica::fitting_drafts(SeqId id, std::int64_t most, std::int64_t& spare) {
  const Sequence& seq = sequence(id);
  const std::int64_t own = parts_.kv->blocks_to_grow(id, seq, seq.kv_then + 1);
  for (std::int64_t drafts = most; drafts > 0; --drafts) {
    const std::int64_t more = parts_.kv->blocks_to_grow(id, seq, seq.kv_then + 1 + drafts) - own;
    if (more > std::max<std::int64_t>(0, spare)) continue;
    spare -= more;
    return drafts;
  }
  return 0;
}

/// What a draft model does before the iteration.
void Replica::add_drafting() {
  Drafting& drafting = shape_.drafting;
  for (const Item& item : decision_.items) {
    const Sequence& seq = sequence(item.seq);
    if (seq.phase == Phase::prefill) {
      drafting.prompts.add(item.new_tokens, seq.kv_then);
    } else if (item.draft_tokens > 0) {
      ++drafting.sequences;
      drafting.context_tokens += seq.kv_then + 1;
      drafting.steps = std::max(drafting.steps, item.draft_tokens);
    }
  }
}

void Replica::reserve_explicit() {
  for (const Item& item : decision_.items) {
    const Sequence& seq = sequence(item.seq);
    const bool decodes = seq.phase == Phase::decode;
    if (!parts_.kv->reserve(item.seq, seq, seq.kv_then + (decodes ? 1 + item.draft_tokens : item.new_tokens)))
      broken_policy(decodes ? "a decode has no block to grow into" : "a chunk has no block to be written to");
  }
}

/// Adds an item's tokens to a segment.
void Replica::add_work(const Item& item, Segment& segment) const {
  const Sequence& seq = sequence(item.seq);
  const std::int64_t tokens = seq.phase == Phase::decode ? 1 + item.draft_tokens : item.new_tokens;
  if (seq.phase == Phase::decode) {
    segment.tokens += tokens * seq.branches;
    if (item.draft_tokens == 0) {
      segment.decode.sequences += seq.branches;
      segment.decode.context_tokens += seq.branches * (seq.kv_then + 1);
    } else {
      for (std::int32_t b = 0; b < seq.branches; ++b) segment.prefill.add(tokens, seq.kv_then);
    }
  } else {
    segment.tokens += tokens;
    segment.prefill.add(tokens, seq.kv_then);
  }
}

void Replica::build_shape() {
  shape_.clear();
  const std::int32_t layers = parts_.limits.layers;
  SeqId previous{~0U};
  std::int64_t explicit_decodes = 0;
  record_prefill_ = 0;
  for (const Item& item : decision_.items) {
    Sequence& seq = sequence(item.seq);
    if (seq.phase == Phase::waiting || seq.phase == Phase::paused)
      broken_policy("an item names a sequence that does not run");
    if (seq.phase == Phase::decode && seq.steady) leave_steady(item.seq);
    const std::int32_t last = last_layer(item.layers);
    if (item.layers.first < 0 || last > layers || item.layers.first >= last)
      broken_policy("an item names layers the model has not");
    if (seq.phase == Phase::prefill && (item.new_tokens < 1 || item.new_tokens > seq.prefill_left()))
      broken_policy("a chunk is empty or longer than what is left of its prompt");
    const std::int64_t tokens = seq.phase == Phase::decode ? 1 + item.draft_tokens : item.new_tokens;
    if (item.seq != previous) {
      ++shape_.sequences;
      if (seq.phase == Phase::decode) ++explicit_decodes;
      if (seq.phase == Phase::prefill) record_prefill_ += tokens;
    }
    previous = item.seq;
    if (last == layers && (seq.phase == Phase::decode || tokens == seq.prefill_left()))
      shape_.logit_rows += seq.phase == Phase::decode ? tokens * seq.branches : 1;
  }
  const std::int64_t steady = decision_.decode_rest ? steady_branches_ : 0;
  record_decodes_ = explicit_decodes + (decision_.decode_rest ? steady_ : 0);
  shape_.sequences += decision_.decode_rest ? steady_ : 0;
  shape_.logit_rows += steady;
  if (shape_.sequences == 0) return;
  if (parts_.speculator != nullptr) add_drafting();
  bool uniform = true;
  for (const Item& item : decision_.items)
    if (item.variant != 0 || item.layers.first != 0 || last_layer(item.layers) != layers) uniform = false;
  if (!uniform) return build_segments();
  Segment whole{.first = 0, .last = layers, .variant = 0, .tokens = steady, .prefill = {}, .decode = {}};
  if (steady > 0) whole.decode = {steady, steady_kv_ + steady};
  for (const Item& item : decision_.items) add_work(item, whole);
  shape_.segments.push_back(whole);
}

/// The general case: cut the layers where any item starts or ends, and group what passes each piece by variant.
void Replica::build_segments() {
  const std::int32_t layers = parts_.limits.layers;
  cuts_.assign({0, layers});
  std::int32_t variants = 1;
  for (const Item& item : decision_.items) {
    cuts_.push_back(item.layers.first);
    cuts_.push_back(last_layer(item.layers));
    variants = std::max(variants, item.variant + 1);
  }
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  const std::int64_t steady = decision_.decode_rest ? steady_branches_ : 0;
  for (std::size_t c = 0; c + 1 < cuts_.size(); ++c) {
    for (std::int32_t variant = 0; variant < variants; ++variant) {
      Segment segment{.first = cuts_[c], .last = cuts_[c + 1], .variant = variant};
      if (variant == 0 && steady > 0) {
        segment.tokens = steady;
        segment.decode = {steady, steady_kv_ + steady};
      }
      for (const Item& item : decision_.items)
        if (item.variant == variant && item.layers.first <= segment.first && last_layer(item.layers) >= segment.last)
          add_work(item, segment);
      if (segment.tokens > 0) shape_.segments.push_back(segment);
    }
  }
}

// ---- leaps

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
  if (iterating_ && leap_.planned > 1) complete(over_by_now());
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
  const std::int64_t blocks = growth(clock_ + leap_.grown - leap_.done, iterations - leap_.grown);
  leap_.grown = iterations;
  if (blocks == 0) return;
  parts_.kv->take(blocks);
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

/// The planned iterations are over: items, then steady decodes, then whoever has all tokens leaves.
void Replica::boundary() {
  iterating_ = false;
  begun_ = time_of(leap_.planned - 1).tick();
  unsettled_ = true;
  finish_items();
  finish_due();
  if (any_finished_) remove_finished();
  unsettled_ = false;
  if (boundary_asked_) {
    boundary_asked_ = false;
    parts_.sink->boundary(parts_.index);
  }
  wake();
}

void Replica::ask_boundary() {
  if (!iterating_) return parts_.sink->boundary(parts_.index);
  boundary_asked_ = true;
  interrupt();
}

std::optional<SeqId> Replica::hold(std::int64_t tokens) {
  interrupt();
  // The iteration under way may not have taken its own blocks yet.
  if (iterating_ && decision_.decode_rest && steady_ > 0 && leap_.planned > leap_.done) take_growth(leap_.done + 1);
  const SeqId id = new_slot();
  sequence(id).phase = Phase::paused;
  if (!parts_.kv->reserve(id, sequence(id), tokens)) {
    sequence(id).phase = Phase::waiting;
    free_slots_.push_back(id);
    return std::nullopt;
  }
  ++leaving_;
  return id;
}

void Replica::drop_hold(SeqId id) {
  interrupt();
  --leaving_;
  parts_.kv->release(id, sequence(id), 0, Leave::drop);
  sequence(id).phase = Phase::waiting;
  sequence(id).order = -1;
  free_slots_.push_back(id);
}

bool Replica::holds(const Request& request, std::int64_t id) const {
  for (const SeqId seq : running_)
    if (accounts_[seq.index].request == &request) return request.id == id;
  return false;
}

/// Proposals of a decode that pass the last layer with this item.
bool Replica::verifies(const Item& item) const {
  return item.draft_tokens > 0 && sequence(item.seq).phase == Phase::decode &&
         last_layer(item.layers) == parts_.limits.layers;
}

void Replica::finish_items() {
  kept_.clear();
  for (const Item& item : decision_.items) {
    if (!verifies(item)) continue;
    const std::int64_t kept =
        parts_.acceptance != nullptr ? parts_.acceptance->accepted(sequence(item.seq), item.draft_tokens) : 0;
    if (kept < 0 || kept > item.draft_tokens)
      throw std::logic_error("an acceptance model kept more tokens than were proposed");
    kept_.push_back(kept);
  }
  if (parts_.acceptance != nullptr && !kept_.empty()) parts_.acceptance->level(kept_);
  std::size_t next = 0;
  for (const Item& item : decision_.items) {
    // Whether it verifies must be asked before it is finished: that changes its phase.
    const std::int64_t kept = verifies(item) ? kept_[next++] : 0;
    finish_item(item, kept);
  }
}

void Replica::finish_item(const Item& item, std::int64_t kept) {
  Sequence& seq = sequence(item.seq);
  seq.layers_done = last_layer(item.layers);
  if (seq.phase == Phase::prefill) seq.chunk_tokens = item.new_tokens;
  if (seq.layers_done < parts_.limits.layers) return;  // part-way through the model: goes on from there
  seq.layers_done = 0;
  if (seq.phase == Phase::decode) {
    if (item.draft_tokens > 0) {
      ++parts_.metrics->verifications;
      parts_.metrics->drafted_tokens += item.draft_tokens;
      parts_.metrics->accepted_tokens += kept;
    }
    const std::int64_t tokens = std::min(1 + kept, seq.output_tokens - seq.generated_then);
    seq.kv_then += tokens;
    emit(item.seq, tokens, at_);
    if (!account(item.seq).finished) enter_steady(item.seq, true);
    return;
  }
  seq.chunk_tokens = 0;
  seq.prefilled += item.new_tokens;
  seq.kv_then += item.new_tokens;
  parts_.kv->computed(item.seq, seq, seq.prefilled);
  if (seq.prefill_left() > 0) return;
  seq.phase = Phase::decode;
  erase_prefilling(item.seq);
  ++decoding_;
  emit(item.seq, 1, at_);
  if (account(item.seq).finished) return;
  Request& request = *account(item.seq).request;
  request.generated = seq.generated_then;
  request.ready_tokens = seq.kv_then;
  if (parts_.sink->prefill_done(request, item.seq)) {
    erase_running(item.seq);
    --decoding_;
    ++leaving_;
    seq.phase = Phase::paused;
  } else {
    enter_steady(item.seq, true);
  }
}

/// A decode that just emitted by itself (`fresh`) joins those that step together.
void Replica::enter_steady(SeqId id, bool fresh) {
  Sequence& seq = sequence(id);
  Account& own = account(id);
  seq.steady = true;
  seq.since = clock_;
  own.fresh = fresh;
  if (fresh) fresh_.push_back(id);
  if (gaps_) own.gaps = gaps_->mark();
  ++steady_;
  steady_branches_ += seq.branches;
  steady_kv_ += seq.branches * seq.kv_then;
  if (measured(id)) steady_measured_ += seq.branches;
  const std::int64_t left = seq.output_tokens - seq.generated_then;
  own.finish_clock = clock_ + left;
  ends_.push_back({own.finish_clock, seq.order, id});
  std::push_heap(ends_.begin(), ends_.end(), std::greater<>{});
  own.residue = own.grow_clock = -1;
  const std::int64_t capacity = parts_.kv->capacity(id, seq);
  if (capacity >= seq.kv_then + left) return;  // all it will ever need
  if (growth_tokens_ == 0) {
    ++self_growing_;
    own.self_growing = true;
    return;
  }
  const std::int64_t full = clock_ + std::max<std::int64_t>(0, capacity - seq.kv_then);
  if (full - clock_ < growth_tokens_) {
    own.residue = static_cast<std::int64_t>(residue_of(full));
    growth_[residue_of(full)] += seq.branches;
    growth_period_ += seq.branches;
  } else {
    own.grow_clock = full;
    growers_.push_back({full, seq.order, id});
    std::push_heap(growers_.begin(), growers_.end(), std::greater<>{});
  }
}

/// A steady decode becomes one by itself; its counts are brought up to the clock. `kv_ahead` tokens more than it has
/// are covered by blocks taken for an iteration under way.
void Replica::leave_steady(SeqId id, std::int64_t kv_ahead) {
  Sequence& seq = sequence(id);
  Account& own = account(id);
  const std::int64_t steps = clock_ - seq.since;
  seq.kv_then += steps;
  seq.generated_then += steps;
  seq.since = clock_;
  seq.steady = false;
  if (own.fresh) {
    fresh_.erase(std::find(fresh_.begin(), fresh_.end(), id));
    own.fresh = false;
  } else {
    own.request->last_token = steady_last_;
    if (gaps_) gaps_->judge(own.gaps, own.request->tbts);
  }
  --steady_;
  steady_branches_ -= seq.branches;
  steady_kv_ -= seq.branches * seq.kv_then;
  if (measured(id)) steady_measured_ -= seq.branches;
  own.finish_clock = -1;
  if (own.residue >= 0) {
    growth_[static_cast<std::size_t>(own.residue)] -= seq.branches;
    growth_period_ -= seq.branches;
    parts_.kv->settle(id, seq, seq.kv_then + kv_ahead);
    own.residue = -1;
  }
  if (own.self_growing) --self_growing_;
  own.self_growing = false;
  own.grow_clock = -1;
  if (steady_ == 0 && gaps_) gaps_->clear();
}

void Replica::emit(SeqId id, std::int64_t tokens, ExactTime at) {
  Sequence& seq = sequence(id);
  Account& own = account(id);
  Request& request = *own.request;
  if (!request.first_token) {
    request.first_token = at.tick();
  } else {
    const std::int64_t gap = at.minus(request.last_token, ps_per_tick_);
    if (measured(id)) {
      parts_.metrics->tbt.add(gap, seq.branches);
      if (tokens > 1)
        parts_.metrics->tbt.add(0, (tokens - 1) * seq.branches);  // tokens accepted together come together
    }
    if (gaps_) {
      request.tbts.add(gap, gaps_->target());
      if (tokens > 1) request.tbts.add(0, gaps_->target(), tokens - 1);
    }
  }
  request.last_token = at;
  seq.generated_then += tokens;
  if (seq.generated_then >= seq.output_tokens) {
    own.finished = true;
    any_finished_ = true;
    finished_.push_back(id);
  }
}

/// Steady decodes whose last token came with the last step.
void Replica::finish_due() {
  while (!ends_.empty() && ends_.front().clock <= clock_) {
    const ClockEvent event = ends_.front();
    std::pop_heap(ends_.begin(), ends_.end(), std::greater<>{});
    ends_.pop_back();
    const Sequence& seq = sequence(event.seq);
    if (seq.order != event.order || !seq.steady || account(event.seq).finish_clock != event.clock) continue;
    leave_steady(event.seq);
    account(event.seq).finished = true;
    any_finished_ = true;
    finished_.push_back(event.seq);
  }
}

void Replica::remove_finished() {
  any_finished_ = false;
  std::sort(finished_.begin(), finished_.end(),
            [&](SeqId a, SeqId b) { return sequence(a).order < sequence(b).order; });
  for (const SeqId id : finished_) {
    --decoding_;
    erase_running(id);
    parts_.kv->release(id, sequence(id), sequence(id).kv_then, Leave::keep);
    end_request(id, "completed", at_.tick());
  }
  finished_.clear();
}

void Replica::end_request(SeqId id, std::string_view status, std::optional<sim::Time> finished) {
  Request& request = *account(id).request;
  request.generated = sequence(id).generated_then;
  if (parts_.tier != nullptr) parts_.tier->drop(request.id);
  free_slots_.push_back(id);
  sequence(id).phase = Phase::waiting;
  sequence(id).order = -1;
  account(id).request = nullptr;
  parts_.sink->request_ended(request, status, finished);
}

// ---- leaving other than by the last token

std::optional<SeqId> Replica::decoding_sequence(const Request& request) const {
  for (const SeqId id : running_)
    if (accounts_[id.index].request == &request && sequence(id).phase == Phase::decode) return id;
  return std::nullopt;
}

Request& Replica::take_out(SeqId id) {
  Sequence& seq = sequence(id);
  if (iterating_) throw std::logic_error("a sequence is taken out in the middle of an iteration");
  if (seq.phase == Phase::decode) {
    --decoding_;
    if (seq.steady) leave_steady(id);
  } else if (seq.phase == Phase::prefill) {
    erase_prefilling(id);
  }
  erase_running(id);
  ++leaving_;
  seq.phase = Phase::paused;
  Request& request = *account(id).request;
  request.generated = seq.generated_then;
  request.ready_tokens = seq.kv_then;
  return request;
}

void Replica::let_go(SeqId id) {
  interrupt();  // blocks come free: who waits for them is to be decided upon
  --leaving_;
  parts_.kv->release(id, sequence(id), sequence(id).kv_then, Leave::keep);
  sequence(id).phase = Phase::waiting;
  sequence(id).order = -1;
  account(id).request = nullptr;
  free_slots_.push_back(id);
}

void Replica::book_busy(std::int64_t elapsed_ps) {
  counts_.busy_ps += elapsed_ps;
  parts_.metrics->busy_ps += elapsed_ps;
}

/// Books the part of the iteration under way that is over, and ends it.
void Replica::book_cut() {
  if (!iterating_) return;
  sync();
  const std::int64_t begun = leap_.done;
  const ExactTime start = time_of(begun);
  const ExactTime now{parts_.engine->now().ticks, 0};
  const std::int64_t length = leap_.elapsed(begun + 1) - leap_.elapsed(begun);
  const std::int64_t elapsed = begun < leap_.planned ? now.minus(start, ps_per_tick_) : 0;
  if (elapsed > 0) {
    IterationCost cost;
    parts_.model->cost(shape_, cost);
    ledger_->book_cost(share(cost, elapsed, length));
    book_busy(parts_.pipe != nullptr
                  ? static_cast<std::int64_t>(static_cast<__int128>(leap_.work_ps) * elapsed / length)
                  : elapsed);
    if (parts_.observer != nullptr) {
      const std::int64_t energy = leap_.price.energy_pj + begun * leap_.price.step_energy_pj;
      IterationRun run{.start = start.tick(),
                       .start_ps = start.ps > 0 ? ps_per_tick_ - start.ps : 0,
                       .count = 1,
                       .time_ps = elapsed,
                       .energy_pj = static_cast<std::int64_t>(static_cast<__int128>(energy) * elapsed / length),
                       .replica = parts_.index,
                       .stream = parts_.stream,
                       .prefill_tokens = record_prefill_,
                       .decodes = record_decodes_,
                       .running = std::ssize(running_),
                       .waiting = waiting_before(parts_.engine->now()),
                       .kv_used_bytes = parts_.kv->used_bytes()};
      parts_.observer->iterations_ended(run);
    }
  }
  parts_.engine->cancel(event_);
  at_ = now;
}

std::vector<Request*> Replica::evacuate() {
  book_cut();
  // Blocks of the cut iteration were taken for steady decodes already.
  const std::int64_t ahead = iterating_ && decision_.decode_rest ? leap_.grown - leap_.done : 0;
  iterating_ = false;
  std::vector<SeqId> ids(running_.begin(), running_.end());
  ids.insert(ids.end(), waiting_.begin(), waiting_.end());
  for (const auto& [id, since] : arriving_) ids.push_back(id);
  std::vector<Request*> requests;
  for (const SeqId id : ids) {
    Sequence& seq = sequence(id);
    if (seq.steady) leave_steady(id, ahead);
    if (seq.phase != Phase::waiting) parts_.kv->release(id, seq, seq.kv_then, Leave::drop);
    Request& request = *account(id).request;
    if (parts_.tier != nullptr) parts_.tier->drop(request.id);
    request.generated = seq.generated_then;
    request.ready_tokens = 0;
    account(id).request = nullptr;
    seq.phase = Phase::waiting;
    seq.order = -1;
    free_slots_.push_back(id);
    requests.push_back(&request);
  }
  running_.clear();
  prefilling_.clear();
  waiting_.clear();
  arriving_.clear();
  fresh_.clear();
  loading_.clear();
  outbound_.clear();
  finished_.clear();
  any_finished_ = false;
  decoding_ = 0;
  return requests;
}

void Replica::flush_unfinished() {
  for (Request* request : evacuate()) parts_.sink->request_ended(*request, "unfinished", std::nullopt);
}

}  // namespace orrery::experiments
