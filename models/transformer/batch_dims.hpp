// The sizes of a batch that determine its cost: sums over its sequences, in the terms of hw::AttentionPrefill and
// hw::AttentionDecode.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "models/sym/expr.hpp"
#include "models/transformer/router.hpp"

namespace orrery::models {

/// The sizes of a batch that expressions may name.
enum class Dim : std::uint8_t {
  tokens,        ///< T: all new tokens of the batch
  logit_rows,    ///< R: positions whose next token is computed
  query_tokens,  ///< Q: new tokens of prompt chunks
  kv_tokens,     ///< K: keys that chunks read: cached and new, summed over chunks
  pairs,         ///< P: pairs of query and key in chunks, causal
  sequences,     ///< S: sequences that decode one token
  context,       ///< C: cached tokens that decodes attend to, summed over sequences, the new ones included
  experts,       ///< E: experts of the rank with at least one row
  expert_rows    ///< X: rows that the router sends to them
};
inline constexpr std::size_t kDims = static_cast<std::size_t>(Dim::expert_rows) + 1;

/// The letters of all dimensions in expressions, in the order of Dim.
std::span<const Symbol, kDims> batch_symbols();
inline Symbol symbol(Dim dim) {
  return batch_symbols()[static_cast<std::size_t>(dim)];
}
inline SymExpr size_of(Dim dim) {
  return symbol(dim);
}

/// Values of all dimensions; those not set are 0.
class BatchSizes {
 public:
  BatchSizes();
  std::int64_t& operator[](Dim dim) { return values_[static_cast<std::size_t>(dim)].second; }
  std::int64_t operator[](Dim dim) const { return values_[static_cast<std::size_t>(dim)].second; }
  /// As SymExpr::eval takes them.
  std::span<const std::pair<Symbol, std::int64_t>> values() const { return values_; }

 private:
  std::array<std::pair<Symbol, std::int64_t>, kDims> values_;
};

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
  /// What a window of so many keys leaves of it, as if all chunks were alike; 0: no window.
  PrefillSums within(std::int64_t window) const {
    if (window == 0) return *this;
    PrefillSums sums = *this;
    sums.kv_tokens = std::min(kv_tokens, q_tokens + sequences * window);
    sums.pairs = std::min(pairs, q_tokens * window);
    return sums;
  }
  friend bool operator==(const PrefillSums&, const PrefillSums&) = default;
};

/// One new token a sequence over its context, summed over sequences; a context counts the new token.
struct DecodeSums {
  std::int64_t sequences = 0, context_tokens = 0;
  void add(std::int64_t context) {
    ++sequences;
    context_tokens += context;
  }
  /// What a window of so many keys leaves of it, as if all sequences were alike; 0: no window.
  DecodeSums within(std::int64_t window) const {
    if (window == 0) return *this;
    return {sequences, std::min(context_tokens, sequences * window)};
  }
  friend bool operator==(const DecodeSums&, const DecodeSums&) = default;
};

/// A whole batch.
struct BatchDims {
  std::int64_t tokens = 0;      ///< all new tokens, of chunks and of decodes
  std::int64_t logit_rows = 0;  ///< positions whose next token is computed
  PrefillSums prefill;
  DecodeSums decode;
  RoutedRows routed;  ///< what a rank's experts get of it; none for a model without experts

  BatchSizes bindings() const {
    BatchSizes b;
    b[Dim::tokens] = tokens;
    b[Dim::logit_rows] = logit_rows;
    b[Dim::query_tokens] = prefill.q_tokens;
    b[Dim::kv_tokens] = prefill.kv_tokens;
    b[Dim::pairs] = prefill.pairs;
    b[Dim::sequences] = decode.sequences;
    b[Dim::context] = decode.context_tokens;
    b[Dim::experts] = routed.experts;
    b[Dim::expert_rows] = routed.rows;
    return b;
  }
};

}  // namespace orrery::models
