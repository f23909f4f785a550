#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "models/sym/form.hpp"

namespace orrery::models {
void Facts::in_range(Symbol symbol, Bounds bounds) {
  Bounds known = range(symbol);
  if (bounds.lo && (!known.lo || *bounds.lo > *known.lo)) known.lo = bounds.lo;
  if (bounds.hi && (!known.hi || *bounds.hi < *known.hi)) known.hi = bounds.hi;
  if (known.lo && known.hi && *known.lo > *known.hi)
    throw std::invalid_argument(
        fmt::format("dimension '{}': no value is at least {} and at most {}", symbol.name(), *known.lo, *known.hi));
  const auto at =
      std::find_if(ranges_.begin(), ranges_.end(), [&](const auto& entry) { return entry.first == symbol; });
  if (at == ranges_.end()) {
    ranges_.emplace_back(symbol, known);
  } else {
    at->second = known;
  }
}

void Facts::equal(Symbol symbol, const SymExpr& expr) {
  const SymExpr by = canonical(expr);
  if (by.depends_on(symbol) || canonical(symbol) != SymExpr(symbol))
    throw std::invalid_argument(
        fmt::format("dimension '{}': equal to '{}', which depends on it or follows another equality", symbol.name(),
                    expr.to_string()));
  for (auto& [name, value] : equalities_) value = value.substitute(symbol, by);
  equalities_.emplace_back(symbol, by);
}

void Facts::divisible(Symbol symbol, std::int64_t divisor) {
  if (divisor < 1)
    throw std::invalid_argument(
        fmt::format("dimension '{}': expected a divisor of at least 1, got {}", symbol.name(), divisor));
  const auto at =
      std::find_if(divisors_.begin(), divisors_.end(), [&](const auto& entry) { return entry.first == symbol; });
  if (at == divisors_.end()) {
    divisors_.emplace_back(symbol, divisor);
  } else {
    at->second = checked_product(at->second / std::gcd(at->second, divisor), divisor);
  }
}

Bounds Facts::range(Symbol symbol) const {
  for (const auto& [name, bounds] : ranges_)
    if (name == symbol) return bounds;
  return {0, std::nullopt};
}

SymExpr Facts::canonical(const SymExpr& expr) const {
  SymExpr out = expr;
  for (const auto& [symbol, value] : equalities_) out = out.substitute(symbol, value);
  // A multiple of d is d times its quotient by d, which the rules of quotients then see through.
  for (const auto& [symbol, divisor] : divisors_) out = out.substitute(symbol, divisor * floor_div(symbol, divisor));
  return out;
}

}  // namespace orrery::models
