// What one pass through a graph does, as a flat program over its dimensions: FLOPs, bytes and sizes of memory.
//
// A deep model repeats a few ops. Ops of one kind with equal shapes and attributes form a group with a multiplicity;
// the work of a group is derived once, the sums over groups are polynomials, and polynomials compile to one program
// (models/sym/expr_program.hpp) that gives all figures for given sizes in well under a microsecond, exactly: they equal
// total_work(). Live bytes are those of activations by lifetime in the order of ops, an op that writes into its first
// operand (kv_write) giving it no memory of its own; the steps between which no order is proven are all evaluated.
// Left out: fragmentation (policies/memory), workspaces of kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/op_work.hpp"
#include "models/sym/expr_program.hpp"

namespace orrery::models {

/// Ops that do the same work.
struct OpGroup {
  OpId first{};               ///< stands for all
  std::int64_t count = 0;     ///< how often
  OpWork work;                ///< of one
  std::vector<OpId> members;  ///< all of them, in order
};
/// Groups in the order of their first op; views and other ops without a launch are left out.
std::vector<OpGroup> group_ops(const OpGraph& graph);

/// Figures of one pass through a graph.
struct IterationWork {
  std::int64_t matrix_flops = 0, vector_flops = 0;
  std::int64_t read_bytes = 0, write_bytes = 0;
  std::int64_t parameter_bytes = 0;  ///< parameters and constants
  std::int64_t input_bytes = 0;      ///< inputs (caches among them) and state
  std::int64_t live_bytes = 0;       ///< most bytes of activations alive at once
  friend bool operator==(const IterationWork&, const IterationWork&) = default;
};

class IterationProgram {
 public:
  /// Throws GraphError as work() does.
  explicit IterationProgram(const OpGraph& graph);

  /// The dimensions that sizes are given for, in this order (of names).
  std::span<const Symbol> inputs() const { return inputs_; }
  const ExprProgram& program() const { return program_; }
  /// Steps of which any may be the one with most bytes alive.
  std::size_t live_candidates() const { return program_.outputs() - kSums; }

  /// Figures for sizes in the order of inputs(). Does not allocate. Throws as ExprProgram::evaluate.
  IterationWork evaluate(std::span<const std::int64_t> sizes) const;
  /// The same by name; throws UnboundSymbol.
  IterationWork evaluate(const Bindings& bindings) const;

 private:
  static constexpr std::size_t kSums = 6;          ///< outputs before those of live bytes
  static constexpr std::size_t kMaxOutputs = 256;  ///< of the program
  std::vector<Symbol> inputs_;
  ExprProgram program_;
};

}  // namespace orrery::models
