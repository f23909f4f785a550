#include "experiments/systems/serving/replica/batch_builder.hpp"

#include <algorithm>

#include "experiments/systems/serving/replica/contract.hpp"

namespace orrery::experiments {

using policies::BatchDecision;
using policies::Item;
using policies::Phase;
using policies::SeqId;
using policies::Sequence;

namespace {

/// Tokens of an item, of each branch.
std::int64_t new_tokens(const Item& item, const Sequence& seq) {
  return seq.phase == Phase::decode ? 1 + item.draft_tokens : item.new_tokens;
}

}  // namespace

BatchBuilder::BatchBuilder(SequenceTable& sequences, SteadyDecodes& steady, const ReplicaParts& parts)
    : sequences_(sequences),
      steady_(steady),
      kv_(*parts.kv),
      speculator_(parts.speculator.get()),
      limits_(parts.limits),
      names_tokens_(parts.experts.replay != nullptr) {}

bool BatchBuilder::build(BatchDecision& decision) {
  ++number_;
  for (const Item& item : decision.items) sequences_.account(item.seq).marked = number_;
  if (speculator_ != nullptr && decision.decode_rest) add_drafts(decision);
  shape_.clear();
  counts_ = {};
  if (!decision.items.empty()) add_items(decision);
  std::int64_t steady = 0;
  if (decision.decode_rest) {
    steady = steady_.branches();
    counts_.decodes += steady_.count();
    shape_.sequences += steady_.count();
    shape_.logit_rows += steady;
  }
  if (shape_.sequences == 0) return false;
  if (speculator_ != nullptr) add_drafting(decision);
  if (!uniform(decision)) {
    build_segments(decision, steady);
    return true;
  }
  Segment& whole = shape_.segments.emplace_back();
  whole.last = limits_.layers;
  whole.tokens = steady;
  if (steady > 0) whole.decode = {steady, steady_.context()};
  if (steady > 0 && names_tokens_) add_steady_runs(whole);
  for (const Item& item : decision.items) add_work(item, whole);
  spare_shared_reads(decision, whole.decode);
  return true;
}

/// Takes out of what decodes read the prefixes that are read for another of them. Who is still being prefilled holds
/// its prefix too, but reads it with its chunk.
void BatchBuilder::spare_shared_reads(const BatchDecision& decision, DecodeSums& decode) const {
  std::int64_t spared = kv_.tokens_read_for_others();
  if (spared == 0 || decode.sequences == 0) return;
  for (const Item& item : decision.items)
    if (sequences_[item.seq].phase == Phase::prefill) spared -= sequences_[item.seq].cached_tokens;
  decode.context_tokens -= std::clamp<std::int64_t>(spared, 0, decode.context_tokens - decode.sequences);
}

/// Gives decodes without an item of their own one with as many proposals as the speculator says and blocks allow.
void BatchBuilder::add_drafts(BatchDecision& decision) {
  std::int64_t prompt_tokens = 0;
  for (const Item& item : decision.items)
    if (sequences_[item.seq].phase == Phase::prefill) prompt_tokens += item.new_tokens;
  const std::int64_t most = speculator_->length(steady_.count(), prompt_tokens);
  if (most <= 0) return;
  decision.stable_iterations = 1;  // whoever gets none now may get some next time
  // The decision has blocks for its items and a token of every decode; proposals get what is left.
  const std::int64_t clock = steady_.clock();
  std::int64_t spare = kv_.available_blocks() - steady_.blocks_of_a_step();
  for (const Item& item : decision.items) {
    const Sequence& seq = sequences_[item.seq];
    spare -= kv_.blocks_to_grow(item.seq, seq, seq.kv_tokens(clock) + new_tokens(item, seq));
  }
  for (const SeqId id : sequences_.running()) {
    const Sequence& seq = sequences_[id];
    if (!seq.steady || seq.branches > 1 || sequences_.account(id).marked == number_) continue;
    const std::int64_t room = limits_.max_context - seq.kv_tokens(clock) - 1;
    const std::int64_t wanted = std::min(speculator_->drafts(seq, seq.generated(clock), most), room);
    if (wanted <= 0) continue;
    steady_.leave(id);
    if (const std::int64_t drafts = fitting_drafts(id, wanted, spare); drafts > 0) {
      decision.items.push_back({.seq = id, .draft_tokens = drafts});
    } else {
      steady_.enter(id, true);
    }
  }
}

/// At most as many as `spare` blocks hold beside those of the decode itself; takes them out of `spare`.
std::int64_t BatchBuilder::fitting_drafts(SeqId id, std::int64_t most, std::int64_t& spare) {
  const Sequence& seq = sequences_[id];
  const std::int64_t own = kv_.blocks_to_grow(id, seq, seq.kv_then + 1);
  for (std::int64_t drafts = most; drafts > 0; --drafts) {
    const std::int64_t more = kv_.blocks_to_grow(id, seq, seq.kv_then + 1 + drafts) - own;
    if (more > std::max<std::int64_t>(0, spare)) continue;
    spare -= more;
    return drafts;
  }
  return 0;
}

/// What a draft model does before the iteration.
void BatchBuilder::add_drafting(const BatchDecision& decision) {
  Drafting& drafting = shape_.drafting;
  for (const Item& item : decision.items) {
    const Sequence& seq = sequences_[item.seq];
    if (seq.phase == Phase::prefill) {
      drafting.prompts.add(item.new_tokens, seq.kv_then);
    } else if (item.draft_tokens > 0) {
      ++drafting.sequences;
      drafting.context_tokens += seq.kv_then + 1;
      drafting.steps = std::max(drafting.steps, item.draft_tokens);
    }
  }
}

void BatchBuilder::reserve(const BatchDecision& decision) {
  for (const Item& item : decision.items) {
    const Sequence& seq = sequences_[item.seq];
    if (!kv_.reserve(item.seq, seq, seq.kv_then + new_tokens(item, seq)))
      broken_policy(seq.phase == Phase::decode ? "a decode has no block to grow into"
                                               : "a chunk has no block to be written to");
  }
}

/// Throws for an item that cannot be.
void BatchBuilder::check(const Item& item) const {
  const Sequence& seq = sequences_[item.seq];
  const std::int32_t last = last_layer(item.layers);
  if (item.layers.first < 0 || last > limits_.layers || item.layers.first >= last)
    broken_policy("an item names layers the model has not");
  if (seq.phase == Phase::prefill && (item.new_tokens < 1 || item.new_tokens > seq.prefill_left()))
    broken_policy("a chunk is empty or longer than what is left of its prompt");
}

/// Counts items; decodes among them leave the steady ones.
void BatchBuilder::add_items(const BatchDecision& decision) {
  SeqId previous{~0U};
  for (const Item& item : decision.items) {
    const Sequence& seq = sequences_[item.seq];
    if (seq.phase == Phase::waiting || seq.phase == Phase::paused)
      broken_policy("an item names a sequence that does not run");
    const bool decodes = seq.phase == Phase::decode;
    if (decodes && seq.steady) steady_.leave(item.seq);
    check(item);
    const std::int64_t tokens = new_tokens(item, seq);
    if (item.seq != previous) {
      ++shape_.sequences;
      if (decodes) {
        ++counts_.decodes;
      } else {
        counts_.prefill_tokens += tokens;
        ++counts_.chunks;
      }
    }
    previous = item.seq;
    if (last_layer(item.layers) == limits_.layers && (decodes || tokens == seq.prefill_left()))
      shape_.logit_rows += decodes ? tokens * seq.branches : 1;
  }
}

bool BatchBuilder::uniform(const BatchDecision& decision) const {
  return std::all_of(decision.items.begin(), decision.items.end(), [&](const Item& item) {
    return item.variant == 0 && item.layers.first == 0 && last_layer(item.layers) == limits_.layers;
  });
}

/// Adds which tokens steady decodes compute.
void BatchBuilder::add_steady_runs(Segment& segment) const {
  for (const SeqId id : sequences_.running()) {
    const Sequence& seq = sequences_[id];
    if (!seq.steady) continue;
    const TokenRun run{.request = sequences_.request(id).id, .first = seq.kv_tokens(steady_.clock()), .count = 1};
    segment.runs.insert(segment.runs.end(), static_cast<std::size_t>(seq.branches), run);
  }
}

/// Adds an item's tokens to a segment.
void BatchBuilder::add_work(const Item& item, Segment& segment) const {
  const Sequence& seq = sequences_[item.seq];
  const std::int64_t tokens = new_tokens(item, seq);
  if (names_tokens_)
    segment.runs.insert(segment.runs.end(), seq.phase == Phase::decode ? static_cast<std::size_t>(seq.branches) : 1,
                        {.request = sequences_.request(item.seq).id, .first = seq.kv_then, .count = tokens});
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

/// The general case: cut the layers where any item starts or ends, and group what passes each piece by variant.
void BatchBuilder::build_segments(const BatchDecision& decision, std::int64_t steady) {
  cuts_.assign({0, limits_.layers});
  std::int32_t variants = 1;
  for (const Item& item : decision.items) {
    cuts_.push_back(item.layers.first);
    cuts_.push_back(last_layer(item.layers));
    variants = std::max(variants, item.variant + 1);
  }
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  for (std::size_t c = 0; c + 1 < cuts_.size(); ++c) {
    for (std::int32_t variant = 0; variant < variants; ++variant) {
      Segment segment{.first = cuts_[c], .last = cuts_[c + 1], .variant = variant};
      if (variant == 0 && steady > 0) {
        segment.tokens = steady;
        segment.decode = {steady, steady_.context()};
        if (names_tokens_) add_steady_runs(segment);
      }
      for (const Item& item : decision.items)
        if (item.variant == variant && item.layers.first <= segment.first && last_layer(item.layers) >= segment.last)
          add_work(item, segment);
      if (segment.tokens > 0) shape_.segments.push_back(segment);
    }
  }
}

}  // namespace orrery::experiments
