// Expressions as a flat program: what is evaluated often is compiled once.
//
// Common subexpressions (also across outputs) become one node; nodes stand in the order of evaluation and share
// registers as they die. A batch is evaluated node by node over blocks of columns, so that the work per node is a loop
// over points that vectorises. Arithmetic is 64-bit; every node is checked for overflow over the batch (one flag a
// column, std::overflow_error at the end), so that a partial sum past 64 bits is refused where SymExpr::eval, which
// sums in 128, still has a value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/sym/expr.hpp"

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

  /// One point. Does not allocate (but once a thread for a program of more than 1,024 live values). Throws
  /// std::overflow_error, std::domain_error (a divisor not > 0).
  void evaluate(std::span<const std::int64_t> values, std::span<std::int64_t> out) const;
  /// `points` points: input i of point p is values[i * points + p], output o is out[o * points + p]. Throws as evaluate
  /// does if any point would; `out` is then undefined.
  void evaluate_batch(std::size_t points, std::span<const std::int64_t> values, std::span<std::int64_t> out) const;

 private:
  enum class Code : std::uint8_t {
    constant,         ///< constant
    add,              ///< a + b
    sub,              ///< a - b
    mul,              ///< a * b
    min,              ///< min(a, b)
    max,              ///< max(a, b)
    floor_div,        ///< floor(a / b)
    ceil_div,         ///< ceil(a / b)
    add_const,        ///< a + constant
    mul_const,        ///< a * constant
    add_scaled,       ///< a + b * constant
    floor_div_const,  ///< floor(a / constant)
    ceil_div_const,   ///< ceil(a / constant)
    floor_shift,      ///< floor(a / 2^constant)
    ceil_shift        ///< ceil(a / 2^constant)
  };
  struct Instruction {
    Code code = Code::constant;
    std::int32_t a = 0, b = -1;  ///< registers read (b: a, where one operand is enough): inputs, then those of results
    std::int32_t to = 0;         ///< register written
    std::int64_t constant = 0;
  };
  /// What went wrong at any point: the sign bit of `overflow`, `divisor` not zero.
  struct Faults {
    std::int64_t overflow = 0, divisor = 0;
  };
  class Compiler;

  /// Lets results share registers: each is free after its last reader.
  void assign_registers();
  template <class Count>
  static void run(const Instruction& op, Count points, const std::int64_t* a, const std::int64_t* b, std::int64_t* to,
                  Faults& faults);
  static void refuse(const Faults& faults);

  std::size_t inputs_ = 0, registers_ = 0;  ///< registers of inputs included
  std::vector<Instruction> code_;
  std::vector<std::int32_t> outputs_;  ///< registers
};

}  // namespace orrery::models
