// Formulas: arithmetic by hand, NaN, reductions, every fault, and random expressions against a direct evaluation.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/formula.hpp"
#include "sim/base/math.hpp"
#include "sim/base/random.hpp"
#include "tests/allocations.hpp"

namespace test_formula {

using namespace orrery::sim;
using Catch::Contains;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Two scalars, two measures over four batches, an axis with names.
struct Scene {
  FormulaNames names;
  std::vector<double> scalars{3, 0.5};
  std::vector<std::vector<double>> columns{{10, 20, 40, 80}, {1, 2, 4, kNan}, {1, 2, 4, 8}, {0, 1, 0, 1}};
  std::vector<std::span<const double>> series;

  Scene() {
    names.scalar("request.wait");
    names.scalar("weight");
    names.series("jit.stall");
    names.series("dvm.stall");
    names.set_default_axis(names.series("batch"));
    names.series("model", {{"bert", 0}, {"gpt2", 1}});
    for (const auto& column : columns) series.emplace_back(column);
  }
  FormulaValues values() const { return {scalars, series}; }

  Formula parse(const std::string& text) const {
    Faults faults;
    auto formula = Formula::parse(text, names, {"f.json", "/value"}, faults);
    INFO(text << ": " << (faults.empty() ? "" : faults.all().front().text()));
    REQUIRE(formula);
    return *formula;
  }
  double number(const std::string& text) const { return parse(text).number(values()); }
  std::vector<double> all(const std::string& text) const {
    std::vector<double> out;
    parse(text).series(values(), out);
    return out;
  }
  std::string fault(const std::string& text, std::size_t count = 1) const {
    Faults faults;
    CHECK_FALSE(Formula::parse(text, names, {"f.json", "/value"}, faults));
    INFO(text);
    CHECK(faults.size() == count);
    return faults.all().front().text();
  }
};

}  // namespace

TEST_CASE("formula: precedence and associativity", "[unit]") {
  const Scene scene;
  CHECK(scene.number("1 + 2 * 3") == 7);
  CHECK(scene.number("(1 + 2) * 3") == 9);
  CHECK(scene.number("8 / 4 / 2") == 1);
  CHECK(scene.number("2 - 3 - 4") == -5);
  CHECK(scene.number("2 ^ 3 ^ 2") == 512);  // 2^(3^2)
  CHECK(scene.number("-2 ^ 2") == -4);
  CHECK(scene.number("2 ^ -1") == 0.5);
  CHECK(scene.number("--3 - +1") == 2);
  CHECK(scene.number("1.5e3 + .5") == 1500.5);
  CHECK(scene.number("1 + 1 < 3 && 2 >= 2 || 0") == 1);
  CHECK(scene.number("!0 + 1") == 0);  // ! binds looser than arithmetic: !(0 + 1)
  CHECK(scene.number("!(1 == 1) || 2 != 2") == 0);
  CHECK(scene.number("request.wait * weight") == 1.5);
}

TEST_CASE("formula: functions", "[unit]") {
  const Scene scene;
  CHECK(scene.number("min2(3, 2) + max2(3, 2)") == 5);
  CHECK(scene.number("abs(-2) + floor(1.7) + ceil(1.2) + round(2.5)") == 8);
  CHECK(scene.number("sqrt(9) + log2(8) + log10(100)") == 8);
  CHECK(scene.number("exp(log(5))") == Approx(5).epsilon(1e-15));
  CHECK(scene.number("if(request.wait > 2, 10, 20)") == 10);
  CHECK(scene.number("if(0, 10, 20)") == 20);
}

TEST_CASE("formula: series are elementwise, reductions give one number", "[unit]") {
  const Scene scene;
  CHECK(scene.parse("jit.stall / batch").is_series());
  CHECK(scene.all("jit.stall / batch") == std::vector<double>{10, 10, 10, 10});
  CHECK(scene.all("batch > 2") == std::vector<double>{0, 0, 1, 1});
  CHECK(scene.all("7") == std::vector<double>{7});
  CHECK(scene.number("min(batch) + max(batch)") == 9);
  CHECK(scene.number("mean(batch)") == 3.75);  // (1 + 2 + 4 + 8) / 4
  CHECK(scene.number("sum(batch)") == 15);
  CHECK(scene.number("geomean(batch)") == Approx(std::sqrt(8.0)).epsilon(1e-15));  // (1*2*4*8)^(1/4) = 64^(1/4)
  CHECK(scene.number("geomean(batch * 0 + 0.1)") == 0.1);                          // exp(log(0.1)) is not
  CHECK(scene.number("mean(batch * 0 + 0.1)") == 0.1);
  CHECK(scene.number("first(batch) + 10 * last(batch)") == 81);
  CHECK(scene.number("count(batch >= 4)") == 2);
  CHECK(scene.number("all(batch > 0) + any(batch > 7)") == 2);
  CHECK(scene.number("all(batch > 1) + any(batch > 8)") == 0);
  CHECK(scene.number("max(jit.stall / max(jit.stall))") == 1);  // a reduction inside another
  CHECK(scene.number("sum(1 where batch > 1)") == 3);
}

TEST_CASE("formula: selecting elements", "[unit]") {
  const Scene scene;
  CHECK(scene.number("sum(batch where batch > 1 && batch < 8)") == 6);
  CHECK(scene.number("at(jit.stall, 4)") == 40);
  CHECK(scene.number("at(jit.stall, 2 * 2)") == 40);
  CHECK(scene.number("at(jit.stall, batch == 8)") == 80);
  CHECK(scene.number("at(jit.stall where batch == 8)") == 80);
  CHECK(std::isnan(scene.number("at(jit.stall, 3)")));          // no element
  CHECK(std::isnan(scene.number("at(jit.stall, batch > 2)")));  // two
  CHECK(scene.number("sum(batch where model == \"gpt2\")") == 10);
  CHECK(scene.number("sum(batch where model != 'gpt2')") == 5);
  std::vector<double> inner;
  scene.parse("max(jit.stall / 10 where batch != 2)").reduced(scene.values(), inner);
  REQUIRE(inner.size() == 4);
  CHECK(inner[0] == 1);
  CHECK(std::isnan(inner[1]));
  CHECK(inner[3] == 8);
  scene.parse("1 + max(batch)").reduced(scene.values(), inner);
  CHECK(inner == std::vector<double>{9});
}

TEST_CASE("formula: what is not there goes through everything that needs it", "[unit]") {
  const Scene scene;  // dvm.stall has no fourth element
  for (const char* reduction : {"all", "count", "geomean", "last", "max", "mean", "min", "sum"})
    CHECK(std::isnan(scene.number(std::string(reduction) + "(dvm.stall)")));
  CHECK(std::isnan(scene.number("all(dvm.stall < 100)")));
  CHECK(std::isnan(scene.number("max2(0, last(dvm.stall))")));
  CHECK(std::isnan(scene.number("sum(batch where dvm.stall > 0)")));
  CHECK(scene.number("sum(dvm.stall where batch < 8)") == 7);
  CHECK(scene.number("sum(if(batch < 8, dvm.stall, 100))") == 107);
  CHECK(scene.number("all(dvm.stall < 1)") == 0);  // the first decides
  CHECK(scene.number("any(dvm.stall > 3)") == 1);
  CHECK(scene.number("all(batch == 8 || dvm.stall < 8)") == 1);
  // Nothing selected.
  for (const char* reduction : {"at", "first", "geomean", "last", "max", "mean", "min"})
    CHECK(std::isnan(scene.number(std::string(reduction) + "(batch where batch > 100)")));
  CHECK(scene.number("sum(batch where 0) + count(batch where 0) + any(batch where 0)") == 0);
  CHECK(scene.number("all(batch where 0)") == 1);
}

TEST_CASE("formula: slots it reads", "[unit]") {
  const Scene scene;
  const Formula formula = scene.parse("weight * max(jit.stall where model == 'bert') + weight");
  CHECK(formula.scalars_used() == std::vector<std::size_t>{1});
  CHECK(formula.series_used() == std::vector<std::size_t>{0, 3});
  CHECK(scene.parse("at(jit.stall, 4)").series_used() == std::vector<std::size_t>{0, 2});
}

TEST_CASE("formula: faults name the column and the nearest name", "[unit]") {
  const Scene scene;
  CHECK(scene.fault("1 + jit.stal") ==
        "f.json:/value: formula \"1 + jit.stal\", column 5: unknown name 'jit.stal' (did you mean 'jit.stall'?)");
  scene.fault("max(foo) + bar.x", 2);  // every unknown name
  CHECK_THAT(scene.fault("maxx(batch)"), Contains("column 1: unknown function 'maxx' (did you mean 'max' or 'max2'?)"));
  CHECK_THAT(scene.fault(""), Contains("expected a number, a name or '(', got the end"));
  CHECK_THAT(scene.fault("1 +"), Contains("column 4: expected a number, a name or '(', got the end"));
  CHECK_THAT(scene.fault("1 + where"), Contains("column 5: expected a number, a name or '(', got 'w"));
  CHECK_THAT(scene.fault("max(where batch > 1)"), Contains("column 5: expected a number, a name or '(', got 'w"));
  CHECK_THAT(scene.fault("(1 + 2"), Contains("expected ')', got the end"));
  CHECK_THAT(scene.fault("1 2"), Contains("column 3: expected an operator or the end, got '2'"));
  CHECK_THAT(scene.fault("2x"), Contains("expected an operator after 2, got 'x'"));
  CHECK_THAT(scene.fault("1 < 2 < 3"), Contains("comparisons do not chain (write a < b && b < c)"));
  CHECK_THAT(scene.fault("max(weight)"), Contains("expected a series in max(), got a scalar"));
  CHECK_THAT(scene.fault("max(batch, weight)"), Contains("expected ')' or 'where' in max() (elementwise it is max2"));
  CHECK_THAT(scene.fault("max2(1)"), Contains("expected 2 arguments of max2(), got ')' after argument 1"));
  CHECK_THAT(scene.fault("sqrt(1, 2)"), Contains("expected ')' after argument 1 of sqrt(), got ','"));
  CHECK_THAT(scene.fault("any(model == \"brt\")"), Contains("'model' is never \"brt\" (did you mean 'bert'?)"));
  CHECK_THAT(scene.fault("any(batch == \"bert\")"), Contains("expected a name that has texts as values"));
  CHECK_THAT(scene.fault("any(model < \"bert\")"), Contains("expected == or != before a text"));
  CHECK_THAT(scene.fault("any(\"bert\" == model)"), Contains("expected a text only to the right of"));
  CHECK_THAT(scene.fault("any(model == \"bert)"), Contains("expected the closing quote"));
  CHECK_THAT(scene.fault("1 = 1"), Contains("column 3: expected an operator or the end, got '='"));
  CHECK_THAT(scene.fault(std::string(1000, '(') + "1"), Contains("expected fewer than 200 levels"));
  std::string deep = "1";
  for (int i = 0; i < 40; ++i) deep = "1+(" + deep + ")";
  CHECK_THAT(scene.fault(deep), Contains("expected at most 32 values at a time"));
  std::string many = "0";
  for (int i = 0; i < 33; ++i) many += "+max(batch)";
  CHECK_THAT(scene.fault(many), Contains("expected at most 32 reductions"));

  FormulaNames names;
  names.series("a");
  Faults faults;
  CHECK_FALSE(Formula::parse("at(a, 3)", names, {}, faults));
  CHECK_THAT(faults.all().front().text(), Contains("write at(series, axis == number)"));
  CHECK_THROWS_WITH(names.scalar("a"), "the name 'a' is declared already");
}

TEST_CASE("formula: misuse by the program", "[unit]") {
  Scene scene;
  CHECK_THROWS_AS(scene.parse("batch").number(scene.values()), std::invalid_argument);
  const std::vector<double> shorter{1, 2};
  scene.series[0] = shorter;
  CHECK_THROWS_AS(scene.number("sum(jit.stall + batch)"), std::invalid_argument);
  CHECK(scene.number("sum(jit.stall) + sum(batch)") == 18);  // series of different expressions need not be alike
}

namespace {

/// A random expression: its text, and its value at every element computed beside it.
struct Random {
  std::string text;
  std::vector<double> value;
};

Random random_expression(RandomStream& random, const Scene& scene, int depth) {
  const auto pick = [&](int n) { return static_cast<int>(random.uniform() * n); };
  if (depth == 0) {
    const int leaf = pick(3);
    if (leaf == 0) return {"batch", {1, 2, 4, 8}};
    if (leaf == 1) return {"jit.stall", scene.columns[0]};
    const int digit = pick(9) + 1;
    return {std::to_string(digit), std::vector<double>(4, digit)};
  }
  const Random a = random_expression(random, scene, depth - 1);
  const Random b = random_expression(random, scene, pick(depth));
  Random out;
  const int kind = pick(8);
  const auto each = [&](auto f) {
    for (std::size_t i = 0; i < 4; ++i) out.value.push_back(f(a.value[i], b.value[i]));
  };
  switch (kind) {
    case 0:
      out.text = "(" + a.text + ") + (" + b.text + ")";
      each([](double x, double y) { return x + y; });
      break;
    case 1:
      out.text = "(" + a.text + ") - (" + b.text + ")";
      each([](double x, double y) { return x - y; });
      break;
    case 2:
      out.text = "(" + a.text + ") * (" + b.text + ")";
      each([](double x, double y) { return x * y; });
      break;
    case 3:
      out.text = "(" + a.text + ") <= (" + b.text + ")";
      each([](double x, double y) { return x <= y ? 1.0 : 0.0; });
      break;
    case 4:
      out.text = "max2(" + a.text + ", -(" + b.text + "))";
      each([](double x, double y) { return std::max(x, -y); });
      break;
    case 5:
      out.text = "if(" + a.text + " > 3, " + b.text + ", " + a.text + ")";
      each([](double x, double y) { return x > 3 ? y : x; });
      break;
    case 6: {  // a reduction goes with every element of the other side
      out.text = "(" + a.text + ") - max(batch * 0 + (" + b.text + "))";
      const double most = *std::max_element(b.value.begin(), b.value.end());
      each([&](double x, double) { return x - most; });
      break;
    }
    default: {
      out.text = "sum(batch * 0 + (" + a.text + ") where batch > 1) + (" + b.text + ")";
      const double sum = a.value[1] + a.value[2] + a.value[3];
      each([&](double, double y) { return sum + y; });
    }
  }
  return out;
}

}  // namespace

TEST_CASE("formula: random expressions equal a direct evaluation", "[prop]") {
  const Scene scene;
  RandomStream random(7, "formulas");
  int parsed = 0;
  for (int i = 0; i < 3000; ++i) {
    const Random expression = random_expression(random, scene, 1 + i % 4);
    Faults faults;
    const auto formula = Formula::parse(expression.text, scene.names, {}, faults);
    if (!formula) continue;  // too many reductions, or values at a time
    ++parsed;
    std::vector<double> out;
    formula->series(scene.values(), out);
    INFO(expression.text);
    if (!formula->is_series()) out.resize(4, out.front());
    REQUIRE(out == expression.value);
  }
  CHECK(parsed > 2900);
}

TEST_CASE("formula: any text is a formula or a fault", "[prop]") {
  const Scene scene;
  RandomStream random(11, "texts");
  const std::vector<std::string> pieces{"batch", "jit.stall", "(",      ")",     "max(", "at(", ",",  "where",
                                        "+",     "-",         "*",      "^",     "<",    "==",  "!",  "1",
                                        "2.5",   "&&",        "'bert'", "model", " ",    ".",   "if("};
  int formulas = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (int n = static_cast<int>(random.uniform() * 9); n >= 0; --n)
      text += pieces[static_cast<std::size_t>(random.uniform() * static_cast<double>(pieces.size()))];
    Faults faults;
    const auto formula = Formula::parse(text, scene.names, {}, faults);
    INFO(text);
    REQUIRE(formula.has_value() == faults.empty());
    if (!formula) continue;
    ++formulas;
    std::vector<double> out;
    formula->series(scene.values(), out);
    REQUIRE(!out.empty());
  }
  CHECK(formulas > 100);
}

TEST_CASE("formula: evaluating allocates nothing", "[unit]") {
  const Scene scene;
  const Formula formula = scene.parse("weight * request.wait ^ 2 + max(jit.stall / batch where batch > 1)");
  double sum = 0;
  const auto before = orrery::test::allocations();
  for (int i = 0; i < 1000; ++i) sum += formula.number(scene.values());
  CHECK(orrery::test::allocations() == before);
  CHECK(sum == 14500);  // 0.5 * 9 + 10
}

TEST_CASE("a sign takes no room among the values that are held at a time", "[unit]") {
  // Two values at a time, whatever the number of terms: 40 negated ones of 3 make -120.
  std::string text = "0";
  for (int i = 0; i < 40; ++i) text += " + -request.wait";
  CHECK(Scene().number(text) == -120);
}

}  // namespace test_formula
