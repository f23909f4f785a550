// Quotients, minima and maxima in canonical form. Every rule is exact for all sizes at which the form it replaces has a
// value. Quotients, for a divisor d > 0 of one term (x is what remains, coefficients of d's terms taken modulo d's):
//   (a + b*d)/d = a/d + b     g*a / g*b = a/b for numbers and dimensions g     (a/b + k)/c = (a + k*b)/(b*c)
// and for a number c: a ceil is a floor of a + c - 1, printed as a ceil where the constant is exactly that. A divisor
// of several terms is divided only where nothing remains. Minima and maxima: nested ones flattened, what all arguments
// share (a term, a factor >= 0) stands outside, an argument that can never decide is dropped.
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "models/sym/form.hpp"

namespace orrery::models {
namespace {

using Arguments = std::vector<SymExpr>;

/// `term` / `divisor`, if the divisor's monomial is a factor of it; coefficients are left alone.
std::optional<SymMonomial> divided(const SymMonomial& term, const SymMonomial& divisor) {
  SymMonomial out;
  std::size_t j = 0;
  for (const SymFactor& factor : term) {
    const bool same = j < divisor.size() && compare_atoms(factor.atom, divisor[j].atom) == 0;
    if (!same) {
      out.push_back(factor);
      continue;
    }
    if (factor.exponent < divisor[j].exponent) return std::nullopt;
    if (factor.exponent > divisor[j].exponent) out.push_back({factor.atom, factor.exponent - divisor[j].exponent});
    ++j;
  }
  if (j < divisor.size()) return std::nullopt;
  return out;
}

struct Division {
  SymExpr whole, rest;
};

/// a = whole * d + rest with every coefficient of `rest` on a multiple of d's monomial in [0, d's coefficient).
Division divided(const SymExpr& a, const SymTerm& d) {
  SymTerms whole, rest;
  for (const SymTerm& term : SymAccess::terms(a)) {
    const std::optional<SymMonomial> monomial = divided(term.factors, d.factors);
    const std::int64_t times = monomial ? floor_quotient(term.coefficient, d.coefficient) : 0;
    if (times != 0) whole.push_back({*monomial, times});
    if (const std::int64_t left = term.coefficient - times * d.coefficient; left != 0)
      rest.push_back({term.factors, left});
  }
  return {SymAccess::make(std::move(whole)), SymAccess::make(std::move(rest))};
}

/// a / b, if nothing remains.
std::optional<SymExpr> exact(SymExpr a, const SymExpr& b) {
  const std::span<const SymTerm> divisor = SymAccess::node_terms(b);
  const SymTerm& lead = divisor[0];
  SymExpr whole;
  // Each step removes the first term; a quotient has no more terms than the dividend and the divisor suggest.
  for (std::size_t steps = 2 * (SymAccess::terms(a).size() + divisor.size()); steps > 0 && !a.is_zero(); --steps) {
    const SymTerm first = SymAccess::terms(a)[0];
    const std::optional<SymMonomial> monomial = divided(first.factors, lead.factors);
    if (!monomial || first.coefficient % lead.coefficient != 0) return std::nullopt;
    const SymExpr part = SymAccess::make(SymTerm{*monomial, first.coefficient / lead.coefficient});
    whole += part;
    a -= part * b;
  }
  return a.is_zero() ? std::optional(whole) : std::nullopt;
}

/// The greatest number and power of dimensions in every term of all expressions.
SymTerm content(std::span<const SymExpr> exprs) {
  SymTerm common{{}, 0};
  for (const SymExpr& expr : exprs)
    for (const SymTerm& term : SymAccess::terms(expr)) {
      const bool first = common.coefficient == 0;
      common.coefficient = std::gcd(common.coefficient, term.coefficient);
      SymMonomial shared;
      for (const SymFactor& factor : first ? term.factors : common.factors) {
        if (factor.atom.index() != 0) continue;  // only dimensions are known to be >= 0
        const auto at = std::find_if(term.factors.begin(), term.factors.end(), [&](const SymFactor& other) {
          return compare_atoms(factor.atom, other.atom) == 0;
        });
        if (at != term.factors.end()) shared.push_back({factor.atom, std::min(factor.exponent, at->exponent)});
      }
      common.factors = std::move(shared);
    }
  return common;
}

bool is_one(const SymTerm& term) {
  return term.coefficient == 1 && term.factors.empty();
}

SymExpr quotient(SymFunction kind, const SymExpr& a, const SymExpr& b);

/// floor((a + k) / c), or ceil, for a sum `a` without a constant, coefficients and k in [0, c), c > 1.
SymExpr by_number(SymFunction kind, SymExpr a, std::int64_t k, std::int64_t c) {
  SymExpr whole;
  if (kind == SymFunction::ceil_div && k > 0) {  // ceil((a + k)/c) = floor((a + k - 1)/c) + 1
    whole = 1;
    --k;
    kind = SymFunction::floor_div;
  }
  if (a.is_zero()) return whole;
  std::int64_t g = c;
  for (const SymTerm& term : SymAccess::terms(a)) g = std::gcd(g, term.coefficient);
  if (g > 1) {
    a = divided(a, SymTerm{{}, g}).whole;
    k /= g;
    c /= g;
  }
  // floor((u/b + k) / c) = floor((u + k*b) / (b*c)), with a ceil u/b as floor (u + b - 1)/b.
  const SymCall* inner = SymAccess::call(a);
  const bool is_quotient =
      inner && (inner->function == SymFunction::floor_div || inner->function == SymFunction::ceil_div);
  const std::optional<std::int64_t> b = is_quotient ? inner->arguments[1].constant() : std::nullopt;
  std::int64_t product = 0;
  if (b && !__builtin_mul_overflow(*b, c, &product)) {
    const std::int64_t up = kind == SymFunction::ceil_div ? c - 1 : k;
    const std::int64_t inner_up = inner->function == SymFunction::ceil_div ? *b - 1 : 0;
    return whole + quotient(SymFunction::floor_div, inner->arguments[0] + up * *b + inner_up, product);
  }
  if (kind == SymFunction::floor_div && k == c - 1) {
    kind = SymFunction::ceil_div;
    k = 0;
  }
  return whole + SymAccess::make_call(kind, {a + k, c});
}

SymExpr quotient(SymFunction kind, const SymExpr& a, const SymExpr& b) {
  if (const std::optional<std::int64_t> c = b.constant()) {
    if (*c <= 0) throw std::domain_error("symbolic expression: a divisor of " + std::to_string(*c) + ", expected > 0");
    if (*c == 1) return a;
    const Division d = divided(a, SymTerm{{}, *c});
    const SymTerms terms = SymAccess::terms(d.rest);
    const std::int64_t k = !terms.empty() && terms.back().factors.empty() ? terms.back().coefficient : 0;
    return d.whole + by_number(kind, d.rest - k, k, *c);
  }
  const std::span<const SymTerm> divisor = SymAccess::node_terms(b);
  if (divisor.size() > 1) {
    if (std::optional<SymExpr> whole = exact(a, b)) return *whole;
  } else if (divisor[0].coefficient > 0) {
    if (const Division d = divided(a, divisor[0]); !d.whole.is_zero()) return d.whole + quotient(kind, d.rest, b);
  }
  if (a.is_zero()) return {};
  const SymExpr both[] = {a, b};
  if (const SymTerm common = content(both); !is_one(common))
    return quotient(kind, divided(a, common).whole, divided(b, common).whole);
  return SymAccess::make_call(kind, {a, b});
}

/// The one term of a sum that is a call of `kind` times a number > 0 and dimensions; none if there are none or several.
const SymTerm* single_call(SymFunction kind, std::span<const SymTerm> terms) {
  const SymTerm* found = nullptr;
  for (const SymTerm& term : terms) {
    const auto is_call = [&](const SymFactor& f) {
      return f.atom.index() == 1 && std::get<1>(f.atom)->function == kind;
    };
    if (std::none_of(term.factors.begin(), term.factors.end(), is_call)) continue;
    // Calls stand last among the factors.
    const SymFactor& call = term.factors.back();
    const bool plain = term.coefficient > 0 && call.exponent == 1 &&
                       (term.factors.size() == 1 || term.factors[term.factors.size() - 2].atom.index() == 0);
    if (found || !plain) return nullptr;
    found = &term;
  }
  return found;
}

/// A sum in which a call of the same kind stands is the extreme of the sums with each of its arguments.
void flatten(SymFunction kind, const SymExpr& argument, Arguments& out) {
  const std::span<const SymTerm> terms = SymAccess::node_terms(argument);
  const SymTerm* term = single_call(kind, terms);
  if (!term) {
    out.push_back(argument);
    return;
  }
  const SymExpr rest = argument - SymAccess::make(*term);
  SymTerm factor = *term;
  factor.factors.pop_back();
  for (const SymExpr& inner : std::get<1>(term->factors.back().atom)->arguments)
    flatten(kind, rest + SymAccess::make(factor) * inner, out);
}

Arguments flattened(SymFunction kind, std::span<const SymExpr> arguments) {
  Arguments out;
  for (const SymExpr& argument : arguments) flatten(kind, argument, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// True if `b` never decides the extreme because `a` does as well.
bool decides(SymFunction kind, const SymExpr& a, const SymExpr& b) {
  return provably_nonnegative(kind == SymFunction::max ? a - b : b - a);
}

void drop_dominated(SymFunction kind, Arguments& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i)
    for (std::size_t j = 0; j < arguments.size();) {
      if (i == j || !decides(kind, arguments[i], arguments[j])) {
        ++j;
        continue;
      }
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(j));
      if (j < i) --i;
    }
}

/// The terms that all arguments have.
SymExpr shared_terms(const Arguments& arguments) {
  SymTerms out;
  for (const SymTerm& term : SymAccess::terms(arguments[0])) {
    const bool everywhere = std::all_of(arguments.begin() + 1, arguments.end(), [&](const SymExpr& other) {
      const SymTerms terms = SymAccess::terms(other);
      return std::any_of(terms.begin(), terms.end(), [&](const SymTerm& t) {
        return t.coefficient == term.coefficient && compare_monomials(t.factors, term.factors) == 0;
      });
    });
    if (everywhere) out.push_back(term);
  }
  return SymAccess::make(std::move(out));
}

SymExpr extreme(SymFunction kind, std::span<const SymExpr> given) {
  Arguments arguments = flattened(kind, given);
  drop_dominated(kind, arguments);
  if (arguments.size() == 1) return arguments[0];
  if (const SymExpr shared = shared_terms(arguments); !shared.is_zero()) {
    for (SymExpr& argument : arguments) argument -= shared;
    return shared + extreme(kind, arguments);
  }
  if (const SymTerm common = content(arguments); !is_one(common)) {
    for (SymExpr& argument : arguments) argument = divided(argument, common).whole;
    return SymAccess::make(common) * extreme(kind, arguments);
  }
  return SymAccess::make_call(kind, std::move(arguments));
}

}  // namespace

SymExpr SymAccess::apply(SymFunction function, std::span<const SymExpr> arguments) {
  if (function == SymFunction::floor_div || function == SymFunction::ceil_div)
    return quotient(function, arguments[0], arguments[1]);
  return extreme(function, arguments);
}

SymExpr floor_div(const SymExpr& a, const SymExpr& b) {
  return quotient(SymFunction::floor_div, a, b);
}

SymExpr ceil_div(const SymExpr& a, const SymExpr& b) {
  return quotient(SymFunction::ceil_div, a, b);
}

SymExpr min(const SymExpr& a, const SymExpr& b) {
  const SymExpr both[] = {a, b};
  return extreme(SymFunction::min, both);
}

SymExpr max(const SymExpr& a, const SymExpr& b) {
  const SymExpr both[] = {a, b};
  return extreme(SymFunction::max, both);
}

}  // namespace orrery::models
