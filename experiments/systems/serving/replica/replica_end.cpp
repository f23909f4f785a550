#include "experiments/systems/serving/replica/replica_internal.hpp"

namespace orrery::experiments {

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
  sequence(id).order = -1;  // it is nobody
  tell_time({parts_.engine->now().ticks, 0});
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
  if (watched_) tell(*account(item.seq).request, RequestPhase::decode, at_.tick());
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
    if (parts_.tier != nullptr && parts_.tier->keeps_turns()) keep_turn(id);
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

}  // namespace orrery::experiments
