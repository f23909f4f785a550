// What the decisions about serving share: the state of a sequence in a replica, and handles to it.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/units.hpp"
#include "traces/asked.hpp"

namespace orrery::policies {

/// Handle of a sequence inside one replica; slots are used again after a sequence leaves.
struct SeqId {
  std::uint32_t index = 0;
  friend constexpr auto operator<=>(SeqId, SeqId) = default;
};

enum class Phase : std::uint8_t {
  waiting,  ///< in the queue, without cache of its own
  prefill,  ///< runs; tokens are left to prefill before the next one is emitted
  decode,   ///< runs; a token an iteration
  paused    ///< keeps its cache, takes no part in iterations until resumed
};
constexpr auto enum_names(Phase) {
  using enum Phase;
  return sim::names<Phase>({{"waiting", waiting}, {"prefill", prefill}, {"decode", decode}, {"paused", paused}});
}

/// A piece of text: the first `tokens` tokens of the stream of text called `id`. Equal ids are equal text.
struct TextSpan {
  std::uint64_t id = 0;
  std::int64_t tokens = 0;
  friend constexpr bool operator==(const TextSpan&, const TextSpan&) = default;
};
/// What a prompt says, as spans one after the other; what two texts share is the equal spans at their heads, and of
/// the first pair that differs, the shorter length if the ids are the same. Empty: like no other text.
using Text = std::vector<TextSpan>;

/// Tokens at the head of both texts.
std::int64_t common_tokens(const Text& a, const Text& b);

/// A request on its way through a replica. Policies read it; only the replica writes it. A decoding sequence grows by
/// one token in every step of the replica's decode clock, all alike, so its counts are kept as of `since`: read them
/// through BatchView (kv_tokens(), generated()), or through the two functions below.
struct Sequence : traces::Asked {
  std::int64_t order = 0;  ///< arrival number at the replica: FCFS order, unique
  std::int64_t turn = 0;   ///< number of its latest admission: whoever runs is served by it, unique among them
  sim::Time arrived;
  std::int64_t prefill_tokens = 0;  ///< tokens to prefill before the next one is emitted: prompt, and after a
                                    ///< preemption what had been generated too
  std::int64_t prefilled = 0;       ///< of these, how many went through all layers (or were found in the cache)
  std::int64_t ready_tokens = 0;    ///< of a waiting sequence: tokens whose KV comes with it (swapped out, migrated,
                                    ///< prefilled elsewhere); fewer than prefill_tokens
  std::int64_t cached_tokens = 0;   ///< of the prompt, found in the cache at the first admission
  std::int64_t chunk_tokens = 0;    ///< tokens of the chunk that is part-way through the layers; 0: none is
  std::int64_t since = 0;           ///< decode clock at which the two counts below were right
  std::int64_t kv_then = 0;         ///< tokens whose keys and values are in the cache
  std::int64_t generated_then = 0;  ///< output tokens emitted
  const Text* text = nullptr;       ///< what the prompt says (and the output after it, as far as it is named)
  std::int32_t layers_done = 0;     ///< layers that chunk has passed (layer-wise prefill)
  std::int32_t preemptions = 0;
  Phase phase = Phase::waiting;
  bool steady = false;  ///< in the group that takes one token a step of the decode clock

  std::int64_t prefill_left() const { return prefill_tokens - prefilled; }
  /// Tokens in the cache, and tokens emitted, when the replica's decode clock shows `clock`.
  std::int64_t kv_tokens(std::int64_t clock) const { return kv_then + (steady ? clock - since : 0); }
  std::int64_t generated(std::int64_t clock) const { return generated_then + (steady ? clock - since : 0); }
};

}  // namespace orrery::policies
