// Expressions as a flat program: what is evaluated often is compiled once.
//
// Common subexpressions (also across outputs) become one node; nodes stand in the order of evaluation. A batch is
// evaluated node by node over columns of values, so that the work per node is a loop over points that vectorises.
// Arithmetic is 64-bit; every node is checked for overflow over the batch (one flag a column, std::overflow_error at
// the end).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/sym_expr.hpp"

namespace orrery::models {

class ExprProgram {
 public:
  ExprProgram() = default;
  /// Compiles `outputs`. Inputs stand in the order of `inputs`; throws UnboundSymbol where a dimension is not in it.
  ExprProgram(std::span<const SymExpr> outputs, std::span<const Symbol> inputs);

  std::size_t inputs() const { return inputs_; }
  std::size_t outputs() const { return outputs_.size(); }
  /// Operations in the program: what a benchmark counts.
  std::size_t nodes() const { return code_.size(); }

  /// One point. Does not allocate. Throws std::overflow_error, std::domain_error (a divisor not > 0).
  void evaluate(std::span<const std::int64_t> values, std::span<std::int64_t> out) const;
  /// `points` points: input i of point p is values[i * points + p], output o is out[o * points + p].
  void evaluate_batch(std::size_t points, std::span<const std::int64_t> values, std::span<std::int64_t> out) const;

 private:
  enum class Code : std::uint8_t { constant, add, sub, mul, add_const, mul_const, floor_div, ceil_div, min, max };
  struct Instruction {
    Code code = Code::add;
    std::int32_t a = 0, b = 0;  ///< registers: inputs, then results of instructions
    std::int64_t constant = 0;
  };
  class Compiler;
  std::size_t inputs_ = 0;
  std::vector<Instruction> code_;
  std::vector<std::int32_t> outputs_;  ///< registers
};

}  // namespace orrery::models
