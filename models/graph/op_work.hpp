// Work of an operator: FLOPs and compulsory traffic, symbolic or for given sizes, from one set of formulas.
//
// A tensor that an op reads is read once, whatever the number of uses; what it writes is written once. Views move
// nothing, and reading an expanded tensor reads what it was expanded from. Ops that touch a part of an operand
// (embedding, gather, kv_write …) read and write that part. A fused op does the FLOPs of its region and moves what
// enters and leaves it: per input the most that any op inside reads of it, so fusing never raises the bytes moved. A
// loss of several kernels (attribute `scratch`) moves what they hand on too.
//
// Products count 2 FLOPs a multiply-add. Attention counts as in hw/base/kernel.hpp (without the softmax); its gradient
// is five products where the forward pass is two, because the probabilities are computed again. Passes over memory
// count by the table of op_kinds.
#pragma once

#include "models/graph/op_graph.hpp"

namespace orrery::models {

struct OpWork {
  SymExpr matrix_flops;  ///< of products, convolutions and attention
  SymExpr vector_flops;  ///< of everything else
  SymExpr read_bytes, write_bytes;

  SymExpr flops() const { return matrix_flops + vector_flops; }
  SymExpr bytes() const { return read_bytes + write_bytes; }
  OpWork& operator+=(const OpWork& other);
};

/// Before sizes are known. Throws GraphError for an op whose operands make no sense.
OpWork work(const OpGraph& graph, OpId op);
/// For given sizes: every expression is a constant. Throws UnboundSymbol, std::overflow_error.
OpWork work(const OpGraph& graph, OpId op, const Bindings& bindings);

/// Of all ops.
OpWork total_work(const OpGraph& graph);
OpWork total_work(const OpGraph& graph, const Bindings& bindings);

/// True if the op runs no kernel: a view, or a region of views.
bool launches_nothing(const OpNode& op);
/// The tensor whose memory `tensor` shares: itself, or what views were made of.
TensorId storage_of(const OpGraph& graph, TensorId tensor);

/// A tensor's sizes for given bindings; all of them constants.
std::vector<std::int64_t> sizes(const OpGraph& graph, TensorId tensor, const Bindings& bindings);
/// Bytes of a tensor for given bindings.
std::int64_t bytes_of(const OpGraph& graph, TensorId tensor, const Bindings& bindings);

}  // namespace orrery::models
