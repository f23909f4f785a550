// Properties of symbolic expressions on random ones.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "models/sym/expr.hpp"
#include "tests/models/sym_random.hpp"

namespace orrery::models::test_sym_random {
namespace {

using test::kNames, test::Pair, test::random_pair, test::random_sizes;

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

TEST_CASE("the same sum in another order, factored or expanded, is the same expression", "[prop]") {
  test::Draw draw(4);
  for (int i = 0; i < 1000; ++i) {
    const Bindings sizes = random_sizes(draw);
    const SymExpr a = random_pair(draw, sizes, 2).expr, b = random_pair(draw, sizes, 2).expr;
    const SymExpr c = random_pair(draw, sizes, 3).expr;
    const SymExpr d = draw.integer(1, 9);
    INFO(a.to_string() << " | " << b.to_string() << " | " << c.to_string());
    REQUIRE(((a + b) + c).to_string() == (c + (b + a)).to_string());
    REQUIRE(((a * b) * c).to_string() == (c * (b * a)).to_string());
    REQUIRE((a * (b + c)).to_string() == (c * a + b * a).to_string());
    REQUIRE((a - (b - c)).to_string() == (c + a - b).to_string());
    REQUIRE(floor_div(a * d + b, d).to_string() == (a + floor_div(b, d)).to_string());
    REQUIRE(ceil_div(b + d * a, d).to_string() == (ceil_div(b, d) + a).to_string());
    REQUIRE(min(a, min(b, c)).to_string() == min(min(c, a), b).to_string());
    REQUIRE(max(max(a, b), c).to_string() == max(b, max(c, a)).to_string());
    REQUIRE((((a <=> b) < 0) == ((b <=> a) > 0)));
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

/// A sum of one to three products of dimensions, as sizes of tensors are.
SymExpr random_size(test::Draw& draw) {
  SymExpr sum;
  for (std::int64_t terms = draw.integer(1, 3); terms > 0; --terms) {
    SymExpr term = std::int64_t{1} << draw.integer(0, 6);
    for (std::int64_t factors = draw.integer(1, 3); factors > 0; --factors)
      term *= SymExpr::dim(kNames[draw.integer(0, 3)]);
    sum += term;
  }
  return sum;
}

TEST_CASE("most orders of sizes of tensors that hold are proven", "[prop]") {
  // Pairs whose order no point of many contradicts are taken to be ordered: nearly all of them must be proven.
  test::Draw draw(5);
  Facts facts;
  facts.in_range(Symbol("batch"), {1, 64});
  facts.in_range(Symbol("context"), {1, 4096});
  facts.in_range(Symbol("heads"), {8, 64});
  facts.in_range(Symbol("tokens"), {128, {}});
  int ordered = 0, proven = 0;
  for (int i = 0; i < 3000; ++i) {
    const SymExpr a = random_size(draw), b = random_size(draw);
    bool above = false, below = false;
    for (int k = 0; k < 400 && !(above && below); ++k) {
      const auto pick = [&](std::int64_t lo, std::int64_t hi) {
        const std::int64_t r = draw.integer(0, 3);
        return r == 0 ? lo : r == 1 ? hi : draw.integer(lo, hi);
      };
      Bindings sizes;
      sizes.set("batch", pick(1, 64));
      sizes.set("context", pick(1, 4096));
      sizes.set("heads", pick(8, 64));
      sizes.set("tokens", pick(128, draw.flip() ? 1000 : 100'000));
      const std::int64_t x = a.eval(sizes), y = b.eval(sizes);
      above = above || x > y;
      below = below || x < y;
    }
    const bool decided = compare(a, b, facts) != Order::unknown;
    if (above && below) {
      REQUIRE_FALSE(decided);
    } else {
      ++ordered;
      proven += decided ? 1 : 0;
    }
  }
  // 1,161 of 1,192 when this was written; of the rest some have counterexamples that were not hit.
  CHECK(proven * 100 >= ordered * 95);
}

}  // namespace
}  // namespace orrery::models::test_sym_random
