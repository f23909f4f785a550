// Reverse-mode differentiation: from the forward graph of a model to the graph of one training step.
//
// The new graph holds the forward ops, a loss, for every forward op on the way from a parameter to the loss its
// backward ops, and an optimizer step for each parameter. Backward ops stand in the reverse order of what they
// differentiate, so gradients die early. A tensor that several ops read gets one gradient, their contributions summed
// (add_n); gradients have the shape and type of what they belong to. Forward ops give what their gradient reads:
// normalisations their mean and reciprocal deviation, attention the logarithm of its row sums, dropout its mask; such a
// tensor, and every activation that a backward op reads, is marked `saved`. Sizes stay symbolic. What is assumed of
// each kind of op and what its gradient is made of stands in docs/explain/autodiff.md. Left out: forward mode, second
// derivatives, gradients through loops and branches (GraphError), of integers (none).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {

/// What is minimised. `automatic`: the outputs that are single numbers; where there are none, cross entropy of all
/// floating outputs against integer labels (an input "labels" of their shape without the last size). `nll`: the same as
/// two ops, a log softmax and the likelihood of the labels, which is what PyTorch runs; it keeps one tensor more.
enum class LossKind : std::uint8_t { automatic, cross_entropy, nll, mean_square, sum };
constexpr auto enum_names(LossKind) {
  using enum LossKind;
  return sim::names<LossKind>({{"automatic", automatic},
                               {"cross_entropy", cross_entropy},
                               {"nll", nll},
                               {"mean_square", mean_square},
                               {"sum", sum}});
}

enum class OptimizerKind : std::uint8_t { none, sgd, sgd_momentum, adam, adamw };
constexpr auto enum_names(OptimizerKind) {
  using enum OptimizerKind;
  return sim::names<OptimizerKind>(
      {{"none", none}, {"sgd", sgd}, {"sgd_momentum", sgd_momentum}, {"adam", adam}, {"adamw", adamw}});
}

struct AutodiffOptions {
  LossKind loss = LossKind::automatic;
  std::vector<TensorId> outputs;  ///< that the loss is of; empty: all floating ones that depend on parameters
  OptimizerKind optimizer = OptimizerKind::adamw;
  bool fused_step = false;      ///< one optimizer step for all parameters in place of one each
  bool master_weights = false;  ///< 16-bit parameters are updated through a copy in fp32, held as state
  /// Of the casts that this takes, those that are kernels of their own: 0: none; 1: of weights, back into 16 bits;
  /// 2: of gradients too, into fp32.
  std::int64_t step_casts = 0;
};

struct TrainingGraph {
  OpGraph graph;
  TensorId loss{};
  /// Parameters (in order) and their gradients, tensors of `graph`.
  std::vector<std::pair<TensorId, TensorId>> gradients;
  /// Parameters that the loss does not depend on: no gradient, no step.
  std::vector<TensorId> unreached;
};

/// Throws GraphError: an op on the way that has no gradient rule (named with its kind), nothing to differentiate.
TrainingGraph differentiate(const OpGraph& forward, const AutodiffOptions& options = {});

/// True if ops of the kind can be differentiated; gradients end at kinds that only decide (compare, sampling).
bool has_gradient(OpKind kind);

/// Sets `saved` on the forward activations that backward and optimizer ops read (on what owns the memory, where they
/// read a view) and clears it on all others. Passes that change a training graph call it again.
void mark_saved(OpGraph& graph);

}  // namespace orrery::models
