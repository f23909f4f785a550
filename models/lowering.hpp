// From operators to kernels: binds a batch to the operators of a rank.
//
// Each function appends the launches of its part for one layer (or one pass of an edge); what has no work for the batch
// is not launched. Dense parts depend on the number of tokens alone and attention on its sums alone, so that a caller
// can tabulate them apart; lower_layer is the two together, in the order of execution. Nothing is allocated while the
// vectors of `out` have room. Throws std::overflow_error for a batch whose bytes do not fit 64 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/kernel.hpp"
#include "models/batch_dims.hpp"
#include "models/transformer.hpp"

namespace orrery::models {

/// One collective of a rank, among all `ranks` of tensor parallelism.
struct Communication {
  Collective kind = Collective::all_reduce;
  hw::OpClass op = hw::OpClass::all_reduce;  ///< where its time is booked
  std::int64_t bytes = 0;                    ///< left on every rank
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

/// One whole layer.
void lower_layer(const Transformer& t, const BatchDims& batch, Launches& out);
/// Of one layer, everything but attention; `tokens` are all new tokens of the batch.
void lower_dense(const Transformer& t, std::int64_t tokens, Launches& out);
/// Of one layer, attention: at most a prefill and a decode kernel.
void lower_attention(const Transformer& t, const PrefillSums& prefill, const DecodeSums& decode, Launches& out);

/// Before the first layer.
void lower_embedding(const Transformer& t, std::int64_t tokens, Launches& out);
/// After the last layer: final norm, head and sampling of `rows` positions.
void lower_head(const Transformer& t, std::int64_t rows, Launches& out);
/// The edges that a pipeline stage has: the embedding on the first, the head on the last.
void lower_edges(const Transformer& t, const BatchDims& batch, bool first, bool last, Launches& out);

/// FLOPs of matrix products and attention that the rank does for a batch: all layers and both edges.
std::int64_t matrix_flops(const Transformer& t, const BatchDims& batch);

}  // namespace orrery::models
