// Integer polynomials over a box: least values and proofs of sign. What bounds() and compare() rest on.
//
// Variables are integers in [0, high], high possibly infinite. The least value of a polynomial that is linear in each
// variable lies at a corner (a variable without an upper end must have a coefficient >= 0 everywhere), so that
// splitting variable by variable decides it exactly. For higher powers: x^i >= x^j for integers x >= 0 and i >= j >= 1,
// powers with coefficients >= 0 grow, a variable may be counted from its upper end, and small ranges are tried out. A
// bound on the work ends long proofs without a result.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace orrery::models {

class BoxPolynomial {
 public:
  using Wide = __int128;
  struct Term {
    std::vector<std::uint16_t> exponents;  ///< by variable
    Wide coefficient = 0;
  };

  /// Variables in [0, highs[i]]. Terms of one monomial are added. Throws std::overflow_error past 2^120.
  BoxPolynomial(std::vector<std::optional<std::int64_t>> highs, std::vector<Term> terms);

  /// True if proven >= 0 everywhere in the box.
  bool nonnegative() const;
  /// A value that is never passed downwards; none if no such value was found.
  std::optional<Wide> lower() const;

 private:
  using Terms = std::vector<Term>;
  struct Search;
  std::vector<std::optional<std::int64_t>> highs_;
  Terms terms_;  ///< exponents descending, coefficients not zero
};

}  // namespace orrery::models
