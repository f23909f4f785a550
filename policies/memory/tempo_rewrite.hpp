// Rewrites of saved tensors: what a layer keeps for its backward pass, replaced by something smaller.
//
//   GELU           keeps output and a mask of one byte (which branch of the inverse) in place of the input
//   layer norm     differentiates from its output and 1/deviation in place of its input and the mean
//   attention      keeps softmax output, dropout mask and values; the dropout's output is made again (one pass)
// Source: Tempo (docs/explain/tempo.md): InplaceGelu, InplaceLayerNorm, Combined. A rewrite is made only where it
// frees the tensor: nothing else in the backward pass may read it.
#pragma once

#include <string>

#include "models/graph/op_graph.hpp"

namespace orrery::policies {

struct TempoRewrites {
  bool gelu = true, norm = true, attention = true;
  std::int64_t scopes = -1;      ///< layers that are rewritten, from the first; -1: all
  std::string layer = "layer.";  ///< how the scope of a layer begins; what has no layer is rewritten with all only
};

struct TempoCounts {
  std::int64_t gelus = 0, norms = 0, attentions = 0;
  std::int64_t all() const { return gelus + norms + attentions; }
};

/// The graph with its saved tensors rewritten. Throws models::GraphError for a graph without a backward pass.
models::OpGraph rewrite_saved_tensors(const models::OpGraph& graph, const TempoRewrites& rewrites, TempoCounts& counts);

/// Number of a scope's layer; -1 for none.
std::int64_t layer_of(std::string_view scope, std::string_view prefix);

}  // namespace orrery::policies
