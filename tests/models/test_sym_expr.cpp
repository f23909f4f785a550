#include <catch2/catch.hpp>
#include <limits>
#include <stdexcept>

#include "models/sym/expr.hpp"
#include "tests/models/support.hpp"

namespace orrery::models::test_sym_expr {
namespace {

const SymExpr batch = SymExpr::dim("batch"), tokens = SymExpr::dim("tokens"), hidden = SymExpr::dim("hidden");
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TEST_CASE("an expression prints in its canonical form, ordered by name", "[unit]") {
  CHECK(SymExpr().to_string() == "0");
  CHECK(SymExpr(-7).to_string() == "-7");
  CHECK((2 * tokens * tokens * batch - 7 + ceil_div(tokens, 128)).to_string() ==
        "2*batch*tokens^2 + ceil_div(tokens, 128) - 7");
  CHECK((tokens + hidden * 4 + batch).to_string() == "batch + 4*hidden + tokens");
  CHECK((0 - batch * batch + 1).to_string() == "-batch^2 + 1");
  CHECK((kMin + tokens).to_string() == "tokens - 9223372036854775808");
  CHECK((tokens - tokens).to_string() == "0");
  const Symbol first[] = {Symbol("tokens"), Symbol("hidden")};
  CHECK((tokens + hidden * 4 + batch + 2).to_string(first) == "tokens + 4*hidden + batch + 2");
  CHECK(max(tokens - batch, 1).to_string() == "max(1, -batch + tokens)");
}

TEST_CASE("equal polynomials are equal however they were made", "[unit]") {
  CHECK((tokens + 1) * (tokens - 1) == tokens * tokens - 1);
  CHECK((batch + hidden) * (batch + hidden) == batch * batch + 2 * batch * hidden + hidden * hidden);
  CHECK(tokens * 0 == 0);
  CHECK_FALSE(tokens == hidden);
  SymExpr doubled = tokens + 5;
  doubled += doubled;
  CHECK(doubled == 2 * tokens + 10);
  SymExpr squared = tokens + 1;
  squared *= squared;
  CHECK(squared == tokens * tokens + 2 * tokens + 1);
  SymExpr gone = tokens;
  gone -= gone;
  CHECK(gone.is_zero());
}

TEST_CASE("an expression knows its dimensions and whether it is a number", "[unit]") {
  CHECK(SymExpr(3).constant() == 3);
  CHECK((tokens - tokens + 4).constant() == 4);
  CHECK_FALSE((tokens + 3).constant());
  const SymExpr e = hidden * ceil_div(tokens, batch + 1);
  CHECK(e.depends_on(Symbol("batch")));
  CHECK_FALSE(e.depends_on(Symbol("heads")));
  CHECK(e.symbols() == std::vector<Symbol>{Symbol("batch"), Symbol("hidden"), Symbol("tokens")});
  CHECK(product(std::vector<SymExpr>{batch, 4, hidden}) == 4 * batch * hidden);
  CHECK(product({}) == 1);
}

TEST_CASE("names of dimensions are checked", "[unit]") {
  CHECK(Symbol("layer.0_tokens").name() == "layer.0_tokens");
  CHECK(Symbol("a") == Symbol("a"));
  CHECK(Symbol("a") < Symbol("b"));
  for (const char* bad : {"", "3d", "a-b", "a b", ".a", "a*"}) CHECK_THROWS_AS(Symbol(bad), std::invalid_argument);
  CHECK_THROWS_WITH(Symbol("3d"), "dimension '3d': expected letters, digits, '_' and '.', not starting with a digit");
}

TEST_CASE("a symbolic expression evaluates exactly up to 64 bits", "[unit]") {
  const Bindings at{{"tokens", std::int64_t{1} << 31}, {"batch", 3}};
  CHECK((tokens * tokens - batch).eval(at) == (std::int64_t{1} << 62) - 3);
  CHECK((tokens * tokens * 2 - 1).eval(at) == kMax);  // a partial sum past 64 bits does no harm
  CHECK_THROWS_AS((tokens * tokens * 2).eval(at), std::overflow_error);
  CHECK((tokens * tokens * -2).eval(at) == kMin);
  CHECK_THROWS_AS((tokens * tokens * tokens * tokens * tokens).eval(at), std::overflow_error);  // 2^155
  CHECK_THROWS_WITH((tokens + hidden).eval(at), "no value for dimension 'hidden'");
  CHECK_THROWS_AS((tokens + hidden).eval(at), UnboundSymbol);
  CHECK_THROWS_WITH(floor_div(tokens, batch - 3).eval(at),
                    "symbolic expression: divisor 'batch - 3' is 0, expected > 0");
}

TEST_CASE("bindings hold the last value of a name, in the order of names", "[unit]") {
  Bindings b{{"b", 2}, {"a", 1}, {"b", 3}};
  REQUIRE(b.values().size() == 2);
  CHECK(b.values()[0].first.name() == "a");
  CHECK(b.at(Symbol("b")) == 3);
  CHECK_FALSE(b.find(Symbol("c")));
  CHECK(b == Bindings{{"a", 1}, {"b", 3}});
}

TEST_CASE("what does not fit is refused and leaves the expression as it was", "[unit]") {
  SymExpr e = tokens + kMax;
  CHECK_THROWS_AS(e += hidden + 1, std::overflow_error);
  CHECK_THROWS_AS(e *= SymExpr(2), std::overflow_error);
  CHECK_THROWS_AS(e -= SymExpr(-1), std::overflow_error);
  CHECK(e == tokens + kMax);
  SymExpr power = tokens;
  for (int i = 0; i < 7; ++i) power *= power;  // tokens^128
  CHECK_THROWS_WITH(power * power, "symbolic expression: an exponent above 255");
  CHECK_THROWS_AS(SymExpr(kMax) + 1, std::overflow_error);
  CHECK_THROWS_AS(SymExpr(kMax) * 2, std::overflow_error);
}

TEST_CASE("a dimension is replaced everywhere, and the rules apply again", "[unit]") {
  const Symbol t("tokens");
  CHECK((tokens * tokens + batch).substitute(t, batch + 1) == batch * batch + 3 * batch + 1);
  CHECK(ceil_div(tokens, 128).substitute(t, 256 * batch + 1) == 2 * batch + 1);
  CHECK(min(tokens, batch).substitute(t, batch) == batch);
  CHECK((batch + 1).substitute(t, 7) == batch + 1);
}

TEST_CASE("formulas are read", "[unit]") {
  CHECK(SymExpr::parse("2*batch*tokens^2 + ceil_div(tokens, 128) - 7") ==
        2 * batch * tokens * tokens + ceil_div(tokens, 128) - 7);
  CHECK(SymExpr::parse(" ( batch+1 )*(batch - 1)") == batch * batch - 1);
  CHECK(SymExpr::parse("-batch^2 - -3") == 0 - batch * batch + 3);
  CHECK(SymExpr::parse("-9223372036854775808") == kMin);
  CHECK(SymExpr::parse("min(tokens, batch, hidden)") == min(tokens, min(batch, hidden)));
  CHECK(SymExpr::parse("floor_div(max(a, 4*b), 2*c)").to_string() == "floor_div(max(a, 4*b), 2*c)");
  CHECK(SymExpr::parse("(a + 1)^3") == SymExpr::parse("a^3 + 3*a^2 + 3*a + 1"));
}

TEST_CASE("a formula that does not parse says where and what was expected", "[unit]") {
  const auto says = [](const char* text, const char* message) {
    CHECK_THROWS_AS(SymExpr::parse(text), std::invalid_argument);
    CHECK_THROWS_WITH(SymExpr::parse(text), message);
  };
  says("", "formula '': expected a number, a dimension, a function or '(' at character 1, got the end");
  says("2 * ", "formula '2 * ': expected a number, a dimension, a function or '(' at character 5, got the end");
  says("(a + 1", "formula '(a + 1': expected ')' at character 7, got the end");
  says("a / 2", "formula 'a / 2': expected an operator or the end at character 3, got '/'");
  says("2a", "formula '2a': expected an operator or the end at character 2, got 'a'");
  says("ceil(a, 2)",
       "formula 'ceil(a, 2)': expected floor_div, ceil_div, min or max before '(' at character 1, got 'c'");
  says("min(a)", "formula 'min(a)': expected ',' at character 6, got ')'");
  says("ceil_div(a, 0)", "formula 'ceil_div(a, 0)': symbolic expression: a divisor of 0, expected > 0");
  says("99999999999999999999",
       "formula '99999999999999999999': expected an integer of 64 bits at character 1, got '9'");
  says("a^256", "formula 'a^256': expected an exponent of at most 255 at character 3, got '2'");
  says("a^b", "formula 'a^b': expected an exponent at character 3, got 'b'");
  says("a*9223372036854775807*2",
       "formula 'a*9223372036854775807*2': symbolic expression: a value does not fit 64 bits");
  CHECK_THROWS_WITH(SymExpr::parse(std::string(1000, '(')),
                    Catch::Contains("expected at most 200 levels of parentheses at character 201"));
  CHECK_THROWS_WITH(SymExpr::parse("(a+b+c+d+e+f+g+h)^200"), Catch::Contains("a product of more than 100000 terms"));
}

}  // namespace
}  // namespace orrery::models::test_sym_expr
