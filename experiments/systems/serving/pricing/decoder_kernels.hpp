// What one rank of a decoder launches for a batch, part by part: the model's own list of kernels
// (models/transformer), or an operator graph (graph_kernels).
//
// Layers that launch alike are of one kind. The parts are such that each depends on little and can be kept: the dense
// part of a layer on the tokens and where they come from, attention on its sums, the edges on a number of rows.
// Together they are the iteration; each function appends to `out`.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/transformer/lowering.hpp"

namespace orrery::experiments {

class DecoderKernels {
 public:
  virtual ~DecoderKernels() = default;
  /// Kind of each layer, from 0.
  virtual const std::vector<std::int32_t>& kind_of() const = 0;
  /// Whether the dense part of a kind depends on where the tokens come from (experts), not on their number alone.
  virtual bool by_mix(std::size_t kind) const = 0;
  /// Ranks that do the same at once.
  virtual std::int64_t ranks() const = 0;
  /// Those of them that share every layer; the others are other lanes.
  virtual std::int64_t tensor_parallel() const { return ranks(); }

  /// Of one layer, everything but attention over the cache.
  virtual void dense(std::size_t kind, const models::TokenMix& mix, models::Launches& out) const = 0;
  /// The same in two, of a kind by_mix() with rows that somebody counted: what does not depend on them, and the
  /// products of its experts.
  virtual void beside_experts(std::size_t kind, std::int64_t tokens, models::Launches& out) const = 0;
  virtual void experts(std::size_t kind, std::int64_t tokens, const models::RoutedRows& rows,
                       models::Launches& out) const = 0;
  /// Of one layer, attention.
  virtual void attention(std::size_t kind, const models::PrefillSums& prefill, const models::DecodeSums& decode,
                         models::Launches& out) const = 0;
  /// Before the first layer.
  virtual void embedding(std::int64_t tokens, models::Launches& out) const = 0;
  /// For the positions whose next token is computed.
  virtual void head(std::int64_t rows, models::Launches& out) const = 0;
  /// Behind the last layer, for every token; false where there is nothing.
  virtual bool has_ending() const { return false; }
  virtual void ending(std::int64_t /*tokens*/, models::Launches& /*out*/) const {}
};

/// The model's own kernels.
std::unique_ptr<DecoderKernels> model_kernels(models::Transformer transformer);

}  // namespace orrery::experiments
