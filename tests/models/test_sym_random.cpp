// Properties of symbolic expressions on random ones.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "models/expr_program.hpp"
#include "models/sym_expr.hpp"
#include "tests/models/support.hpp"

namespace orrery::models {
namespace {

const char* const kNames[] = {"batch", "context", "heads", "tokens"};

std::int64_t floor_of(std::int64_t n, std::int64_t d) {
  return n / d - (n % d < 0 ? 1 : 0);
}

/// An expression and, beside it, its value at fixed sizes computed without it.
struct Pair {
  SymExpr expr;
  std::int64_t value = 0;
};

Pair random_pair(test::Draw& draw, const Bindings& sizes, int depth) {
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

Bindings random_sizes(test::Draw& draw) {
  Bindings out;
  for (const char* name : kNames) out.set(name, draw.integer(0, draw.flip() ? 4 : 60));
  return out;
}

TEST_CASE("an expression evaluates to what plain arithmetic gives, and reads back from its print", "[prop]") {
  test::Draw draw(1);
  for (int i = 0; i < 4000; ++i) {
    const Bindings sizes = random_sizes(draw);
    const Pair p = random_pair(draw, sizes, static_cast<int>(draw.integer(1, 4)));
    INFO(p.expr.to_string());
    REQUIRE(p.expr.eval(sizes) == p.value);
    REQUIRE(SymExpr::parse(p.expr.to_string()) == p.expr);
    REQUIRE(SymExpr::parse(p.expr.to_string()).to_string() == p.expr.to_string());
  }
}

TEST_CASE("a flat program gives what the expression gives", "[prop]") {
  test::Draw draw(2);
  std::vector<Symbol> inputs;
  for (const char* name : kNames) inputs.emplace_back(name);
  for (int i = 0; i < 1000; ++i) {
    const Bindings sizes = random_sizes(draw);
    std::vector<SymExpr> outputs;
    for (int k = 0; k < 4; ++k) outputs.push_back(random_pair(draw, sizes, 3).expr);
    const ExprProgram program(outputs, inputs);
    std::vector<std::int64_t> values, out(outputs.size());
    for (const Symbol input : inputs) values.push_back(sizes.at(input));
    program.evaluate(values, out);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      INFO(outputs[k].to_string());
      REQUIRE(out[k] == outputs[k].eval(sizes));
    }
  }
}

TEST_CASE("bounds hold every value and orders never contradict one", "[prop]") {
  test::Draw draw(3);
  for (int i = 0; i < 2000; ++i) {
    Facts facts;
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (const char* name : kNames) {
      const std::int64_t lo = draw.integer(0, 9), hi = lo + draw.integer(0, 50);
      facts.in_range(Symbol(name), {lo, hi});
      ranges.emplace_back(lo, hi);
    }
    const Bindings any = random_sizes(draw);
    const SymExpr a = random_pair(draw, any, 3).expr;
    const SymExpr b = draw.flip() ? random_pair(draw, any, 3).expr : a + random_pair(draw, any, 2).expr;
    const Bounds range = bounds(a, facts);
    const Order order = compare(a, b, facts);
    INFO(a.to_string() << "  " << to_string(order) << "  " << b.to_string());
    for (int k = 0; k < 20; ++k) {
      Bindings sizes;
      for (std::size_t n = 0; n < ranges.size(); ++n)
        sizes.set(kNames[n], draw.integer(ranges[n].first, ranges[n].second));
      const std::int64_t va = a.eval(sizes), vb = b.eval(sizes);
      REQUIRE((!range.lo || *range.lo <= va));
      REQUIRE((!range.hi || va <= *range.hi));
      if (order == Order::equal) REQUIRE(va == vb);
      if (order == Order::less) REQUIRE(va < vb);
      if (order == Order::less_equal) REQUIRE(va <= vb);
      if (order == Order::greater) REQUIRE(va > vb);
      if (order == Order::greater_equal) REQUIRE(va >= vb);
    }
  }
}

}  // namespace
}  // namespace orrery::models
