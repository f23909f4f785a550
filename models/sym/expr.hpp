// Symbolic sizes: exact integer expressions over named dimensions, known before any shape is.
//
// A SymExpr is a polynomial with integer coefficients over atoms. An atom is a named dimension (`batch`, `tokens`) or
// one of four functions of expressions: floor_div, ceil_div, min, max. Every expression is kept in one canonical form
// (terms sorted by name, no zero coefficients; arguments of functions canonical, sorted where order does not matter,
// simplified where a rule is exact), so that equal forms compare equal and print alike; the order depends on names
// only, never on when a name was first used. Rules of the functions:
//   floor_div(a*q, q) = a     floor_div(a + b*q, q) = floor_div(a, q) + b  for a divisor q > 0 that divides b*q
//   termwise ceil_div(a, b) keeps its own kind (it prints as people write it); min(a, a) = a, nested minima are
//   flattened, arguments that another provably exceeds for all sizes >= 0 are dropped.
// Dimensions are >= 0 unless Facts say otherwise; a divisor must be > 0. Arithmetic is exact in 64 bits (products in
// 128): what does not fit throws std::overflow_error.
// Left out: rationals, modulo, e-graphs.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/enum_names.hpp"

namespace orrery::models {

using sim::to_string;

/// A named dimension. Two symbols of one name are equal; they order by name. Letters, digits, '_' and '.', not starting
/// with a digit; otherwise std::invalid_argument.
class Symbol {
 public:
  explicit Symbol(std::string_view name);
  const std::string& name() const { return *name_; }
  friend bool operator==(Symbol a, Symbol b) { return a.name_ == b.name_; }
  friend std::strong_ordering operator<=>(Symbol a, Symbol b) {
    return a.name_ == b.name_ ? std::strong_ordering::equal : *a.name_ <=> *b.name_;
  }

 private:
  const std::string* name_;  ///< interned, lives as long as the program
};

/// A dimension without a value. what() names it.
class UnboundSymbol : public std::runtime_error {
 public:
  explicit UnboundSymbol(Symbol symbol)
      : std::runtime_error("no value for dimension '" + symbol.name() + "'"), symbol_(symbol) {}
  Symbol symbol() const { return symbol_; }

 private:
  Symbol symbol_;
};

/// Values of dimensions.
class Bindings {
 public:
  Bindings() = default;
  Bindings(std::initializer_list<std::pair<std::string_view, std::int64_t>> values);
  void set(Symbol symbol, std::int64_t value);
  void set(std::string_view name, std::int64_t value) { set(Symbol(name), value); }
  /// Throws UnboundSymbol.
  std::int64_t at(Symbol symbol) const;
  std::optional<std::int64_t> find(Symbol symbol) const;
  /// In the order of names.
  std::span<const std::pair<Symbol, std::int64_t>> values() const { return values_; }
  friend bool operator==(const Bindings&, const Bindings&) = default;

 private:
  std::vector<std::pair<Symbol, std::int64_t>> values_;
};

class SymExpr {
 public:
  SymExpr() = default;             ///< 0
  SymExpr(std::int64_t constant);  // NOLINT(google-explicit-constructor): numbers mix with dimensions in formulas
  SymExpr(int constant) : SymExpr(static_cast<std::int64_t>(constant)) {}  // NOLINT(google-explicit-constructor)
  SymExpr(Symbol symbol);                                                  // NOLINT(google-explicit-constructor)
  static SymExpr dim(std::string_view name) { return SymExpr(Symbol(name)); }
  /// Reads what to_string() writes, and any formula of + - * ( ) names, integers, floor_div(a, b), ceil_div(a, b),
  /// min(…), max(…). Throws std::invalid_argument that says what was expected and where.
  static SymExpr parse(std::string_view text);

  SymExpr& operator+=(const SymExpr& other);
  SymExpr& operator-=(const SymExpr& other);
  SymExpr& operator*=(const SymExpr& other);
  friend SymExpr operator+(SymExpr a, const SymExpr& b) { return a += b; }
  friend SymExpr operator-(SymExpr a, const SymExpr& b) { return a -= b; }
  friend SymExpr operator*(SymExpr a, const SymExpr& b) { return a *= b; }
  friend bool operator==(const SymExpr& a, const SymExpr& b);
  /// A total order of forms (not of values), for sorted containers.
  friend std::strong_ordering operator<=>(const SymExpr& a, const SymExpr& b);

  bool is_zero() const;
  /// The value, if no dimension occurs.
  std::optional<std::int64_t> constant() const;
  bool depends_on(Symbol symbol) const;
  /// The dimensions that occur, in the order of names.
  std::vector<Symbol> symbols() const;

  /// The value. Throws UnboundSymbol, std::overflow_error, std::domain_error for a divisor that is not positive.
  std::int64_t eval(const Bindings& bindings) const { return eval(bindings.values()); }
  /// The same for values in any order, the first of a name counting. Does not allocate.
  std::int64_t eval(std::span<const std::pair<Symbol, std::int64_t>> values) const;
  /// With `symbol` replaced.
  SymExpr substitute(Symbol symbol, const SymExpr& by) const;

  /// "2*batch*tokens^2 + ceil_div(tokens, 128) - 7"; "0" for none. parse() reads it back to an equal expression.
  std::string to_string() const;
  /// With the terms of these dimensions first, in this order.
  std::string to_string(std::span<const Symbol> first) const;

  struct Node;  ///< the canonical form; models/sym/form.hpp

 private:
  friend struct SymAccess;
  explicit SymExpr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::int64_t constant_ = 0;  ///< the value where node_ is null: constants need no memory
  std::shared_ptr<const Node> node_;
};

/// Integer quotients, rounded down and up. Throw std::domain_error for a constant divisor that is not positive.
SymExpr floor_div(const SymExpr& a, const SymExpr& b);
SymExpr ceil_div(const SymExpr& a, const SymExpr& b);
SymExpr min(const SymExpr& a, const SymExpr& b);
SymExpr max(const SymExpr& a, const SymExpr& b);
/// Product of a shape's dimensions; 1 for none.
SymExpr product(std::span<const SymExpr> dims);

/// An interval of values; an end that is missing is infinite.
struct Bounds {
  std::optional<std::int64_t> lo, hi;
  friend bool operator==(const Bounds&, const Bounds&) = default;
};

/// What is known of dimensions: ranges, equalities (a dimension is an expression of others) and divisors.
class Facts {
 public:
  /// Narrows the range of a dimension. Throws std::invalid_argument for an empty range.
  void in_range(Symbol symbol, Bounds bounds);
  /// `symbol` is `expr` everywhere. Throws std::invalid_argument where that is circular.
  void equal(Symbol symbol, const SymExpr& expr);
  /// `divisor` divides `symbol`.
  void divisible(Symbol symbol, std::int64_t divisor);
  /// {0, none} for a dimension that nothing is known of.
  Bounds range(Symbol symbol) const;
  /// With equalities and divisors put in: the canonical set of base dimensions.
  SymExpr canonical(const SymExpr& expr) const;

  /// Everything that was said, in the order in which it was said.
  std::span<const std::pair<Symbol, Bounds>> ranges() const { return ranges_; }
  std::span<const std::pair<Symbol, SymExpr>> equalities() const { return equalities_; }
  std::span<const std::pair<Symbol, std::int64_t>> divisors() const { return divisors_; }

 private:
  std::vector<std::pair<Symbol, Bounds>> ranges_;
  std::vector<std::pair<Symbol, SymExpr>> equalities_;
  std::vector<std::pair<Symbol, std::int64_t>> divisors_;
};

/// An interval that holds every value that `expr` takes under `facts`; as tight as interval arithmetic on the canonical
/// form is.
Bounds bounds(const SymExpr& expr, const Facts& facts = {});

/// What can be proven of two expressions for all sizes that `facts` allow.
enum class Order : std::uint8_t { less, less_equal, equal, greater_equal, greater, unknown };
constexpr auto enum_names(Order) {
  using enum Order;
  return sim::names<Order>(
      {{"<", less}, {"<=", less_equal}, {"==", equal}, {">=", greater_equal}, {">", greater}, {"unknown", unknown}});
}

/// Sound, not complete: `unknown` where no rule applies. By the sign of the difference: coefficients, ranges, and
/// substitution of each bounded dimension by its bound plus a dimension >= 0.
Order compare(const SymExpr& a, const SymExpr& b, const Facts& facts = {});
/// a >= b, where that is proven: half the work of compare().
bool provably_greater_equal(const SymExpr& a, const SymExpr& b, const Facts& facts = {});
inline bool provably_equal(const SymExpr& a, const SymExpr& b, const Facts& facts = {}) {
  return compare(a, b, facts) == Order::equal;
}

}  // namespace orrery::models
