#include "models/sym/box.hpp"

#include <algorithm>
#include <stdexcept>

namespace orrery::models {
namespace {

using Wide = BoxPolynomial::Wide;
using Term = BoxPolynomial::Term;
using Terms = std::vector<Term>;
using Highs = std::vector<std::optional<std::int64_t>>;

constexpr Wide kLimit = static_cast<Wide>(1) << 120;

Wide checked(Wide value, bool overflow) {
  if (overflow || value > kLimit || value < -kLimit) throw std::overflow_error("box polynomial: past 120 bits");
  return value;
}
Wide sum(Wide a, Wide b) {
  Wide out = 0;
  const bool overflow = __builtin_add_overflow(a, b, &out);
  return checked(out, overflow);
}
Wide product(Wide a, Wide b) {
  Wide out = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &out);
  return checked(out, overflow);
}

/// Adds terms of one monomial; sorts.
Terms collected(Terms terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.exponents > b.exponents; });
  Terms out;
  for (Term& term : terms) {
    if (!out.empty() && out.back().exponents == term.exponents) {
      out.back().coefficient = sum(out.back().coefficient, term.coefficient);
    } else {
      if (!out.empty() && out.back().coefficient == 0) out.pop_back();
      out.push_back(std::move(term));
    }
  }
  if (!out.empty() && out.back().coefficient == 0) out.pop_back();
  return out;
}

std::uint16_t degree(const Terms& terms, std::size_t variable) {
  std::uint16_t out = 0;
  for (const Term& term : terms) out = std::max(out, term.exponents[variable]);
  return out;
}

Wide value(const Terms& terms, const std::vector<std::int64_t>& at) {
  Wide total = 0;
  for (const Term& term : terms) {
    Wide v = term.coefficient;
    for (std::size_t i = 0; i < at.size(); ++i)
      for (std::uint16_t k = 0; k < term.exponents[i]; ++k) v = product(v, at[i]);
    total = sum(total, v);
  }
  return total;
}

/// With a variable replaced by a number.
Terms fixed(const Terms& terms, std::size_t variable, std::int64_t at) {
  Terms out;
  for (Term term : terms) {
    for (; term.exponents[variable] > 0; --term.exponents[variable]) term.coefficient = product(term.coefficient, at);
    if (term.coefficient != 0) out.push_back(std::move(term));
  }
  return collected(std::move(out));
}

/// The coefficient of variable^power, a polynomial in the others.
Terms coefficient(const Terms& terms, std::size_t variable, std::uint16_t power) {
  Terms out;
  for (const Term& term : terms)
    if (term.exponents[variable] == power) {
      out.push_back(term);
      out.back().exponents[variable] = 0;
    }
  return collected(std::move(out));
}

/// With a variable x replaced by origin + sign * x.
Terms shifted(const Terms& terms, std::size_t variable, std::int64_t origin, int sign) {
  Terms out;
  for (const Term& term : terms) {
    const int n = term.exponents[variable];
    Wide binomial = 1;
    for (int k = 0; k <= n; ++k) {  // C(n, k) origin^(n-k) (sign x)^k
      Term t = term;
      t.exponents[variable] = static_cast<std::uint16_t>(k);
      t.coefficient = product(term.coefficient, sign < 0 && k % 2 == 1 ? -binomial : binomial);
      for (int i = 0; i < n - k; ++i) t.coefficient = product(t.coefficient, origin);
      out.push_back(std::move(t));
      binomial = product(binomial, n - k) / (k + 1);
    }
  }
  return collected(std::move(out));
}

/// A polynomial that is nowhere larger on [0, high]: x^k <= high^(k-1) x where it is subtracted, x^k >= x where it is
/// added (integers).
Terms chords(const Terms& terms, std::size_t variable, std::int64_t high) {
  Terms out = terms;
  for (Term& term : out) {
    for (; term.exponents[variable] > 1; --term.exponents[variable])
      if (term.coefficient < 0) term.coefficient = product(term.coefficient, high);
  }
  return collected(std::move(out));
}

/// The largest monomial that divides every term is >= 0: what remains has the same sign.
void strip(Terms& terms) {
  if (terms.empty()) return;
  std::vector<std::uint16_t> shared = terms[0].exponents;
  for (const Term& term : terms)
    for (std::size_t i = 0; i < shared.size(); ++i) shared[i] = std::min(shared[i], term.exponents[i]);
  for (Term& term : terms)
    for (std::size_t i = 0; i < shared.size(); ++i)
      term.exponents[i] = static_cast<std::uint16_t>(term.exponents[i] - shared[i]);
}

/// True if `big` >= `small` as monomials of integers >= 0: the same variables, no exponent smaller.
bool covers(const Term& big, const Term& small) {
  for (std::size_t i = 0; i < big.exponents.size(); ++i)
    if (big.exponents[i] < small.exponents[i] || (small.exponents[i] == 0 && big.exponents[i] > 0)) return false;
  return true;
}

/// A polynomial that is nowhere larger: negative terms are paid for by the positive ones that cover them.
Terms cancelled(Terms terms) {
  for (Term& debt : terms) {
    if (debt.coefficient >= 0) continue;
    for (Term& credit : terms) {
      if (credit.coefficient <= 0 || !covers(credit, debt)) continue;
      const Wide paid = std::min(credit.coefficient, -debt.coefficient);
      credit.coefficient -= paid;
      debt.coefficient += paid;
    }
  }
  return collected(std::move(terms));
}

bool any_negative(const Terms& terms) {
  return std::any_of(terms.begin(), terms.end(), [](const Term& term) { return term.coefficient < 0; });
}

Wide constant_of(const Terms& terms) {
  if (terms.empty()) return 0;
  const Term& last = terms.back();
  const bool plain = std::all_of(last.exponents.begin(), last.exponents.end(), [](std::uint16_t e) { return e == 0; });
  return plain ? last.coefficient : 0;
}

}  // namespace

/// One proof: the box and what is left of the work it may take.
struct BoxPolynomial::Search {
  Highs highs;
  int budget = 400;

  /// Points that often refute.
  bool refuted(const Terms& terms) const {
    std::vector<std::int64_t> low(highs.size(), 0), one(highs.size()), top(highs.size());
    for (std::size_t i = 0; i < highs.size(); ++i) {
      one[i] = std::min<std::int64_t>(highs[i].value_or(1), 1);
      top[i] = std::min<std::int64_t>(highs[i].value_or(100'000), 100'000);
    }
    return value(terms, low) < 0 || value(terms, one) < 0 || value(terms, top) < 0;
  }

  /// A variable to split: bounded and linear first, then linear, then any; none if there is none.
  std::optional<std::size_t> choose(const Terms& terms) const {
    std::optional<std::size_t> best;
    int best_rank = 9;
    for (std::size_t i = 0; i < highs.size(); ++i) {
      const std::uint16_t power = degree(terms, i);
      if (power == 0) continue;
      const int rank = (power == 1 ? 0 : 2) + (highs[i] ? 0 : 1);
      if (rank < best_rank) {
        best = i;
        best_rank = rank;
      }
    }
    return best;
  }

  /// True if the coefficients of all powers of a variable, `from` on, are proven >= 0.
  bool powers_nonnegative(const Terms& terms, std::size_t variable, int from) {
    for (int k = degree(terms, variable); k >= from; --k)
      if (!nonnegative(coefficient(terms, variable, static_cast<std::uint16_t>(k)))) return false;
    return true;
  }

  bool nonnegative(Terms terms) {
    if (!any_negative(terms)) return true;
    if (--budget < 0 || refuted(terms)) return false;
    if (!any_negative(cancelled(terms))) return true;
    if (const std::optional<Wide> least = interval(terms); least && *least >= 0) return true;
    strip(terms);
    const std::optional<std::size_t> x = choose(terms);
    if (!x) return !any_negative(terms);
    if (highs[*x] && degree(terms, *x) == 1)
      return nonnegative(fixed(terms, *x, 0)) && nonnegative(fixed(terms, *x, *highs[*x]));
    if (!highs[*x]) return powers_nonnegative(terms, *x, 0);
    return nonnegative(chords(terms, *x, *highs[*x])) || halves_nonnegative(terms, *x);
  }

  /// Splits the range of a variable of higher degree.
  bool halves_nonnegative(const Terms& terms, std::size_t x) {
    const std::int64_t high = *highs[x];
    if (high == 0) return nonnegative(fixed(terms, x, 0));
    const std::int64_t middle = high / 2;
    highs[x] = middle;
    bool proven = nonnegative(terms);
    if (proven) {
      highs[x] = high - middle - 1;
      proven = nonnegative(shifted(terms, x, middle + 1, 1));
    }
    highs[x] = high;
    return proven;
  }

  std::optional<Wide> lower(const Terms& terms) {
    if (!any_negative(terms)) return constant_of(terms);
    if (--budget < 0) return interval(terms);
    const std::optional<std::size_t> x = choose(terms);
    if (!x) return constant_of(terms);
    const std::optional<std::int64_t> high = highs[*x];
    if (high && degree(terms, *x) == 1) {
      const std::optional<Wide> a = lower(fixed(terms, *x, 0)), b = lower(fixed(terms, *x, *high));
      if (a && b) return std::min(*a, *b);
      return std::nullopt;
    }
    if (powers_nonnegative(terms, *x, 1)) return lower(coefficient(terms, *x, 0));
    if (high) {
      const Terms down = shifted(terms, *x, *high, -1);
      if (powers_nonnegative(down, *x, 1)) return lower(coefficient(down, *x, 0));
      return lower(chords(terms, *x, *high));
    }
    return interval(terms);
  }

  /// Each term by itself.
  std::optional<Wide> interval(const Terms& terms) const {
    Wide total = constant_of(terms) > 0 ? constant_of(terms) : 0;
    for (const Term& term : terms) {
      if (term.coefficient >= 0) continue;
      Wide v = term.coefficient;
      for (std::size_t i = 0; i < highs.size(); ++i)
        for (std::uint16_t k = 0; k < term.exponents[i]; ++k) {
          if (!highs[i]) return std::nullopt;
          v = product(v, *highs[i]);
        }
      total = sum(total, v);
    }
    return total;
  }
};

BoxPolynomial::BoxPolynomial(Highs highs, Terms terms)
    : highs_(std::move(highs)), terms_(collected(std::move(terms))) {}

bool BoxPolynomial::nonnegative() const {
  try {
    return Search{highs_}.nonnegative(terms_);
  } catch (const std::overflow_error&) {
    return false;  // numbers past 120 bits: no proof
  }
}

std::optional<Wide> BoxPolynomial::lower() const {
  try {
    return Search{highs_}.lower(terms_);
  } catch (const std::overflow_error&) {
    return std::nullopt;
  }
}

}  // namespace orrery::models
