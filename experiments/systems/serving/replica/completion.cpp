#include "experiments/systems/serving/replica/completion.hpp"

#include <algorithm>
#include <stdexcept>

namespace orrery::experiments {

using policies::BatchDecision;
using policies::Item;
using policies::Phase;
using policies::SeqId;
using policies::Sequence;

Completion::Completion(SequenceTable& sequences, SteadyDecodes& steady, TierCopies& copies, const BatchBuilder& batch,
                       Books& books, const ReplicaParts& parts)
    : sequences_(sequences),
      steady_(steady),
      copies_(copies),
      batch_(batch),
      books_(books),
      kv_(*parts.kv),
      metrics_(*parts.metrics),
      sink_(*parts.sink),
      acceptance_(parts.acceptance),
      layers_(parts.limits.layers),
      ps_per_tick_(parts.engine->scale().ps_per_tick()) {}

void Completion::finish(const BatchDecision& decision, ExactTime at) {
  if (!decision.items.empty()) finish_items(decision, at);
  while (const std::optional<SeqId> id = steady_.next_ended()) has_all_tokens(*id);
  if (!finished_.empty()) remove_finished(at);
}

/// Proposals of a decode that pass the last layer with this item.
bool Completion::verifies(const Item& item) const {
  return item.draft_tokens > 0 && sequences_[item.seq].phase == Phase::decode &&
         batch_.last_layer(item.layers) == layers_;
}

void Completion::finish_items(const BatchDecision& decision, ExactTime at) {
  accept(decision);
  std::size_t next = 0;
  for (const Item& item : decision.items) {
    // Whether it verifies must be asked before it is finished: that changes its phase.
    const std::int64_t kept = verifies(item) ? kept_[next++] : 0;
    finish_item(item, kept, at);
  }
}

/// How many proposals each item keeps.
void Completion::accept(const BatchDecision& decision) {
  kept_.clear();
  for (const Item& item : decision.items) {
    if (!verifies(item)) continue;
    const std::int64_t kept =
        acceptance_ != nullptr ? acceptance_->accepted(sequences_[item.seq], item.draft_tokens) : 0;
    if (kept < 0 || kept > item.draft_tokens)
      throw std::logic_error("an acceptance model kept more tokens than were proposed");
    kept_.push_back(kept);
  }
  if (acceptance_ != nullptr && !kept_.empty()) acceptance_->level(kept_);
}

void Completion::finish_item(const Item& item, std::int64_t kept, ExactTime at) {
  Sequence& seq = sequences_[item.seq];
  seq.layers_done = batch_.last_layer(item.layers);
  if (seq.phase == Phase::prefill) seq.chunk_tokens = item.new_tokens;
  if (seq.layers_done < layers_) return;  // part-way through the model: goes on from there
  seq.layers_done = 0;
  if (seq.phase == Phase::decode) return finish_decode(item, kept, at);
  seq.chunk_tokens = 0;
  seq.prefilled += item.new_tokens;
  seq.kv_then += item.new_tokens;
  kv_.computed(item.seq, seq, seq.prefilled);
  if (seq.prefill_left() <= 0) finish_prompt(item.seq, at);
}

void Completion::finish_decode(const Item& item, std::int64_t kept, ExactTime at) {
  Sequence& seq = sequences_[item.seq];
  if (item.draft_tokens > 0) {
    ++metrics_.verifications;
    metrics_.drafted_tokens += item.draft_tokens;
    metrics_.accepted_tokens += kept;
  }
  const std::int64_t tokens = std::min(1 + kept, seq.output_tokens - seq.generated_then);
  seq.kv_then += tokens;
  emit(item.seq, tokens, at);
  if (!sequences_.account(item.seq).finished) steady_.enter(item.seq, true);
}

void Completion::finish_prompt(SeqId id, ExactTime at) {
  sequences_.decode(id);
  Request& request = sequences_.request(id);
  if (books_.watched()) books_.tell(request, RequestPhase::decode, at.tick());
  emit(id, 1, at);
  if (sequences_.account(id).finished) return;
  const Sequence& seq = sequences_[id];
  request.generated = seq.generated_then;
  request.ready_tokens = seq.kv_then;
  if (sink_.prefill_done(request, id)) {
    sequences_.take_out(id);
  } else {
    steady_.enter(id, true);
  }
}

void Completion::emit(SeqId id, std::int64_t tokens, ExactTime at) {
  Sequence& seq = sequences_[id];
  Request& request = sequences_.request(id);
  if (!request.first_token) {
    request.first_token = at.tick();
  } else {
    const std::int64_t gap = at.minus(request.last_token, ps_per_tick_);
    if (metrics_.measures(seq.arrived)) {
      metrics_.tbt.add(gap, seq.branches);
      if (tokens > 1) metrics_.tbt.add(0, (tokens - 1) * seq.branches);  // tokens accepted together come together
    }
    if (const auto& gaps = steady_.gaps()) {
      request.tbts.add(gap, gaps->target());
      if (tokens > 1) request.tbts.add(0, gaps->target(), tokens - 1);
    }
  }
  request.last_token = at;
  seq.generated_then += tokens;
  if (seq.generated_then >= seq.output_tokens) has_all_tokens(id);
}

void Completion::has_all_tokens(SeqId id) {
  sequences_.account(id).finished = true;
  finished_.push_back(id);
}

void Completion::remove_finished(ExactTime at) {
  std::sort(finished_.begin(), finished_.end(),
            [&](SeqId a, SeqId b) { return sequences_[a].order < sequences_[b].order; });
  for (const SeqId id : finished_) {
    sequences_.remove(id);
    copies_.keep_turn(id);
    kv_.release(id, sequences_[id], sequences_[id].kv_then, policies::Leave::keep);
    end(id, "completed", at.tick());
  }
  finished_.clear();
}

void Completion::end(SeqId id, std::string_view status, std::optional<sim::Time> finished) {
  Request& request = sequences_.request(id);
  request.generated = sequences_[id].generated_then;
  copies_.drop(request);
  sequences_.free(id);
  sink_.request_ended(request, status, finished);
}

}  // namespace orrery::experiments
