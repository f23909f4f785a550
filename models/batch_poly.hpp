// Exact integer polynomials over the sizes of a batch: what FLOPs and bytes of an operator are before the batch is
// known.
//
// A BatchPoly is a sum of terms, coefficient times powers of dimensions, kept in one canonical form (terms sorted, no
// zero coefficients), so that equal polynomials compare equal and print alike. Coefficients are 64-bit; nothing wraps
// and nothing is rounded: what does not fit throws std::overflow_error. Left out: division, minima, ceilings (a
// dimension that needs one, such as query tiles, is a dimension of its own in the batch).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::models {

/// The sizes of a batch that expressions may name.
enum class Dim : std::uint8_t {
  tokens,        ///< T: all new tokens of the batch
  logit_rows,    ///< R: positions whose next token is computed
  query_tokens,  ///< Q: new tokens of prompt chunks
  kv_tokens,     ///< K: keys that chunks read: cached and new, summed over chunks
  pairs,         ///< P: pairs of query and key in chunks, causal
  sequences,     ///< S: sequences that decode one token
  context        ///< C: cached tokens that decodes attend to, summed over sequences, the new ones included
};
inline constexpr std::size_t kDims = static_cast<std::size_t>(Dim::context) + 1;

/// The letter of a dimension in printed expressions.
std::string_view symbol(Dim dim);

/// Values of all dimensions; those not set are 0.
struct BatchSizes {
  std::array<std::int64_t, kDims> values{};
  std::int64_t& operator[](Dim dim) { return values[static_cast<std::size_t>(dim)]; }
  std::int64_t operator[](Dim dim) const { return values[static_cast<std::size_t>(dim)]; }
};

/// A polynomial with 64-bit integer coefficients. Operators throw std::overflow_error if a coefficient does not fit.
class BatchPoly {
 public:
  BatchPoly() = default;
  BatchPoly(std::int64_t constant);  // NOLINT(google-explicit-constructor): numbers mix with dimensions in formulas
  BatchPoly(Dim dim);                // NOLINT(google-explicit-constructor)

  BatchPoly& operator+=(const BatchPoly& other);
  BatchPoly& operator*=(const BatchPoly& other);
  friend BatchPoly operator+(BatchPoly a, const BatchPoly& b) { return a += b; }
  friend BatchPoly operator*(BatchPoly a, const BatchPoly& b) { return a *= b; }
  friend BatchPoly operator-(BatchPoly a, const BatchPoly& b) { return a += b * BatchPoly(-1); }
  friend bool operator==(const BatchPoly&, const BatchPoly&) = default;

  bool is_zero() const { return terms_.empty(); }
  /// True if no dimension occurs.
  bool is_constant() const;
  /// True if `dim` occurs.
  bool depends_on(Dim dim) const;

  /// The value at `bindings`. Throws std::overflow_error if it does not fit 64 bits (or a term 128). Does not allocate.
  std::int64_t eval(const BatchSizes& bindings) const;

  /// "100663296*T + 4*P*R^2 - 7"; terms by dimension in the order of Dim, the constant last; "0" if there is none.
  std::string to_string() const;

 private:
  using Exponents = std::array<std::uint8_t, kDims>;
  struct Term {
    Exponents exponents{};
    std::int64_t coefficient = 0;
    friend bool operator==(const Term&, const Term&) = default;
  };
  /// Adds a term to the one with the same exponents, keeping the canonical form.
  void add(const Term& term);

  std::vector<Term> terms_;  ///< exponents strictly descending, coefficients not zero
};

/// Products of plain numbers and dimensions, without which `2 * Dim::tokens` would not compile.
inline BatchPoly operator*(std::int64_t a, Dim b) {
  return BatchPoly(b) * BatchPoly(a);
}
inline BatchPoly operator*(Dim a, std::int64_t b) {
  return b * a;
}

}  // namespace orrery::models
