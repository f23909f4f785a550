// Time of an iteration of a decoder on a device, tabulated: a device model sampled once, then looked up.
//
// The ops of a decoder with a cache (dimensions `batch`, `tokens`, `past`) fall into four kinds by what their work
// depends on: on nothing, on sequences alone (the head), on new tokens (dense ops), on cached tokens (attention). The
// first is a number; the head and dense ops are tables by rows, attention is a table by (sequences, mean context) for
// decodes and by (tokens, past) for a chunk of a prompt. Knots stand at every integer up to a power of two and at a
// fixed number per octave above it; between knots values are linear, in integers, so that equal batches cost the same
// on every host. A batch of decodes and chunks is the sum of its parts; several chunks are
// priced as so many equal ones, launched one by one. Left out: waves between knots of attention, contexts that differ
// within a batch, collectives beside `price_transfer`.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/graph/graph_lowering.hpp"
#include "models/transformer/batch_dims.hpp"

namespace orrery::models {

/// Knots of a quantity >= 0: x < 2^(bits + 1) is knot x, above that 2^bits knots an octave.
class KnotAxis {
 public:
  /// Knots up to the first one >= `top`.
  KnotAxis(int bits, std::int64_t top);
  struct Place {
    std::size_t knot = 0;
    std::int64_t past = 0;  ///< distance from the knot
    int shift = 0;          ///< the next knot is 2^shift away
  };
  /// Of x in [0, top()]; what is above has no place (std::out_of_range).
  Place place(std::int64_t x) const;
  std::int64_t knot(std::size_t i) const;
  std::size_t size() const { return size_; }
  std::int64_t top() const { return top_; }

 private:
  int bits_;
  std::int64_t top_ = 0;
  std::size_t size_ = 0;
};

class IterationTable {
 public:
  /// Largest sizes that have a place.
  struct Limits {
    std::int64_t tokens = 8'192;                              ///< new tokens of a batch
    std::int64_t sequences = 512;                             ///< that decode, or whose next token is computed
    std::int64_t context = 131'072;                           ///< of one sequence
    int dense_bits = 8, sequence_bits = 7, context_bits = 4;  ///< knots, see KnotAxis
  };
  /// Time of a launch in ps.
  using KernelPrice = std::function<std::int64_t(const hw::Kernel&)>;
  using TransferPrice = std::function<std::int64_t(const GraphTransfer&)>;

  /// Samples every distinct op of the graph at the knots. Throws GraphError for a graph that has not the dimensions
  /// `batch`, `tokens` and `past`, or others besides; std::overflow_error for an iteration past 2^46 ps (70 s).
  IterationTable(const OpGraph& graph, const KernelPrice& price, const TransferPrice& price_transfer,
                 const Limits& limits);

  /// Time of one iteration in ps. Does not allocate. Throws std::out_of_range past the limits.
  std::int64_t time_ps(const BatchDims& batch) const;
  /// Values sampled.
  std::size_t samples() const;

 private:
  struct Sampler;
  /// Bilinear between the knots of two axes; `along` is in units of 2^-16 of the way to the next knot.
  std::int64_t between(const std::vector<std::int64_t>& table, const KnotAxis::Place& row, std::size_t column,
                       std::int64_t along) const;

  KnotAxis rows_, sequences_, chunk_, context_;
  std::int64_t fixed_ = 0;
  std::vector<std::int64_t> dense_, head_;      ///< by rows, by sequences
  std::vector<std::int64_t> decode_, prefill_;  ///< by (sequences, context), by (chunk, context): row major
};

}  // namespace orrery::models
