// Random symbolic expressions whose values are known without them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/sym/expr.hpp"
#include "tests/models/support.hpp"

namespace orrery::models::test {

inline constexpr const char* kNames[] = {"batch", "context", "heads", "tokens"};

inline std::int64_t floor_of(std::int64_t n, std::int64_t d) {
  return n / d - (n % d < 0 ? 1 : 0);
}

/// An expression and, beside it, its value at fixed sizes computed without it.
struct Pair {
  SymExpr expr;
  std::int64_t value = 0;
};

inline Pair random_pair(Draw& draw, const Bindings& sizes, int depth) {
  if (depth == 0 || draw.integer(0, 5) == 0) {
    if (draw.flip()) {
      const std::int64_t c = draw.integer(-20, 40);
      return {c, c};
    }
    const Symbol s(kNames[draw.integer(0, 3)]);
    return {s, sizes.at(s)};
  }
  const Pair a = random_pair(draw, sizes, depth - 1);
  const Pair b = random_pair(draw, sizes, depth - 1);
  switch (draw.integer(0, 7)) {
    case 0:
    case 1:
      return {a.expr + b.expr, a.value + b.value};
    case 2:
      return {a.expr - b.expr, a.value - b.value};
    case 3:
      return {a.expr * b.expr, a.value * b.value};
    case 4: {
      const std::int64_t c = draw.integer(1, 12);
      return {floor_div(a.expr, c), floor_of(a.value, c)};
    }
    case 5: {  // a divisor that is >= 1
      const std::int64_t d = std::max<std::int64_t>(b.value, 1);
      return draw.flip() ? Pair{ceil_div(a.expr, max(b.expr, 1)), -floor_of(-a.value, d)}
                         : Pair{floor_div(a.expr, max(b.expr, 1)), floor_of(a.value, d)};
    }
    case 6:
      return {min(a.expr, b.expr), std::min(a.value, b.value)};
    default:
      return {max(a.expr, b.expr), std::max(a.value, b.value)};
  }
}

inline Bindings random_sizes(Draw& draw) {
  Bindings out;
  for (const char* name : kNames) out.set(name, draw.integer(0, draw.flip() ? 4 : 60));
  return out;
}

}  // namespace orrery::models::test
