// From operators to kernels: binds a batch to the operators of a rank.
//
// Each function appends the launches of its part for one layer (or one pass of an edge); what has no work for the batch
// is not launched. Dense parts depend on the number of tokens alone (and, with experts, on where they come from:
// TokenMix) and attention on its sums alone, so that a caller can tabulate them apart; lower_layer is the two together,
// in the order of execution. `kind` is an index into Transformer::kinds: layers of a kind cost alike. Nothing is
// allocated while the vectors of `out` have room. Throws std::overflow_error for a batch whose bytes do not fit 64
// bits.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/base/kernel.hpp"
#include "models/transformer/batch_dims.hpp"
#include "models/transformer/transformer.hpp"

namespace orrery::models {

/// One collective of a rank, among `ranks`.
struct Communication {
  Collective kind = Collective::all_reduce;
  hw::OpClass op = hw::OpClass::all_reduce;  ///< where its time is booked
  std::int64_t bytes = 0;                    ///< as models::CollectiveShape has them
  std::int64_t ranks = 1;
  std::size_t after = 0;  ///< kernels of the same Launches that precede it
};

/// What a rank executes, in order.
struct Launches {
  std::vector<hw::Kernel> kernels;
  std::vector<Communication> communications;
  void clear() {
    kernels.clear();
    communications.clear();
  }
};

/// What the rank's experts get of a batch of which each group of attention_dp has `mix`; nothing without experts.
RoutedRows route(const Transformer& t, const TokenMix& mix);

/// One whole layer; experts get `batch.routed`, or, where that is empty, what route() says of its decodes and chunks.
void lower_layer(const Transformer& t, std::size_t kind, const BatchDims& batch, Launches& out);
/// Of one layer, everything but attention over the cache.
void lower_dense(const Transformer& t, std::size_t kind, const TokenMix& mix, Launches& out);
/// The same in two, of a kind with experts: all but what works on routed rows or exchanges them, and that, for rows
/// that somebody counted.
void lower_beside_experts(const Transformer& t, std::size_t kind, std::int64_t tokens, Launches& out);
void lower_experts(const Transformer& t, std::size_t kind, std::int64_t tokens, const RoutedRows& rows, Launches& out);
/// Of one layer, attention: a prefill and a decode kernel at most, and of latents what turns them into keys and values.
void lower_attention(const Transformer& t, std::size_t kind, const PrefillSums& prefill, const DecodeSums& decode,
                     Launches& out);

/// The same of the first kind: for models whose layers are alike. All `tokens` count as decodes.
void lower_layer(const Transformer& t, const BatchDims& batch, Launches& out);
void lower_dense(const Transformer& t, std::int64_t tokens, Launches& out);
void lower_attention(const Transformer& t, const PrefillSums& prefill, const DecodeSums& decode, Launches& out);

/// A layer that predicts a further token (DeepSeek's MTP), without the head: its projection, then a layer of the last
/// kind. Nothing for a model that has none.
void lower_mtp(const Transformer& t, const BatchDims& batch, Launches& out);

/// Before the first layer.
void lower_embedding(const Transformer& t, std::int64_t tokens, Launches& out);
/// After the last layer: final norm, head and sampling of `rows` positions.
void lower_head(const Transformer& t, std::int64_t rows, Launches& out);
/// The edges that a pipeline stage has: the embedding on the first, the head on the last.
void lower_edges(const Transformer& t, const BatchDims& batch, bool first, bool last, Launches& out);

/// FLOPs of matrix products and attention that the rank does for a batch: all layers and both edges.
std::int64_t matrix_flops(const Transformer& t, const BatchDims& batch);

}  // namespace orrery::models
