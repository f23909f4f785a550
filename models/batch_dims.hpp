// The sizes of a batch that determine its cost: sums over its sequences, in the terms of hw::AttentionPrefill and
// hw::AttentionDecode.
#pragma once

#include <cstdint>

#include "models/batch_poly.hpp"

namespace orrery::models {

/// Query rows that one tile of a prefill attention kernel covers (see hw::AttentionPrefill::q_tiles).
inline constexpr std::int64_t kQueryTile = 128;

/// New tokens of prompt chunks over their cached context, summed over chunks.
struct PrefillSums {
  std::int64_t sequences = 0, q_tokens = 0, kv_tokens = 0, pairs = 0, q_tiles = 0;

  /// Adds a chunk of `new_tokens` that attends, causally, to itself and to `past` tokens before it.
  void add(std::int64_t new_tokens, std::int64_t past) {
    ++sequences;
    q_tokens += new_tokens;
    kv_tokens += past + new_tokens;
    pairs += new_tokens * past + new_tokens * (new_tokens + 1) / 2;
    q_tiles += (new_tokens + kQueryTile - 1) / kQueryTile;
  }
};

/// One new token a sequence over its context, summed over sequences; a context counts the new token.
struct DecodeSums {
  std::int64_t sequences = 0, context_tokens = 0;
  void add(std::int64_t context) {
    ++sequences;
    context_tokens += context;
  }
};

/// A whole batch.
struct BatchDims {
  std::int64_t tokens = 0;      ///< all new tokens, of chunks and of decodes
  std::int64_t logit_rows = 0;  ///< positions whose next token is computed
  PrefillSums prefill;
  DecodeSums decode;

  BatchSizes bindings() const {
    BatchSizes b;
    b[Dim::tokens] = tokens;
    b[Dim::logit_rows] = logit_rows;
    b[Dim::query_tokens] = prefill.q_tokens;
    b[Dim::kv_tokens] = prefill.kv_tokens;
    b[Dim::pairs] = prefill.pairs;
    b[Dim::sequences] = decode.sequences;
    b[Dim::context] = decode.context_tokens;
    return b;
  }
};

}  // namespace orrery::models
