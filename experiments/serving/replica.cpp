#include "experiments/serving/replica.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace orrery::experiments {

using policies::Admission;
using policies::Item;
using policies::Phase;
using policies::SeqId;
using policies::Sequence;

namespace {

[[noreturn]] void broken_policy(std::string_view what) {
  throw std::logic_error(fmt::format("the batching policy broke its contract: {}", what));
}

constexpr std::uint64_t kIterationEnd = 0, kDecide = 1;  // payloads

/// Every sum over `by`, rounded down.
IterationCost divided(const RunCost& sums, std::int64_t by) {
  const auto share = [by](__int128 value) { return static_cast<std::int64_t>(value / by); };
  IterationCost out{share(sums.time_ps),    share(sums.flops),     share(sums.dram_bytes),
                    share(sums.compute_pj), share(sums.memory_pj), share(sums.network_pj)};
  for (std::size_t i = 0; i < out.class_ps.size(); ++i) {
    out.class_ps[i] = share(sums.class_ps[i]);
    out.class_pj[i] = share(sums.class_pj[i]);
  }
  return out;
}

}  // namespace

Replica::Replica(ReplicaParts parts) : parts_(std::move(parts)) {}

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

void Replica::submit(const Arrival& arrival) {
  const SeqId id = new_slot();
  Sequence& seq = sequence(id);
  seq.order = next_order_++;
  seq.arrived = parts_.engine->now();
  seq.prompt_tokens = arrival.prompt_tokens;
  seq.output_tokens = arrival.output_tokens;
  seq.prefill_tokens = arrival.prompt_tokens;
  account(id).id = arrival.id;
  ++parts_.metrics->arrived;
  if (seq.prompt_tokens + seq.output_tokens > parts_.limits.max_context) {
    end_request(id, "rejected:context_exceeded", std::nullopt);
    return;
  }
  if (const auto reason = parts_.batching->reject(seq, *parts_.kv, parts_.limits)) {
    end_request(id, fmt::format("rejected:{}", *reason), std::nullopt);
    return;
  }
  waiting_.push_back(id);
}

void Replica::wake() {
  if (iterating_ || decide_due_) return;
  if (parts_.engine->more_now()) {
    // Whoever else arrives at this instant joins first; the order of equal events decides nothing.
    decide_due_ = true;
    parts_.engine->schedule_in({}, *this, kDecide);
  } else {
    start_iteration();
  }
}

void Replica::start_iteration() {
  while (!running_.empty() || !waiting_.empty()) {
    if (decide()) return;
    // Nothing to run although something waits: the head of the queue can never be scheduled.
    if (!running_.empty()) broken_policy("sequences run, but none was given work");
    reject_head();
  }
}

void Replica::reject_head() {
  const SeqId id = waiting_.front();
  waiting_.pop_front();
  end_request(id, "rejected:unschedulable", std::nullopt);
}

bool Replica::decide() {
  decision_.clear();
  const policies::BatchView view{parts_.engine->now(), running_,  waiting_,    sequences_,
                                 *parts_.kv,           decoding_, shape_.mode, parts_.limits};
  parts_.batching->decide(view, decision_);

  for (const SeqId id : decision_.preempt) preempt(id);
  switch_ps_ = 0;
  if (decision_.mode && *decision_.mode != shape_.mode) {
    switch_ps_ = parts_.model->switch_ps(shape_.mode, *decision_.mode);
    shape_.mode = *decision_.mode;
    ++switches_;
  }
  for (const Admission& admission : decision_.admit) admit(admission);
  if (!decision_.preempt.empty() || !decision_.admit.empty())
    std::sort(running_.begin(), running_.end(),
              [&](SeqId a, SeqId b) { return sequence(a).order < sequence(b).order; });
  ++iteration_;
  for (const Item& item : decision_.items) account(item.seq).marked = iteration_;

  build_shape();
  if (shape_.sequences == 0) return false;
  reserve_growth();
  cost_ = {};
  parts_.model->cost(shape_, cost_);
  const std::int64_t overhead =
      parts_.iteration_overhead_ps + parts_.sequence_overhead_ps * shape_.sequences + switch_ps_;
  const std::int64_t tick = parts_.engine->scale().ps_per_tick();
  const sim::Duration length{std::max<std::int64_t>(1, (cost_.time_ps + overhead + tick - 1) / tick)};
  record_.start = parts_.engine->now();
  record_.end = record_.start + length;
  record_.replica = parts_.index;
  record_.kv_used_bytes = parts_.kv->used_bytes();
  record_.energy_pj = cost_.compute_pj + cost_.memory_pj + cost_.network_pj;
  ServingMetrics& metrics = *parts_.metrics;
  metrics.kv_peak_bytes = std::max(metrics.kv_peak_bytes, record_.kv_used_bytes);
  iterating_ = true;
  parts_.engine->schedule_in(length, *this, kIterationEnd);
  return true;
}

void Replica::preempt(SeqId id) {
  Sequence& seq = sequence(id);
  const auto at = std::find(running_.begin(), running_.end(), id);
  if (at == running_.end()) broken_policy("it preempted a sequence that does not run");
  running_.erase(at);
  if (seq.phase == Phase::decode) --decoding_;
  parts_.kv->release(id);
  seq.phase = Phase::waiting;
  seq.prefill_tokens = seq.prompt_tokens + seq.generated;
  seq.prefilled = seq.kv_tokens = seq.chunk_tokens = 0;
  seq.layers_done = 0;
  ++seq.preemptions;
  waiting_.push_front(id);
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
  // At least the last prompt token is computed, or there would be nothing to sample the first token from.
  const std::int64_t cached = std::min(parts_.kv->match_prefix(seq), seq.prefill_tokens - 1);
  if (!parts_.kv->reserve(id, std::max(admission.reserve_tokens, seq.prefill_tokens)))
    broken_policy("it admitted a sequence whose blocks are not free");
  seq.prefilled = seq.kv_tokens = cached;
  if (!account(id).admitted) {
    account(id).admitted = parts_.engine->now();
    seq.cached_tokens = cached;
  }
  seq.phase = Phase::prefill;
  running_.push_back(id);
}

bool Replica::decodes_now(SeqId id) const {
  return sequences_[id.index].phase == Phase::decode && accounts_[id.index].marked != iteration_;
}

void Replica::reserve_growth() {
  policies::KvCache& kv = *parts_.kv;
  for (const Item& item : decision_.items) {
    const Sequence& seq = sequence(item.seq);
    if (seq.phase != Phase::decode) continue;
    if (!kv.reserve(item.seq, seq.kv_tokens + 1 + item.draft_tokens))
      broken_policy("a decode has no block to grow into");
  }
  if (!decision_.decode_rest) return;
  for (const SeqId id : running_) {
    if (!decodes_now(id)) continue;
    const std::int64_t tokens = sequence(id).kv_tokens + 1;
    if (tokens > kv.capacity(id) && !kv.reserve(id, tokens)) broken_policy("a decode has no block to grow into");
  }
}

void Replica::build_shape() {
  shape_.clear();
  record_.prefill_tokens = record_.decodes = 0;
  const std::int32_t layers = parts_.limits.layers;
  DecodeSums decodes;
  if (decision_.decode_rest && decoding_ > 0) {
    for (const SeqId id : running_) {
      if (!decodes_now(id)) continue;
      ++decodes.sequences;
      decodes.context_tokens += sequence(id).kv_tokens + 1;
    }
  }
  shape_.sequences = decodes.sequences;
  shape_.logit_rows = decodes.sequences;
  record_.decodes = decodes.sequences;
  record_.waiting = std::ssize(waiting_);
  record_.running = std::ssize(running_);
  Segment whole{
      .first = 0, .last = layers, .variant = 0, .tokens = decodes.sequences, .prefill = {}, .decode = decodes};
  bool uniform = true;
  SeqId previous{~0U};
  for (const Item& item : decision_.items) {
    const Sequence& seq = sequence(item.seq);
    if (seq.phase == Phase::waiting) broken_policy("an item names a sequence that does not run");
    const std::int32_t last = last_layer(item.layers);
    if (item.layers.first < 0 || last > layers || item.layers.first >= last)
      broken_policy("an item names layers the model has not");
    if (item.variant != 0 || item.layers.first != 0 || last != layers) uniform = false;
    const std::int64_t tokens = seq.phase == Phase::decode ? 1 + item.draft_tokens : item.new_tokens;
    if (seq.phase == Phase::prefill && (item.new_tokens < 1 || item.new_tokens > seq.prefill_left()))
      broken_policy("a chunk is empty or longer than what is left of its prompt");
    if (item.seq != previous) {
      ++shape_.sequences;
      if (seq.phase == Phase::decode) ++record_.decodes;
      if (seq.phase == Phase::prefill) record_.prefill_tokens += tokens;
    }
    previous = item.seq;
    if (last == layers && (seq.phase == Phase::decode || tokens == seq.prefill_left()))
      shape_.logit_rows += seq.phase == Phase::decode ? tokens : 1;
    whole.tokens += tokens;
    if (seq.phase == Phase::decode && item.draft_tokens == 0) {
      ++whole.decode.sequences;
      whole.decode.context_tokens += seq.kv_tokens + 1;
    } else {
      whole.prefill.add(tokens, seq.kv_tokens);
    }
  }
  if (shape_.sequences == 0) return;
  if (uniform) {
    shape_.segments.push_back(whole);
  } else {
    build_segments();
  }
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
  for (std::size_t c = 0; c + 1 < cuts_.size(); ++c) {
    for (std::int32_t variant = 0; variant < variants; ++variant) {
      Segment segment{.first = cuts_[c], .last = cuts_[c + 1], .variant = variant};
      if (variant == 0 && decision_.decode_rest) {
        for (const SeqId id : running_) {
          if (!decodes_now(id)) continue;
          ++segment.tokens;
          ++segment.decode.sequences;
          segment.decode.context_tokens += sequence(id).kv_tokens + 1;
        }
      }
      for (const Item& item : decision_.items) {
        if (item.variant != variant || item.layers.first > segment.first || last_layer(item.layers) < segment.last)
          continue;
        const Sequence& seq = sequence(item.seq);
        const std::int64_t tokens = seq.phase == Phase::decode ? 1 + item.draft_tokens : item.new_tokens;
        segment.tokens += tokens;
        if (seq.phase == Phase::decode && item.draft_tokens == 0) {
          ++segment.decode.sequences;
          segment.decode.context_tokens += seq.kv_tokens + 1;
        } else {
          segment.prefill.add(tokens, seq.kv_tokens);
        }
      }
      if (segment.tokens > 0) shape_.segments.push_back(segment);
    }
  }
}

void Replica::on_event(std::uint64_t payload) {
  if (payload == kDecide) {
    // What was due at this instant is through; waiting for more could go on for ever between two replicas.
    decide_due_ = false;
    if (!iterating_) start_iteration();
    return;
  }
  iterating_ = false;
  ServingMetrics& metrics = *parts_.metrics;
  book(cost_);
  ++metrics.iterations;
  for (const Segment& segment : shape_.segments)
    if (segment.last == parts_.limits.layers) metrics.processed_tokens += segment.tokens;
  finish_items();
  if (decision_.decode_rest) finish_decodes();
  if (any_finished_) remove_finished();
  if (parts_.observer != nullptr) {
    record_.waiting = std::ssize(waiting_);
    parts_.observer->iteration_ended(record_);
  }
  wake();
}

/// Costs count when they are over, so that a run cut short has the share it saw.
void Replica::book(const IterationCost& cost) {
  parts_.metrics->cost.add(cost);
  parts_.metrics->busy_ticks += (record_.end - record_.start).ticks;
}

void Replica::finish_items() {
  for (const Item& item : decision_.items) finish_item(item);
}

void Replica::finish_item(const Item& item) {
  Sequence& seq = sequence(item.seq);
  seq.layers_done = last_layer(item.layers);
  if (seq.phase == Phase::prefill) seq.chunk_tokens = item.new_tokens;
  if (seq.layers_done < parts_.limits.layers) return;  // part-way through the model: goes on from there
  seq.layers_done = 0;
  if (seq.phase == Phase::decode) {
    const std::int64_t kept =
        item.draft_tokens > 0 && parts_.acceptance != nullptr ? parts_.acceptance->accepted(seq, item.draft_tokens) : 0;
    if (kept < 0 || kept > item.draft_tokens)
      throw std::logic_error("an acceptance model kept more tokens than were proposed");
    const std::int64_t tokens = std::min(1 + kept, seq.output_tokens - seq.generated);
    seq.kv_tokens += tokens;
    emit(item.seq, tokens);
    return;
  }
  seq.chunk_tokens = 0;
  seq.prefilled += item.new_tokens;
  seq.kv_tokens += item.new_tokens;
  if (seq.prefill_left() > 0) return;
  seq.phase = Phase::decode;
  ++decoding_;
  emit(item.seq, 1);
}

void Replica::finish_decodes() {
  for (const SeqId id : running_) {
    // A sequence that only now turned to decode has an item of this iteration, so it is not counted twice.
    if (!decodes_now(id)) continue;
    ++sequence(id).kv_tokens;
    emit(id, 1);
  }
}

void Replica::emit(SeqId id, std::int64_t tokens) {
  Sequence& seq = sequence(id);
  Account& own = account(id);
  const sim::Time now = record_.end;
  if (!own.first_token) {
    own.first_token = now;
  } else {
    const std::int64_t gap = (now - own.last_token).ticks;
    if (seq.arrived >= parts_.metrics->warmup) {
      parts_.metrics->tbt.add(gap);
      if (tokens > 1) parts_.metrics->tbt.add(0, tokens - 1);  // tokens accepted together come together
    }
    if (parts_.metrics->slo.tbt) {
      own.tbts.add(gap, parts_.metrics->slo.tbt->ticks);
      for (std::int64_t i = 1; i < tokens; ++i) own.tbts.add(0, parts_.metrics->slo.tbt->ticks);
    }
  }
  own.last_token = now;
  seq.generated += tokens;
  if (seq.generated >= seq.output_tokens) {
    own.finished = true;
    any_finished_ = true;
  }
}

void Replica::remove_finished() {
  any_finished_ = false;
  std::erase_if(running_, [&](SeqId id) {
    if (!account(id).finished) return false;
    --decoding_;
    parts_.kv->release(id);
    end_request(id, "completed", record_.end);
    return true;
  });
}

void Replica::end_request(SeqId id, std::string_view status, std::optional<sim::Time> finished) {
  const Sequence& seq = sequence(id);
  const Account& own = account(id);
  const RequestRecord record{.id = own.id,
                             .arrived = seq.arrived,
                             .admitted = own.admitted,
                             .first_token = own.first_token,
                             .finished = finished,
                             .prompt_tokens = seq.prompt_tokens,
                             .output_tokens = seq.output_tokens,
                             .cached_tokens = seq.cached_tokens,
                             .preemptions = seq.preemptions,
                             .replica = parts_.index,
                             .status = status};
  parts_.metrics->request_ended(record, own.tbts);
  if (parts_.observer != nullptr) parts_.observer->request_ended(record);
  free_slots_.push_back(id);
}

void Replica::flush_unfinished() {
  if (iterating_ && parts_.engine->now() > record_.start) {
    const std::int64_t length = (record_.end - record_.start).ticks;
    record_.end = parts_.engine->now();
    const std::int64_t elapsed = (record_.end - record_.start).ticks;
    RunCost part;
    part.add_scaled(cost_, elapsed);
    const IterationCost share = divided(part, length);
    record_.energy_pj = share.compute_pj + share.memory_pj + share.network_pj;
    book(share);
    if (parts_.observer != nullptr) parts_.observer->iteration_ended(record_);
  }
  iterating_ = false;
  for (const SeqId id : running_) {
    parts_.kv->release(id);
    end_request(id, "unfinished", std::nullopt);
  }
  running_.clear();
  decoding_ = 0;
  while (!waiting_.empty()) {
    const SeqId id = waiting_.front();
    waiting_.pop_front();
    end_request(id, "unfinished", std::nullopt);
  }
}

}  // namespace orrery::experiments
