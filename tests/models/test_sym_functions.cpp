#include <catch2/catch.hpp>
#include <stdexcept>

#include "models/sym/expr.hpp"

namespace orrery::models::test_sym_functions {
namespace {

const SymExpr a = SymExpr::dim("a"), b = SymExpr::dim("b"), q = SymExpr::dim("q"), x = SymExpr::dim("x");

TEST_CASE("the example of docs/explain/symbolic.md", "[unit]") {
  const SymExpr batch = SymExpr::dim("batch"), tokens = SymExpr::dim("tokens");
  const SymExpr tiles = batch * ceil_div(tokens, 128);
  const std::string text = tiles.to_string();                              // "batch*ceil_div(tokens, 128)"
  const std::int64_t value = tiles.eval({{"batch", 4}, {"tokens", 300}});  // 12
  const SymExpr parsed = SymExpr::parse("2*batch*tokens^2 - min(tokens, 128)");
  CHECK(text == "batch*ceil_div(tokens, 128)");
  CHECK(value == 12);                                            // 4 x ceil(300 / 128)
  CHECK(parsed.eval({{"batch", 1}, {"tokens", 200}}) == 79872);  // 2 x 40,000 - 128
}

TEST_CASE("quotients of numbers round down and up", "[unit]") {
  CHECK(floor_div(7, 2) == 3);
  CHECK(floor_div(-7, 2) == -4);
  CHECK(floor_div(-8, 2) == -4);
  CHECK(ceil_div(7, 2) == 4);
  CHECK(ceil_div(-7, 2) == -3);
  CHECK(ceil_div(8, 2) == 4);
  CHECK(ceil_div(0, 5) == 0);
  CHECK_THROWS_WITH(floor_div(a, 0), "symbolic expression: a divisor of 0, expected > 0");
  CHECK_THROWS_AS(ceil_div(1, -3), std::domain_error);
}

TEST_CASE("what a divisor divides leaves a quotient", "[unit]") {
  CHECK(floor_div(a * q, q) == a);
  CHECK(floor_div(x + b * q, q) == floor_div(x, q) + b);
  CHECK(ceil_div(x + b * q, q) == ceil_div(x, q) + b);
  CHECK(floor_div(6 * a * a * b, 2 * a) == 3 * a * b);
  CHECK(floor_div(5 * x + 9, 4) == x + 2 + floor_div(x + 1, 4));
  CHECK(floor_div(x - 4 * a - 1, 4).to_string() == "-a + ceil_div(x, 4) - 1");  // floor((x + 3)/4) - 1 - a
  CHECK(floor_div((a + b) * (x + 1), a + b) == x + 1);                          // a divisor of several terms
  CHECK(floor_div(a * x + 1, a + b).to_string() == "floor_div(a*x + 1, a + b)");
  CHECK(floor_div(SymExpr(0), a) == 0);
}

TEST_CASE("common factors of quotients cancel", "[unit]") {
  CHECK(floor_div(6 * x, 4) == floor_div(3 * x, 2));
  CHECK(floor_div(6 * x + 3, 4) == floor_div(3 * x + 1, 2));  // floor((6x + 3)/4) = floor((6x + 2)/4)
  CHECK(ceil_div(a * x, 4 * a) == ceil_div(x, 4));
  CHECK(floor_div(6 * a * x + 3 * a, 9 * a * b) == floor_div(2 * x + 1, 3 * b));
}

TEST_CASE("ceilings stay ceilings, and the same quotient has one form", "[unit]") {
  CHECK(ceil_div(x, 128).to_string() == "ceil_div(x, 128)");
  CHECK(floor_div(x + 127, 128) == ceil_div(x, 128));
  CHECK(ceil_div(x + 1, 128).to_string() == "floor_div(x, 128) + 1");
  CHECK(ceil_div(x - 3, 2) == ceil_div(x + 1, 2) - 2);
  CHECK(ceil_div(x + 128 * a, 128) == ceil_div(x, 128) + a);
}

TEST_CASE("quotients of quotients become one", "[unit]") {
  CHECK(floor_div(floor_div(x, 4), 8) == floor_div(x, 32));
  CHECK(ceil_div(ceil_div(x, 4), 8) == ceil_div(x, 32));
  CHECK(floor_div(ceil_div(x, 4), 8) == floor_div(x + 3, 32));
  CHECK(ceil_div(floor_div(x, 4), 8) == floor_div(x + 28, 32));  // ceil(n/8) = floor((n + 7)/8), 7*4 = 28
  CHECK(floor_div(2 * ceil_div(x, 4) + 1, 2) == ceil_div(x, 4));
}

TEST_CASE("minima and maxima are flat, sorted and without what cannot decide", "[unit]") {
  CHECK(min(x, x) == x);
  CHECK(max(3, 7) == 7);
  CHECK(min(min(a, b), min(x, a)).to_string() == "min(a, b, x)");
  CHECK(min(a, b) == min(b, a));
  CHECK(max(x, 0) == x);  // dimensions are >= 0
  CHECK(min(x, x + b) == x);
  CHECK(max(x, x + b + 1) == x + b + 1);
  CHECK(max(a, max(a + 1, 0)) == a + 1);
  CHECK(min(a * b, 2 * a * b) == a * b);
  CHECK(min(x, 4).to_string() == "min(4, x)");
  CHECK(max(min(x, 4), 5) == 5);
}

TEST_CASE("what all arguments of an extreme share stands outside", "[unit]") {
  CHECK(min(a + x, b + x) == min(a, b) + x);
  CHECK(max(4 * a, 6 * b) == 2 * max(2 * a, 3 * b));
  CHECK(min(x * a, x * b) == x * min(a, b));
  CHECK(min(x * a + 3, x * b + 3) == x * min(a, b) + 3);
}

TEST_CASE("orders are proven from signs and ranges", "[unit]") {
  CHECK(compare(a, a) == Order::equal);
  CHECK(compare(a + 1, a) == Order::greater);
  CHECK(compare(a, a + b) == Order::less_equal);
  CHECK(compare(a, b) == Order::unknown);
  Facts facts;
  facts.in_range(Symbol("a"), {.lo = 1, .hi = 8});
  facts.in_range(Symbol("b"), {.lo = 9, .hi = {}});
  CHECK(compare(a, b, facts) == Order::less);
  CHECK(compare(a * b, b, facts) == Order::greater_equal);
  facts.equal(Symbol("x"), 4 * a);
  CHECK(provably_equal(x * b, 4 * a * b, facts));
  CHECK(bounds(x + 1, facts) == Bounds{5, 33});
  CHECK(bounds(ceil_div(b, 4), facts) == Bounds{3, {}});
  CHECK(bounds(min(a, b) - max(a, 3), facts) == Bounds{-2, 0});  // a - max(a, 3), a in [1, 8]
  facts.divisible(Symbol("q"), 8);
  CHECK(provably_equal(8 * ceil_div(q, 8), q, facts));
  CHECK(provably_equal(ceil_div(q, 4), floor_div(q, 4), facts));
}

TEST_CASE("sizes of activations are ordered before shapes are known", "[unit]") {
  // A hidden state of 2 bytes against scores of attention: 4*b*s*h and b*s^2*a with h = 128*a differ by
  // b*s*a*(512 - s), so that the length decides (BladeDISC++ asks such questions).
  const SymExpr s = SymExpr::dim("s"), h = SymExpr::dim("h");
  Facts facts;
  for (const char* name : {"a", "b", "s"}) facts.in_range(Symbol(name), {1, {}});
  facts.equal(Symbol("h"), 128 * a);
  CHECK(compare(4 * b * s * h, b * s * s * a, facts) == Order::unknown);
  Facts shorter = facts;
  shorter.in_range(Symbol("s"), {1, 511});
  CHECK(compare(4 * b * s * h, b * s * s * a, shorter) == Order::greater);
  facts.in_range(Symbol("s"), {512, 4096});
  CHECK(compare(4 * b * s * h, b * s * s * a, facts) == Order::less_equal);
  CHECK(bounds(4 * b * s * h - b * s * s * a, shorter).lo == 511);  // b = a = s = 1: 512 - 1
  CHECK(compare(128 * ceil_div(s, 128), s) == Order::greater_equal);
  CHECK(compare(128 * ceil_div(s, 128), s + 127) == Order::less_equal);
  CHECK(compare(b * floor_div(s, b), s) == Order::less_equal);
  CHECK(compare(min(a, b) + max(a, b), a + b) == Order::equal);
}

TEST_CASE("facts that contradict are refused", "[unit]") {
  Facts facts;
  facts.in_range(Symbol("a"), {.lo = 4, .hi = 8});
  CHECK_THROWS_WITH(facts.in_range(Symbol("a"), {.lo = 9, .hi = {}}),
                    "dimension 'a': no value is at least 9 and at most 8");
  CHECK(facts.range(Symbol("a")) == Bounds{4, 8});
  CHECK(facts.range(Symbol("b")) == Bounds{0, {}});
  facts.equal(Symbol("x"), 2 * b);
  CHECK_THROWS_WITH(facts.equal(Symbol("b"), x + 1),
                    "dimension 'b': equal to 'x + 1', which depends on it or follows another equality");
  CHECK_THROWS_WITH(facts.divisible(Symbol("a"), 0), "dimension 'a': expected a divisor of at least 1, got 0");
}

}  // namespace
}  // namespace orrery::models::test_sym_functions
