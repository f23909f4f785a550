#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "models/sym_form.hpp"

namespace orrery::models {
namespace {

/// An interval in 128 bits; an end at +-kFar or past it is infinite.
struct Wide {
  __int128 lo = 0, hi = 0;
};
constexpr __int128 kFar = static_cast<__int128>(1) << 100;

__int128 clamped(__int128 value) {
  return std::clamp(value, -kFar, kFar);
}
bool is_far(__int128 value) {
  return value >= kFar || value <= -kFar;
}

__int128 product(__int128 a, __int128 b) {
  __int128 out = 0;
  if (!is_far(a) && !is_far(b) && !__builtin_mul_overflow(a, b, &out)) return clamped(out);
  if (a == 0 || b == 0) return 0;
  return (a > 0) == (b > 0) ? kFar : -kFar;
}

Wide product(Wide a, Wide b) {
  const __int128 ends[] = {product(a.lo, b.lo), product(a.lo, b.hi), product(a.hi, b.lo), product(a.hi, b.hi)};
  return {*std::min_element(std::begin(ends), std::end(ends)), *std::max_element(std::begin(ends), std::end(ends))};
}

Wide sum(Wide a, Wide b) {
  return {is_far(a.lo) || is_far(b.lo) ? (a.lo >= kFar || b.lo >= kFar ? kFar : -kFar) : clamped(a.lo + b.lo),
          is_far(a.hi) || is_far(b.hi) ? (a.hi <= -kFar || b.hi <= -kFar ? -kFar : kFar) : clamped(a.hi + b.hi)};
}

/// Quotient of one end by one divisor > 0, either infinite; `round` says which way.
__int128 quotient(__int128 a, __int128 d, bool floor) {
  if (is_far(a)) return a;
  if (d >= kFar) return floor ? (a < 0 ? -1 : 0) : (a > 0 ? 1 : 0);
  return floor ? floor_quotient(a, d) : ceil_quotient(a, d);
}

Wide quotient(Wide a, Wide d, bool floor) {
  const __int128 smallest = std::max<__int128>(d.lo, 1), largest = std::max(d.hi, smallest);
  return {quotient(a.lo, a.lo >= 0 ? largest : smallest, floor), quotient(a.hi, a.hi >= 0 ? smallest : largest, floor)};
}

Wide wide(const Bounds& b) {
  return {b.lo ? static_cast<__int128>(*b.lo) : -kFar, b.hi ? static_cast<__int128>(*b.hi) : kFar};
}

Wide interval(const SymExpr& expr, const Facts& facts);

Wide interval(const SymAtom& atom, const Facts& facts) {
  if (const auto* symbol = std::get_if<Symbol>(&atom)) return wide(facts.range(*symbol));
  const SymCall& call = *std::get<1>(atom);
  Wide out = interval(call.arguments[0], facts);
  for (std::size_t i = 1; i < call.arguments.size(); ++i) {
    const Wide next = interval(call.arguments[i], facts);
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

Wide interval(const SymExpr& expr, const Facts& facts) {
  Wide total;
  for (const SymTerm& term : SymAccess::terms(expr)) {
    Wide value{term.coefficient, term.coefficient};
    for (const SymFactor& factor : term.factors) {
      const Wide base = interval(factor.atom, facts);
      Wide powered{1, 1};
      for (std::uint32_t i = 0; i < factor.exponent; ++i) powered = product(powered, base);
      if (factor.exponent % 2 == 0) powered.lo = std::max<__int128>(powered.lo, 0);
      value = product(value, powered);
    }
    total = sum(total, value);
  }
  return total;
}

}  // namespace

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
  divisors_.emplace_back(symbol, divisor);
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

Bounds bounds(const SymExpr& expr, const Facts& facts) {
  const Wide wide = interval(facts.canonical(expr), facts);
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  Bounds out;
  if (wide.lo >= lowest) out.lo = wide.lo > highest ? highest : static_cast<std::int64_t>(wide.lo);
  if (wide.hi <= highest) out.hi = wide.hi < lowest ? lowest : static_cast<std::int64_t>(wide.hi);
  return out;
}

std::string_view to_string(Order order) {
  switch (order) {
    case Order::less:
      return "<";
    case Order::less_equal:
      return "<=";
    case Order::equal:
      return "==";
    case Order::greater_equal:
      return ">=";
    case Order::greater:
      return ">";
    case Order::unknown:
      return "unknown";
  }
  return "unknown";
}

Order compare(const SymExpr& a, const SymExpr& b, const Facts& facts) {
  SymExpr difference = facts.canonical(a) - facts.canonical(b);
  // Each dimension is its lower bound plus one that is >= 0: products of bounded dimensions then compare by sign.
  Facts shifted;
  for (const Symbol symbol : difference.symbols()) {
    const Bounds known = facts.range(symbol);
    const std::int64_t lo = known.lo.value_or(0);
    difference = difference.substitute(symbol, symbol + SymExpr(lo));
    shifted.in_range(symbol, {0, known.hi ? std::optional(*known.hi - lo) : std::nullopt});
  }
  const Bounds range = bounds(difference, shifted);
  if (range == Bounds{0, 0}) return Order::equal;
  if (range.lo && *range.lo > 0) return Order::greater;
  if (range.lo && *range.lo == 0) return Order::greater_equal;
  if (range.hi && *range.hi < 0) return Order::less;
  if (range.hi && *range.hi == 0) return Order::less_equal;
  return Order::unknown;
}

}  // namespace orrery::models
