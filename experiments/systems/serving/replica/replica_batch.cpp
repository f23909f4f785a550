#include "experiments/systems/serving/replica/replica_internal.hpp"

namespace orrery::experiments {

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
  record_prefill_ = record_chunks_ = 0;
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
      if (seq.phase == Phase::prefill) {
        record_prefill_ += tokens;
        ++record_chunks_;
      }
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

}  // namespace orrery::experiments
