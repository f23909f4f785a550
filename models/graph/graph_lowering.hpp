// From operators to kernels: what a device is asked to run for one op under given sizes.
//
// An op is one launch (an optimizer's step with the attribute `step_casts` up to three); a view is none; a loop is its
// region `trips` times; a branch is the side that its attribute `condition` (a size; not zero: the first region)
// selects. Products become Gemm (a weight of two dimensions folds the batch into rows), GroupedGemm (rows spread evenly
// over the active groups), Conv (gradients as products of the same work), Sparse, Fft and attention kernels; everything
// else is a pass over memory with the op's own FLOPs and bytes. A fused op with a product inside is hw::Fused, one
// without is a compiled pass. An elementwise op with a broadcast or sliced operand, and a cast to more bits, goes one
// by one (hw::Pass). Communication is listed apart.
#pragma once

#include <vector>

#include "hw/base/kernel.hpp"
#include "models/graph/op_graph.hpp"
#include "models/graph/op_work.hpp"

namespace orrery::models {

/// Pairs of query and key of a causal attention: the last `queries` of `keys` tokens, each over at most `window` keys
/// up to its own; 0: all before it.
std::int64_t causal_pairs(std::int64_t queries, std::int64_t keys, std::int64_t window);

/// One launch of an op.
struct GraphKernel {
  OpId op{};  ///< of the outermost graph
  hw::Kernel kernel;
  std::int64_t views = 0;  ///< ops before it that launch nothing
};

/// Bytes that an op sends, where it is a communication: attribute `ranks` says among how many.
struct GraphTransfer {
  OpId op{};
  OpKind kind = OpKind::all_reduce;
  std::int64_t bytes = 0, ranks = 1;
  std::size_t after = 0;  ///< kernels before it
};

struct GraphLaunches {
  std::vector<GraphKernel> kernels;
  std::vector<GraphTransfer> transfers;
  std::int64_t views_at_end = 0;
};

/// Kernels of a whole graph in order. Throws UnboundSymbol, GraphError, std::overflow_error.
GraphLaunches lower(const OpGraph& graph, const Bindings& bindings);
/// Appends those of one op.
void lower(const OpGraph& graph, OpId op, const Bindings& bindings, GraphLaunches& out);

}  // namespace orrery::models
