// The canonical form behind SymExpr, for the files that work on it (arithmetic, functions, bounds, compilation).
//
// An expression that is not a constant is a Node: a sum of terms, each a coefficient times powers of atoms, an atom
// being a dimension or a call of one of four functions. Factors of a term ascend by atom (dimensions by name, then
// calls), each once; terms descend in the lexicographic order of monomials that this gives (higher powers of earlier
// atoms first, the constant last), each monomial once, no coefficient zero. The order is compatible with products: a
// term times a sorted sum is sorted.
#pragma once

#include <boost/container/small_vector.hpp>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "models/sym/expr.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {

enum class SymFunction : std::uint8_t { floor_div, ceil_div, min, max };
constexpr auto enum_names(SymFunction) {
  using enum SymFunction;
  return sim::names<SymFunction>({{"floor_div", floor_div}, {"ceil_div", ceil_div}, {"min", min}, {"max", max}});
}

/// A function of canonical arguments: {a, b} of quotients, two or more ascending ones of minima and maxima.
struct SymCall {
  SymFunction function;
  std::vector<SymExpr> arguments;
};

using SymAtom = std::variant<Symbol, std::shared_ptr<const SymCall>>;
std::strong_ordering compare_atoms(const SymAtom& a, const SymAtom& b);

struct SymFactor {
  SymAtom atom;
  std::uint32_t exponent = 1;
};
using SymMonomial = boost::container::small_vector<SymFactor, 2>;
/// less: `a` stands before `b` in a sum.
std::strong_ordering compare_monomials(const SymMonomial& a, const SymMonomial& b);
SymMonomial multiply(const SymMonomial& a, const SymMonomial& b);

struct SymTerm {
  SymMonomial factors;
  std::int64_t coefficient = 0;
};
using SymTerms = boost::container::small_vector<SymTerm, 1>;

struct SymExpr::Node {
  SymTerms terms;
};

/// The way into an expression's form and back.
struct SymAccess {
  /// The terms; of a constant, one without factors (none for 0).
  static SymTerms terms(const SymExpr& expr);
  /// The same without a copy; empty for every constant.
  static std::span<const SymTerm> node_terms(const SymExpr& expr);
  /// From terms in canonical order.
  static SymExpr make(SymTerms terms);
  static SymExpr make(const SymTerm& term);
  static SymExpr make(const SymAtom& atom, std::uint32_t exponent = 1);
  /// The call of an expression that is nothing but one.
  static const SymCall* call(const SymExpr& expr);
  /// `function` of canonical arguments as it stands, without rules.
  static SymExpr make_call(SymFunction function, std::vector<SymExpr> arguments);
  /// `function` with its rules; two arguments or more.
  static SymExpr apply(SymFunction function, std::span<const SymExpr> arguments);
};

/// expr^exponent. Throws std::overflow_error.
SymExpr power(const SymExpr& expr, std::uint32_t exponent);

/// True if proven >= 0 for all sizes that `facts` allow.
bool provably_nonnegative(const SymExpr& expr, const Facts& facts = {});

// Exact arithmetic that throws std::overflow_error where a value does not fit 64 bits (products of evaluation: 128).
[[noreturn]] void throw_sym_overflow();
std::int64_t checked_sum(std::int64_t a, std::int64_t b);
std::int64_t checked_product(std::int64_t a, std::int64_t b);
std::int64_t narrowed(__int128 value);

/// Quotients of numbers for a divisor > 0.
template <class Int>
constexpr Int floor_quotient(Int a, Int b) {
  return a >= 0 ? a / b : (a + 1) / b - 1;
}
template <class Int>
constexpr Int ceil_quotient(Int a, Int b) {
  return a > 0 ? (a - 1) / b + 1 : a / b;
}

}  // namespace orrery::models
