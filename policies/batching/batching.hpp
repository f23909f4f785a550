// Batching: which sequences a replica advances in its next iteration, and by how much.
//
// The replica asks once an iteration. A policy sees a BatchView and answers with a BatchDecision, which is a change,
// not a state: whom to admit, preempt, and which sequences take an explicit Item; every other decoding sequence takes
// one token through all layers, unless `decode_rest` is off.
//
// Contract
//  - A policy changes nothing but its own members, and draws no random numbers of its own: equal views and history give
//    equal decisions. A call that changes nothing should be O(1):
//    `prefilling`, `decoding` and `growth_blocks` are there so that nobody has to walk all of `running`.
//  - Order of application: preempt, switch mode, admit, items, decodes. Blocks that preemption frees may be counted on;
//    where they turn out fewer (what was shared with who left, holes), an admission beside it is put off: the sequence
//    still waits.
//  - Whatever is scheduled must fit: after the decision every item and decode has its blocks, or the replica stops the
//    run with std::logic_error (a broken policy, not bad input).
//  - An empty decision with sequences waiting and none running rejects the head of the queue ("unschedulable"), so that
//    a policy cannot hang a run. One with sequences running (all paused, say) is a broken policy.
//  - stable_iterations counts only for decisions of decodes alone (no items): the replica may then leap over as many
//    iterations without asking. It stops by itself where something arrives, ends, or no block is left to grow into.
//  - Ties among those that wait are broken by Sequence::order, which is unique; `running` stands in the order of
//    admission (Sequence::turn).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "policies/base/types.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

/// Layers [first, last) of the model; last = 0 stands for all of them.
struct LayerRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// Work of one sequence in an iteration. A sequence may have several items with disjoint layer ranges, whose cost
/// differs by `variant` (a smaller or quantised module, a draft model …; 0 is the model itself).
struct Item {
  SeqId seq;
  std::int64_t new_tokens = 1;    ///< of a prompt chunk, or 1 for a decode
  LayerRange layers;              ///< a chunk that stops short of the last layer goes on from there next time
  std::int64_t draft_tokens = 0;  ///< proposed tokens verified beside the decode token
  std::int32_t variant = 0;
};

/// Takes `seq` from the queue and gives it blocks for `reserve_tokens`: all it may ever need, the tokens to prefill, or
/// what is there of it and its first chunk. Chunks get the blocks they write when they are scheduled, as far as the
/// sequence lacks them. Its item, if it has one in the same decision, counts from what the cache has of it: new_tokens
/// <= BatchView::to_compute().
struct Admission {
  SeqId seq;
  std::int64_t reserve_tokens = 0;
};

/// What becomes of the cache of a running sequence that has to stop.
enum class Preempt : std::uint8_t {
  recompute,  ///< dropped; the sequence goes back to the front of the queue and prefills all its tokens again
  swap,       ///< copied to the next tier (recompute where that has no room); it goes back to the front of the queue
  pause       ///< stays; the sequence takes no part until it is resumed
};
/// What a parameter may say; to pause is for policies that resume.
constexpr auto enum_names(Preempt) {
  using enum Preempt;
  return sim::names<Preempt>({{"recompute", recompute}, {"swap", swap}});
}

/// Stops a running sequence.
struct Preemption {
  SeqId seq;
  Preempt how = Preempt::recompute;
};

struct BatchDecision {
  std::vector<Preemption> preempt;
  std::vector<SeqId> resume;  ///< paused sequences that go on
  std::vector<Admission> admit;
  std::vector<Item> items;
  bool decode_rest = true;
  std::optional<std::int32_t> mode;    ///< switch the replica to another mode (parallel layout) first
  std::int64_t stable_iterations = 1;  ///< iterations for which the answer stays the same if nothing arrives or ends

  void clear() {
    preempt.clear();
    resume.clear();
    admit.clear();
    items.clear();
    decode_rest = true;
    mode.reset();
    stable_iterations = 1;
  }
};

/// stable_iterations of a decision that holds until something arrives or ends, or blocks run out.
inline constexpr std::int64_t kStable = std::numeric_limits<std::int64_t>::max();

/// Fixed facts of a replica.
struct ReplicaLimits {
  std::int64_t max_context = 0;  ///< most tokens a request may have, prompt and output together
  std::int32_t layers = 0;
  std::int64_t tier_tokens = 0;  ///< whose KV the tier that swapped sequences go to can hold; 0: there is none
};

/// A batch through all layers, in the terms its price depends on.
struct BatchSketch {
  std::int64_t decodes = 0;         ///< tokens of decodes (branches counted)
  std::int64_t decode_context = 0;  ///< tokens they attend to, the new ones included
  std::int64_t chunk_tokens = 0;    ///< new tokens of one prompt chunk …
  std::int64_t chunk_past = 0;      ///< … behind as many of its prompt
};

/// What iterations cost, for policies that keep to a target.
class BatchPricer {
 public:
  virtual ~BatchPricer() = default;
  /// Time of such an iteration in ps, host included. Costs a call of the device model.
  virtual std::int64_t time_ps(const BatchSketch& sketch) const = 0;
};

/// Time in ps that a request of so many prompt tokens, `past` of which are in the cache, and `output` tokens takes with
/// nobody beside it: its prompt in one iteration, then a token an iteration at the context half-way. At most two calls
/// of the device model.
inline std::int64_t alone_ps(const BatchPricer& pricer, std::int64_t prompt, std::int64_t past, std::int64_t output) {
  past = std::clamp<std::int64_t>(past, 0, std::max<std::int64_t>(0, prompt - 1));
  std::int64_t time = pricer.time_ps({.chunk_tokens = std::max<std::int64_t>(1, prompt - past), .chunk_past = past});
  if (output > 1) time += (output - 1) * pricer.time_ps({.decodes = 1, .decode_context = prompt + output / 2});
  return time;
}

/// What a policy may know. Valid during the call only.
struct BatchView {
  sim::Time now;
  std::span<const SeqId> running;       ///< by turn; the phase tells prefill, decode and pause apart
  std::span<const SeqId> prefilling;    ///< those of `running` in prefill, by turn
  const std::deque<SeqId>& waiting;     ///< front first: arrivals at the back, preempted sequences at the front
  std::span<const Sequence> sequences;  ///< indexed by SeqId
  const KvView& kv;
  std::int64_t clock = 0;           ///< decode clock, see Sequence
  std::int64_t decoding = 0;        ///< how many of `running` are in decode
  std::int64_t decode_tokens = 0;   ///< new tokens if all of them take one step (branches counted)
  std::int64_t growth_blocks = 0;   ///< blocks that this step would take
  std::int64_t decode_context = 0;  ///< tokens that they would attend to, the new ones included
  std::int32_t mode = 0;
  ReplicaLimits limits;
  const BatchPricer* pricer = nullptr;  ///< null: nobody knows (on paper)
  std::int64_t ps_per_tick = 1;

  const Sequence& operator[](SeqId id) const { return sequences[id.index]; }
  std::int64_t kv_tokens(SeqId id) const { return (*this)[id].kv_tokens(clock); }
  std::int64_t generated(SeqId id) const { return (*this)[id].generated(clock); }
  /// Blocks that preempting `id` makes available, its share of growth_blocks included in neither.
  std::int64_t blocks_of(SeqId id) const {
    const std::int64_t held = kv.held_blocks(id);
    return holds(id, held) - held + kv.releasable_blocks(id);
  }
  /// Its share of growth_blocks: blocks `id` needs for one more token, if it decodes.
  std::int64_t growth_of(SeqId id) const {
    const Sequence& seq = (*this)[id];
    if (seq.phase != Phase::decode) return 0;
    const std::int64_t missing = kv.blocks_of(seq, seq.kv_tokens(clock) + 1) - holds(id, kv.held_blocks(id));
    return missing > 0 ? missing : 0;
  }
  /// Blocks `id` holds now, of which the cache knows `held`.
  std::int64_t holds(SeqId id, std::int64_t held) const {
    const Sequence& seq = (*this)[id];
    return std::max(held, kv.blocks_of(seq, seq.kv_tokens(clock)));
  }
  /// Iterations of decodes alone (at least 1) in which they take no more blocks than are free, so that what the cache
  /// keeps of waiting prompts stays as it is: as it goes, so may the blocks that their first chunk takes, and who fits.
  std::int64_t until_eviction() const {
    if (waiting.empty() || !kv.keeps_prefixes()) return kStable;
    const std::int64_t each = kv.free_blocks() / std::max<std::int64_t>(1, decode_tokens);
    std::int64_t steps = 1;
    while (steps < (std::int64_t{1} << 40) && kv.blocks_for(2 * steps) <= each) steps *= 2;
    return steps;
  }
  /// Tokens that a waiting sequence still has to compute if it is admitted now.
  std::int64_t to_compute(SeqId id) const {
    const Sequence& seq = (*this)[id];
    std::int64_t there = seq.ready_tokens;
    if (kv.keeps_prefixes() && seq.text != nullptr) there = std::max(there, kv.match_prefix(seq));
    return seq.prefill_tokens - std::min(there, seq.prefill_tokens - 1);
  }
};

class Batching {
 public:
  virtual ~Batching() = default;
  /// Fills `out`, which comes cleared.
  virtual void decide(const BatchView& view, BatchDecision& out) = 0;
  /// Why a request can never be scheduled, or nothing: asked once, when it arrives.
  virtual std::optional<std::string_view> reject(const Sequence&, const KvView&, const ReplicaLimits&) const {
    return std::nullopt;
  }
};

using BatchingRegistry = sim::Registry<Batching>;

/// Adds every batching policy of this folder (register.cpp: one line a policy).
void register_batching_policies(BatchingRegistry& registry);

}  // namespace orrery::policies
