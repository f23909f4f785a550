// Loops: which units can share one, from how an output element depends on inputs (models/graph/op_kinds.hpp).
//
// A pointwise unit (elementwise, copy, rope, concat …) makes every element of its output once from one place of every
// operand; a row unit (reductions, softmax, norms) makes a row from a row; a product makes tiles of its output. Units
// share a loop if they run over the same number of elements, their domain: of the output for pointwise units and
// products, of the first input for row units. So nothing is ever computed twice; a small operand that is broadcast
// (a bias, a row's mean) is an operand of the loop, not a part of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "policies/fusion/launch_graph.hpp"

namespace orrery::policies {

enum class LoopRole : std::uint8_t { none, pointwise, row, product };
LoopRole loop_role(const models::OpNode& op);

/// Numbers for equal element counts: symbolic counts that are provably equal, or values under bindings.
class Domains {
 public:
  /// `bindings` null: counts as expressions under the graph's facts.
  Domains(const models::OpGraph& graph, const models::Bindings* bindings);
  std::int32_t of(models::TensorId tensor);

 private:
  const models::OpGraph& graph_;
  const models::Bindings* bindings_;
  std::vector<std::int32_t> known_;
  std::vector<std::pair<models::SymExpr, std::int32_t>> sorted_;
};

/// What a loop fuser knows of each unit.
struct Loop {
  LoopRole role = LoopRole::none;
  std::int32_t domain = -1;  ///< -1 for role none
  std::int32_t made = -1;    ///< domain of the first output: a reduction makes fewer elements than it reads
  std::int32_t rows = -1;    ///< of role row: equal for units whose rows are alike, so that they fit one loop
};
std::vector<Loop> loops_of(const models::OpGraph& graph, const LaunchGraph& launches, Domains& domains);

/// True if the two may be in one kernel at all: one phase, one target, one dialect.
bool same_place(const models::OpNode& a, const models::OpNode& b);

/// Bytes of every tensor that passes decide by; -1 where they are not needed. Throws models::UnboundSymbol.
std::vector<std::int64_t> tensor_bytes(const models::OpGraph& graph, const models::Bindings& bindings);

}  // namespace orrery::policies
