// What a batching policy may know when it decides: the state of a replica as data, and what follows from it as
// functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "policies/base/types.hpp"
#include "policies/kvcache/kvcache.hpp"

namespace orrery::policies {

/// stable_iterations of a decision that holds until something arrives or ends, or blocks run out.
inline constexpr std::int64_t kStable = std::numeric_limits<std::int64_t>::max();

/// Fixed facts of a replica.
struct ReplicaLimits {
  std::int64_t max_context = 0;  ///< most tokens a request may have, prompt and output together
  std::int32_t layers = 0;
  std::int64_t tier_tokens = 0;  ///< whose KV the tier that swapped sequences go to can hold; 0: there is none
  std::int64_t batches = 1;      ///< in flight at most, of one scheduler
  std::int32_t modes = 0;        ///< that it may be switched between; 0: nobody says
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

/// Which experts tokens to come will choose, where a router says so before they are computed (Read-ME's pre-gating).
class ExpertForesight {
 public:
  virtual ~ExpertForesight() = default;
  /// Of tokens [first, first + tokens) of a sequence, prompt and output: the best expert in the first layer that has
  /// experts.
  virtual void chosen(SeqId id, std::int64_t first, std::int64_t tokens, std::vector<std::uint16_t>& out) const = 0;
};

struct BatchView;

/// Blocks that `id` holds now, of which the cache knows `held`.
std::int64_t blocks_held(const BatchView& view, SeqId id, std::int64_t held);
/// Blocks that preempting `id` makes available, its share of growth_blocks included in neither.
std::int64_t blocks_freed(const BatchView& view, SeqId id);
/// Its share of growth_blocks: blocks `id` needs for one more token, if it decodes.
std::int64_t blocks_grown(const BatchView& view, SeqId id);
/// Iterations of decodes alone (at least 1) in which they take no more blocks than are free, so that what the cache
/// keeps of waiting prompts stays as it is: as it goes, so may the blocks that their first chunk takes, and who fits.
std::int64_t steps_until_eviction(const BatchView& view);
/// Tokens that a waiting sequence still has to compute if it is admitted now.
std::int64_t tokens_to_compute(const BatchView& view, SeqId id);

/// Valid during the call only. In a pipelined replica it shows the sequences of one lane, which is between two batches,
/// the whole queue and the whole cache; of other lanes it tells how many sequences run there. Counts of a sequence that
/// is not shown are not to be read.
struct BatchView {
  sim::Time now;
  std::span<const SeqId> running;       ///< by turn; the phase tells prefill, decode and pause apart
  std::span<const SeqId> prefilling;    ///< those of `running` in prefill, by turn
  const std::deque<SeqId>& waiting;     ///< front first: arrivals at the back, preempted sequences at the front
  std::span<const Sequence> sequences;  ///< indexed by SeqId
  const KvView& kv;
  std::int64_t clock = 0;             ///< decode clock, see Sequence
  std::int64_t decoding = 0;          ///< how many of `running` are in decode
  std::int64_t decode_tokens = 0;     ///< new tokens if all of them take one step (branches counted)
  std::int64_t growth_blocks = 0;     ///< blocks that this step would take
  std::int64_t decode_context = 0;    ///< tokens that they would attend to, the new ones included
  std::int64_t elsewhere = 0;         ///< sequences that run in other lanes
  std::int64_t elsewhere_tokens = 0;  ///< of their caches, prompts counted whole; told only where there are modes
  std::int32_t mode = 0;
  ReplicaLimits limits;
  const BatchPricer* pricer = nullptr;       ///< null: nobody knows (on paper)
  const ExpertForesight* experts = nullptr;  ///< null: nobody knows what tokens will choose
  std::int64_t ps_per_tick = 1;

  const Sequence& operator[](SeqId id) const { return sequences[id.index]; }
  /// Sequences that run, in this lane and in others.
  std::int64_t live() const { return std::ssize(running) + elsewhere; }
  std::int64_t kv_tokens(SeqId id) const { return (*this)[id].kv_tokens(clock); }
  std::int64_t generated(SeqId id) const { return (*this)[id].generated(clock); }
  // The functions above by the names that plug-ins know them by.
  std::int64_t blocks_of(SeqId id) const { return blocks_freed(*this, id); }
  std::int64_t growth_of(SeqId id) const { return blocks_grown(*this, id); }
  std::int64_t holds(SeqId id, std::int64_t held) const { return blocks_held(*this, id, held); }
  std::int64_t until_eviction() const { return steps_until_eviction(*this); }
  std::int64_t to_compute(SeqId id) const { return tokens_to_compute(*this, id); }
};

inline std::int64_t blocks_held(const BatchView& view, SeqId id, std::int64_t held) {
  const Sequence& seq = view[id];
  return std::max(held, view.kv.blocks_of(seq, seq.kv_tokens(view.clock)));
}

inline std::int64_t blocks_freed(const BatchView& view, SeqId id) {
  const std::int64_t held = view.kv.held_blocks(id);
  return blocks_held(view, id, held) - held + view.kv.releasable_blocks(id);
}

inline std::int64_t blocks_grown(const BatchView& view, SeqId id) {
  const Sequence& seq = view[id];
  if (seq.phase != Phase::decode) return 0;
  const std::int64_t needed = view.kv.blocks_of(seq, seq.kv_tokens(view.clock) + 1);
  return std::max<std::int64_t>(0, needed - blocks_held(view, id, view.kv.held_blocks(id)));
}

inline std::int64_t steps_until_eviction(const BatchView& view) {
  if (view.waiting.empty() || !view.kv.keeps_prefixes()) return kStable;
  const std::int64_t each = view.kv.free_blocks() / std::max<std::int64_t>(1, view.decode_tokens);
  std::int64_t steps = 1;
  while (steps < (std::int64_t{1} << 40) && view.kv.blocks_for(2 * steps) <= each) steps *= 2;
  return steps;
}

inline std::int64_t tokens_to_compute(const BatchView& view, SeqId id) {
  const Sequence& seq = view[id];
  std::int64_t there = seq.ready_tokens;
  if (view.kv.keeps_prefixes() && seq.text != nullptr) there = std::max(there, view.kv.match_prefix(seq));
  return seq.prefill_tokens - std::min(there, seq.prefill_tokens - 1);
}

}  // namespace orrery::policies
