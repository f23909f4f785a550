// Bounds of expressions and proofs of their order.
//
// A sum over atoms is a polynomial over a box (models/sym/box.hpp) whose variables are the atoms, each counted from an
// end of its own interval. Where that proves nothing, atoms that are functions are opened one by one: a minimum or
// maximum is one of its arguments, a quotient by d is (n - r)/d with 0 <= r < d, in which the sum is linear, so that r
// = 0 and r = d - 1 are enough. Every case must then hold.
#include <algorithm>
#include <limits>
#include <string>

#include "models/sym/box.hpp"
#include "models/sym/form.hpp"

namespace orrery::models {
namespace {

/// An interval in 128 bits; an end at +-kFar or past it is infinite.
struct WideRange {
  __int128 lo = 0, hi = 0;
};
constexpr __int128 kFar = static_cast<__int128>(1) << 100;

__int128 clamped(__int128 value) {
  return std::clamp(value, -kFar, kFar);
}
bool is_far(__int128 value) {
  return value >= kFar || value <= -kFar;
}

__int128 clamped_product(__int128 a, __int128 b) {
  __int128 out = 0;
  if (!is_far(a) && !is_far(b) && !__builtin_mul_overflow(a, b, &out)) return clamped(out);
  if (a == 0 || b == 0) return 0;
  return (a > 0) == (b > 0) ? kFar : -kFar;
}

WideRange clamped_product(WideRange a, WideRange b) {
  const __int128 ends[] = {clamped_product(a.lo, b.lo), clamped_product(a.lo, b.hi), clamped_product(a.hi, b.lo),
                           clamped_product(a.hi, b.hi)};
  return {*std::min_element(std::begin(ends), std::end(ends)), *std::max_element(std::begin(ends), std::end(ends))};
}

WideRange sum(WideRange a, WideRange b) {
  return {is_far(a.lo) || is_far(b.lo) ? (a.lo >= kFar || b.lo >= kFar ? kFar : -kFar) : clamped(a.lo + b.lo),
          is_far(a.hi) || is_far(b.hi) ? (a.hi <= -kFar || b.hi <= -kFar ? -kFar : kFar) : clamped(a.hi + b.hi)};
}

/// Quotient of one end by one divisor > 0, either infinite; `round` says which way.
__int128 quotient(__int128 a, __int128 d, bool floor) {
  if (is_far(a)) return a;
  if (d >= kFar) return floor ? (a < 0 ? -1 : 0) : (a > 0 ? 1 : 0);
  return floor ? floor_quotient(a, d) : ceil_quotient(a, d);
}

WideRange quotient(WideRange a, WideRange d, bool floor) {
  const __int128 smallest = std::max<__int128>(d.lo, 1), largest = std::max(d.hi, smallest);
  return {quotient(a.lo, a.lo >= 0 ? largest : smallest, floor), quotient(a.hi, a.hi >= 0 ? smallest : largest, floor)};
}

WideRange wide(const Bounds& b) {
  return {b.lo ? static_cast<__int128>(*b.lo) : -kFar, b.hi ? static_cast<__int128>(*b.hi) : kFar};
}

WideRange interval(const SymExpr& expr, const Facts& facts);

WideRange interval(const SymAtom& atom, const Facts& facts) {
  if (const auto* symbol = std::get_if<Symbol>(&atom)) return wide(facts.range(*symbol));
  const SymCall& call = *std::get<1>(atom);
  WideRange out = interval(call.arguments[0], facts);
  for (std::size_t i = 1; i < call.arguments.size(); ++i) {
    const WideRange next = interval(call.arguments[i], facts);
    switch (call.function) {
      case SymFunction::floor_div:
      case SymFunction::ceil_div:
        out = quotient(out, next, call.function == SymFunction::floor_div);
        break;
      case SymFunction::min:
        out = {std::min(out.lo, next.lo), std::min(out.hi, next.hi)};
        break;
      case SymFunction::max:
        out = {std::max(out.lo, next.lo), std::max(out.hi, next.hi)};
        break;
    }
  }
  return out;
}

WideRange interval(const SymExpr& expr, const Facts& facts) {
  WideRange total;
  for (const SymTerm& term : SymAccess::terms(expr)) {
    WideRange value{term.coefficient, term.coefficient};
    for (const SymFactor& factor : term.factors) {
      const WideRange base = interval(factor.atom, facts);
      WideRange powered{1, 1};
      for (std::uint32_t i = 0; i < factor.exponent; ++i) powered = clamped_product(powered, base);
      if (factor.exponent % 2 == 0) powered.lo = std::max<__int128>(powered.lo, 0);
      value = clamped_product(value, powered);
    }
    total = sum(total, value);
  }
  return total;
}

bool is_quotient(const SymCall& call) {
  return call.function == SymFunction::floor_div || call.function == SymFunction::ceil_div;
}

/// The distinct atoms of a sum.
std::vector<SymAtom> atoms_of(const SymExpr& expr) {
  std::vector<SymAtom> out;
  for (const SymTerm& term : SymAccess::node_terms(expr))
    for (const SymFactor& factor : term.factors) {
      const bool known =
          std::any_of(out.begin(), out.end(), [&](const SymAtom& a) { return compare_atoms(a, factor.atom) == 0; });
      if (!known) out.push_back(factor.atom);
    }
  return out;
}

/// Coefficients of the powers of an atom.
std::vector<SymExpr> powers_of(const SymExpr& expr, const SymAtom& atom) {
  std::vector<SymExpr> out(1);
  for (const SymTerm& term : SymAccess::terms(expr)) {
    SymTerm rest{{}, term.coefficient};
    std::size_t power = 0;
    for (const SymFactor& factor : term.factors) {
      if (compare_atoms(factor.atom, atom) == 0) {
        power = factor.exponent;
      } else {
        rest.factors.push_back(factor);
      }
    }
    if (power >= out.size()) out.resize(power + 1);
    out[power] += SymAccess::make(rest);
  }
  return out;
}

/// A box and a polynomial over it that takes every value of the sum; none where an atom has no end.
std::optional<BoxPolynomial> boxed(const SymExpr& expr, const Facts& facts) {
  const std::vector<SymAtom> atoms = atoms_of(expr);
  std::vector<std::optional<std::int64_t>> highs;
  std::vector<WideRange> ends;
  for (const SymAtom& atom : atoms) {
    const WideRange range = interval(atom, facts);
    if (is_far(range.lo) && is_far(range.hi)) return std::nullopt;
    const __int128 size = range.hi - range.lo;
    const bool bounded = !is_far(range.lo) && !is_far(range.hi) && size <= std::numeric_limits<std::int64_t>::max();
    highs.push_back(bounded ? std::optional(static_cast<std::int64_t>(size)) : std::nullopt);
    ends.push_back(range);
  }
  std::vector<BoxPolynomial::Term> terms;
  for (const SymTerm& term : SymAccess::terms(expr)) {
    std::vector<BoxPolynomial::Term> product{{std::vector<std::uint16_t>(atoms.size()), term.coefficient}};
    for (const SymFactor& factor : term.factors) {
      const auto i =
          static_cast<std::size_t>(std::find_if(atoms.begin(), atoms.end(),
                                                [&](const SymAtom& a) { return compare_atoms(a, factor.atom) == 0; }) -
                                   atoms.begin());
      const bool up = !is_far(ends[i].lo);  // atom = lo + x, or hi - x
      for (std::uint32_t k = 0; k < factor.exponent; ++k) {
        const std::size_t known = product.size();
        for (std::size_t j = 0; j < known; ++j) {
          BoxPolynomial::Term raised = product[j];
          ++raised.exponents[i];
          if (!up) raised.coefficient = -raised.coefficient;
          if (__builtin_mul_overflow(product[j].coefficient, up ? ends[i].lo : ends[i].hi, &product[j].coefficient))
            return std::nullopt;
          product.push_back(std::move(raised));
        }
        std::erase_if(product, [](const BoxPolynomial::Term& t) { return t.coefficient == 0; });
      }
    }
    terms.insert(terms.end(), product.begin(), product.end());
  }
  return BoxPolynomial(std::move(highs), std::move(terms));
}

/// Sums of which the least is no more than `scale` times the sum that was opened.
struct Opened {
  std::vector<std::vector<SymExpr>> cases;  ///< a case has one or more forms of the same values
  SymExpr scale = 1;
};

Opened open_extreme(const std::vector<SymExpr>& powers, const SymCall& call) {
  Opened out;
  for (const SymExpr& chosen : call.arguments) {
    SymExpr sum;
    for (std::size_t k = 0; k < powers.size(); ++k) sum += powers[k] * power(chosen, static_cast<std::uint32_t>(k));
    out.cases.push_back({sum});
    // The other arguments lie on one side of the chosen one: a dimension among them is the chosen one and a distance.
    for (const SymExpr& other : call.arguments) {
      const std::vector<Symbol> symbols = other.symbols();
      if (symbols.size() != 1 || other != SymExpr(symbols[0]) || chosen.depends_on(symbols[0])) continue;
      const SymExpr distance = SymExpr::dim("_distance." + symbols[0].name());
      out.cases.back().push_back(
          sum.substitute(symbols[0], call.function == SymFunction::min ? chosen + distance : chosen - distance));
      break;
    }
  }
  return out;
}

Opened open_quotient(const std::vector<SymExpr>& powers, const SymCall& call) {
  const SymExpr& n = call.arguments[0];
  const SymExpr& d = call.arguments[1];
  const SymExpr far_end = call.function == SymFunction::floor_div ? n - (d - 1) : n + (d - 1);
  return {{{d * powers[0] + powers[1] * n}, {d * powers[0] + powers[1] * far_end}}, d};
}

std::optional<Opened> opened(const SymExpr& expr, const SymAtom& atom) {
  if (atom.index() == 0) return std::nullopt;
  const SymCall& call = *std::get<1>(atom);
  const std::vector<SymExpr> powers = powers_of(expr, atom);
  if (!is_quotient(call)) return open_extreme(powers, call);
  if (powers.size() > 2) return std::nullopt;
  return open_quotient(powers, call);
}

class Prover {
 public:
  explicit Prover(const Facts& facts) : facts_(facts) {}

  bool nonnegative(const SymExpr& expr) {
    if (const std::optional<std::int64_t> number = expr.constant()) return *number >= 0;
    if (--budget_ < 0) return false;
    const std::optional<BoxPolynomial> box = boxed(expr, facts_);
    if (box && box->nonnegative()) return true;
    for (const SymAtom& atom : atoms_of(expr)) {
      const std::optional<Opened> open = opened(expr, atom);
      if (open && std::all_of(open->cases.begin(), open->cases.end(), [&](const std::vector<SymExpr>& forms) {
            return std::any_of(forms.begin(), forms.end(), [&](const SymExpr& form) { return nonnegative(form); });
          }))
        return true;
    }
    return false;
  }

  std::optional<__int128> lower(const SymExpr& expr) {
    if (const std::optional<std::int64_t> number = expr.constant()) return *number;
    if (--budget_ < 0) return std::nullopt;
    const std::optional<BoxPolynomial> box = boxed(expr, facts_);
    std::optional<__int128> best = box ? box->lower() : std::nullopt;
    if (const WideRange plain = interval(expr, facts_); !is_far(plain.lo))
      best = best ? std::max(*best, plain.lo) : plain.lo;
    for (const SymAtom& atom : atoms_of(expr)) {
      const std::optional<Opened> open = opened(expr, atom);
      const std::optional<std::int64_t> scale = open ? open->scale.constant() : std::nullopt;
      if (!scale) continue;
      std::optional<__int128> least;
      for (std::size_t i = 0; i < open->cases.size(); ++i) {
        std::optional<__int128> found;
        for (const SymExpr& form : open->cases[i])
          if (const std::optional<__int128> low = lower(form)) found = found ? std::max(*found, *low) : *low;
        if (!found) {
          least.reset();
          break;
        }
        const __int128 scaled = ceil_quotient(*found, static_cast<__int128>(*scale));
        least = i == 0 ? scaled : std::min(*least, scaled);
      }
      if (least) best = best ? std::max(*best, *least) : *least;
    }
    return best;
  }

 private:
  const Facts& facts_;
  int budget_ = 40;  ///< sums looked at
};

std::optional<__int128> proven_lower(const SymExpr& expr, const Facts& facts) {
  const WideRange plain = interval(expr, facts);
  const std::optional<__int128> simple = is_far(plain.lo) ? std::nullopt : std::optional(plain.lo);
  try {
    const std::optional<__int128> found = Prover(facts).lower(expr);
    return found ? found : simple;
  } catch (const std::overflow_error&) {
    return simple;
  }
}

}  // namespace

bool provably_nonnegative(const SymExpr& expr, const Facts& facts) {
  try {
    return Prover(facts).nonnegative(expr);
  } catch (const std::overflow_error&) {
    return false;  // what a proof needs may not fit 64 bits although the question does: then there is none
  }
}

Bounds bounds(const SymExpr& expr, const Facts& facts) {
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  const SymExpr canonical = facts.canonical(expr);
  const std::optional<__int128> lo = proven_lower(canonical, facts);
  const std::optional<__int128> negative_hi = proven_lower(-1 * canonical, facts);
  Bounds out;
  if (lo && *lo >= lowest) out.lo = static_cast<std::int64_t>(std::min<__int128>(*lo, highest));
  if (negative_hi && -*negative_hi <= highest)
    out.hi = static_cast<std::int64_t>(std::max<__int128>(-*negative_hi, lowest));
  return out;
}

bool provably_greater_equal(const SymExpr& a, const SymExpr& b, const Facts& facts) {
  return provably_nonnegative(facts.canonical(a) - facts.canonical(b), facts);
}

Order compare(const SymExpr& a, const SymExpr& b, const Facts& facts) {
  const SymExpr difference = facts.canonical(a) - facts.canonical(b);
  if (difference.is_zero()) return Order::equal;
  const bool at_least = provably_nonnegative(difference, facts);
  if (at_least && provably_nonnegative(difference - 1, facts)) return Order::greater;
  const SymExpr negative = -1 * difference;
  const bool at_most = provably_nonnegative(negative, facts);
  if (at_least) return at_most ? Order::equal : Order::greater_equal;
  if (!at_most) return Order::unknown;
  return provably_nonnegative(negative - 1, facts) ? Order::less : Order::less_equal;
}

}  // namespace orrery::models
