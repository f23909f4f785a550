#include <catch2/catch.hpp>
#include <limits>
#include <stdexcept>

#include "models/batch_poly.hpp"
#include "tests/models/support.hpp"

namespace orrery::models {
namespace {

const BatchPoly T = Dim::tokens, R = Dim::logit_rows, P = Dim::pairs;
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

BatchPoly random_expr(test::Draw& draw) {
  BatchPoly sum;
  for (std::int64_t terms = draw.integer(0, 4); terms > 0; --terms) {
    BatchPoly term = draw.integer(-50, 50);
    for (std::int64_t factors = draw.integer(0, 3); factors > 0; --factors)
      term *= BatchPoly(static_cast<Dim>(draw.integer(0, static_cast<std::int64_t>(kDims) - 1)));
    sum += term;
  }
  return sum;
}

TEST_CASE("an expression prints in its canonical form", "[unit]") {
  CHECK(BatchPoly().to_string() == "0");
  CHECK(BatchPoly(-7).to_string() == "-7");
  CHECK((2 * Dim::tokens * 4096 * 12288).to_string() == "100663296*T");  // 2 * 4096 * 12288 = 100663296
  CHECK((R * 4 + T).to_string() == "T + 4*R");
  CHECK((T * T * P * -1 - 3).to_string() == "-T^2*P - 3");
  CHECK((T - T).to_string() == "0");
  CHECK((BatchPoly(std::numeric_limits<std::int64_t>::min()) + T).to_string() == "T - 9223372036854775808");
}

TEST_CASE("equal polynomials compare equal however they were made", "[unit]") {
  CHECK((T + 1) * (T - 1) == T * T - 1);
  CHECK((T + R) * (T + R) == T * T + T * R * 2 + R * R);
  CHECK(T + 0 == T);
  CHECK(T * 0 == BatchPoly(0));
  CHECK_FALSE(T == R);
  BatchPoly doubled = T + 5;
  doubled += doubled;
  CHECK(doubled == T * 2 + 10);
  BatchPoly squared = T + 1;
  squared *= squared;
  CHECK(squared == T * T + 2 * Dim::tokens + 1);
}

TEST_CASE("an expression knows its dimensions", "[unit]") {
  CHECK(BatchPoly(3).is_constant());
  CHECK(BatchPoly().is_constant());
  CHECK_FALSE((T + 3).is_constant());
  CHECK((T * R).depends_on(Dim::logit_rows));
  CHECK_FALSE((T * R).depends_on(Dim::pairs));
}

TEST_CASE("evaluation is exact up to 64 bits and refuses what is past them", "[unit]") {
  BatchSizes b;
  b[Dim::tokens] = std::int64_t{1} << 31;
  b[Dim::pairs] = -3;
  CHECK((T * T + P).eval(b) == (std::int64_t{1} << 62) - 3);
  CHECK((T * T * 2 - 1).eval(b) == kMax);  // a partial sum past 64 bits does no harm
  CHECK_THROWS_AS((T * T * 2).eval(b), std::overflow_error);
  CHECK((T * T * -2).eval(b) == std::numeric_limits<std::int64_t>::min());
  CHECK_THROWS_AS((T * T * T * T * T).eval(b), std::overflow_error);  // 2^155: past 128 bits
}

TEST_CASE("coefficients that do not fit are refused and leave the expression as it was", "[unit]") {
  BatchPoly e = T + kMax;
  CHECK_THROWS_AS(e += R + 1, std::overflow_error);
  CHECK(e == T + kMax);
  CHECK_THROWS_AS(e *= BatchPoly(2), std::overflow_error);
  CHECK(e == T + kMax);
  BatchPoly power = T;
  for (int i = 0; i < 7; ++i) power *= power;  // T^128
  CHECK_THROWS_AS(power * power, std::overflow_error);
}

TEST_CASE("expressions form a commutative ring, and evaluation is a homomorphism", "[prop]") {
  test::Draw draw(1);
  for (int round = 0; round < 500; ++round) {
    const BatchPoly a = random_expr(draw), b = random_expr(draw), c = random_expr(draw);
    REQUIRE(a + b == b + a);
    REQUIRE(a * b == b * a);
    REQUIRE((a + b) + c == a + (b + c));
    REQUIRE((a * b) * c == a * (b * c));
    REQUIRE(a * (b + c) == a * b + a * c);
    REQUIRE(a - a == BatchPoly());
    REQUIRE(a + BatchPoly() == a);
    REQUIRE(a * BatchPoly(1) == a);
    REQUIRE((a == b) == (a.to_string() == b.to_string()));
    BatchSizes at;
    for (auto& value : at.values) value = draw.integer(-20, 20);
    REQUIRE((a + b).eval(at) == a.eval(at) + b.eval(at));
    REQUIRE((a * b).eval(at) == a.eval(at) * b.eval(at));
  }
}

}  // namespace
}  // namespace orrery::models
