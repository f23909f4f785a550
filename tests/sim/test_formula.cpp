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

TEST_CASE("formula: names are counted by kind, in the order of declaration", "[unit]") {
  FormulaNames names;
  CHECK_FALSE(names.default_axis());
  CHECK(names.scalar("a") == 0);
  CHECK(names.series("b", {{"low", 1}, {"high", 2}}) == 0);
  CHECK(names.scalar("c", {{"x", 3}}) == 1);
  CHECK(names.series("d") == 1);
  names.set_default_axis(1);
  CHECK(names.default_axis() == 1U);
  REQUIRE(names.all().size() == 4);
  CHECK(names.all()[3].name == "d");
  CHECK(names.find("b")->series);
  CHECK(names.find("b")->labels[1].second == 2);
  CHECK_FALSE(names.find("c")->series);
  CHECK(names.find("c")->slot == 1);
  CHECK(names.find("c")->labels.size() == 1);
  CHECK(names.find("e") == nullptr);
  CHECK_THROWS_WITH(names.series("a"), "the name 'a' is declared already");
}

TEST_CASE("formula: a name has letters, digits and underlines, and no digit first", "[unit]") {
  for (const char* name : {"a", "z", "A", "Z", "_", "a0", "a9", "_9z", "aZ_"}) CHECK(is_formula_name(name));
  for (const char* name : {"", "0", "9a", "a-b", "a.b", "a b", "@", "[", "`", "{", "a@", "a[", "a`", "a{", "a/", "a:"})
    CHECK_FALSE(is_formula_name(name));
}

TEST_CASE("formula: comparisons below, at and above", "[unit]") {
  const Scene scene;
  const auto row = [&](const std::string& op) {
    return scene.number("1" + op + "2") * 100 + scene.number("2" + op + "2") * 10 + scene.number("3" + op + "2");
  };
  CHECK(row("<") == 100);
  CHECK(row("<=") == 110);
  CHECK(row(">") == 1);
  CHECK(row(">=") == 11);
  CHECK(row("==") == 10);
  CHECK(row("!=") == 101);
}

TEST_CASE("formula: functions on both sides of zero", "[unit]") {
  const Scene scene;
  for (const auto& [text, value] : {std::pair{"abs(3)", 3.0},
                                    {"abs(-3)", 3},
                                    {"ceil(-1.2)", -1},
                                    {"floor(-1.2)", -2},
                                    {"round(-2.5)", -3},
                                    {"round(2.4)", 2},
                                    {"exp(0)", 1},
                                    {"log(1)", 0},
                                    {"log10(1000)", 3},
                                    {"log2(0.5)", -1},
                                    {"sqrt(2.25)", 1.5},
                                    {"max2(-1, -2)", -1},
                                    {"min2(-1, -2)", -2},
                                    {"max2(1, 2)", 2},
                                    {"min2(1, 2)", 1},
                                    {"!3", 0},
                                    {"!0", 1},
                                    {"!!3", 1},
                                    {"-(2 - 5)", 3},
                                    {"2 * -3", -6},
                                    {"7 / 2", 3.5},
                                    {"2 ^ 0.5 ^ 2", 1.189207115002721},  // 2^0.25
                                    {"if(-1, 10, 20)", 10},
                                    {"if(0, 10, if(1, 30, 40))", 30}}) {
    CAPTURE(text);
    CHECK(scene.number(text) == Approx(value).epsilon(1e-15));
  }
}

TEST_CASE("formula: what is not there, in every operation", "[unit]") {
  const Scene scene;
  const std::string none = "last(dvm.stall)";  // not a number
  for (const char* op : {"+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!="}) {
    CAPTURE(op);
    CHECK(std::isnan(scene.number("1 " + std::string(op) + " " + none)));
    CHECK(std::isnan(scene.number(none + " " + std::string(op) + " 1")));
  }
  for (const char* function : {"abs", "ceil", "floor", "round", "sqrt", "log", "exp"})
    CHECK(std::isnan(scene.number(std::string(function) + "(" + none + ")")));
  for (const char* function : {"max2", "min2"}) {
    CHECK(std::isnan(scene.number(std::string(function) + "(1, " + none + ")")));
    CHECK(std::isnan(scene.number(std::string(function) + "(" + none + ", 1)")));
  }
  CHECK(std::isnan(scene.number("-" + none)));
  CHECK(std::isnan(scene.number("!" + none)));
  CHECK(std::isnan(scene.number("if(" + none + ", 1, 2)")));
  CHECK(scene.number("if(1, 5, " + none + ")") == 5);
  // 0 && x is 0 and 1 || x is 1, whatever x.
  CHECK(scene.number("0 && " + none) == 0);
  CHECK(scene.number(none + " && 0") == 0);
  CHECK(std::isnan(scene.number("1 && " + none)));
  CHECK(std::isnan(scene.number(none + " && 1")));
  CHECK(scene.number("2 && 3") == 1);
  CHECK(scene.number("1 || " + none) == 1);
  CHECK(scene.number(none + " || 2") == 1);
  CHECK(std::isnan(scene.number("0 || " + none)));
  CHECK(std::isnan(scene.number(none + " || 0")));
  CHECK(scene.number("0 || 0") == 0);
  CHECK(scene.number("0 || -2") == 1);
}

TEST_CASE("formula: reductions of values below zero, of one and of none", "[unit]") {
  Scene scene;
  scene.columns[0] = {-3, -1, -2, -4};
  for (std::size_t i = 0; i < 4; ++i) scene.series[i] = scene.columns[i];
  for (const auto& [text, value] : {std::pair{"max(jit.stall)", -1.0},
                                    {"min(jit.stall)", -4},
                                    {"sum(jit.stall)", -10},
                                    {"mean(jit.stall)", -2.5},
                                    {"first(jit.stall)", -3},
                                    {"last(jit.stall)", -4},
                                    {"all(jit.stall)", 1},  // not 0
                                    {"any(jit.stall)", 1},
                                    {"any(jit.stall > 0)", 0},
                                    {"all(jit.stall < -1)", 0},
                                    {"count(jit.stall)", 4},
                                    {"count(jit.stall + 1)", 3},  // one is 0
                                    {"count(model)", 2},
                                    {"all(model)", 0},
                                    {"any(model)", 1},
                                    {"geomean(batch where batch < 3)", std::sqrt(2.0)},
                                    {"geomean(batch where batch == 8)", 8},
                                    {"mean(batch where batch >= 4)", 6},
                                    {"min(jit.stall where batch != 8)", -3},
                                    {"at(jit.stall where batch == 2)", -1},
                                    {"at(jit.stall, 1)", -3},
                                    {"first(jit.stall where batch > 1)", -1},
                                    {"last(jit.stall where batch < 8)", -2}}) {
    CAPTURE(text);
    CHECK(scene.number(text) == Approx(value).epsilon(1e-15));
  }
  CHECK(std::isnan(scene.number("first(dvm.stall where batch == 8)")));
  CHECK(scene.number("first(dvm.stall)") == 1);  // the rest does not matter
  CHECK(scene.number("any(dvm.stall)") == 1);
  CHECK(std::isnan(scene.number("any(dvm.stall > 9)")));
  CHECK(std::isnan(scene.number("count(dvm.stall)")));
}

TEST_CASE("formula: a condition may be a scalar, a series or a reduction", "[unit]") {
  const Scene scene;
  CHECK(scene.number("sum(batch where 1)") == 15);
  CHECK(scene.number("sum(batch where weight)") == 15);
  CHECK(scene.number("sum(batch where batch == max(batch))") == 8);
  CHECK(scene.number("sum(batch where 2 * batch > sum(batch))") == 8);
  CHECK(scene.number("sum(2 * batch where model == 'bert' || batch == 8)") == 26);  // 2 * (1 + 4 + 8)
  CHECK(scene.number("max(batch / sum(batch where batch > 2) where batch < 8)") == Approx(4.0 / 12));
  CHECK(std::isnan(scene.number("count(1 where dvm.stall > 0)")));  // one condition is not there
}

TEST_CASE("formula: the inside of a reduction, element by element", "[unit]") {
  const Scene scene;
  std::vector<double> out;
  scene.parse("sum(dvm.stall)").reduced(scene.values(), out);
  REQUIRE(out.size() == 4);
  CHECK(out[2] == 4);
  scene.parse("sum(batch where dvm.stall < 4)").reduced(scene.values(), out);
  REQUIRE(out.size() == 4);
  CHECK(out[1] == 2);
  CHECK(std::isnan(out[2]));                                            // left out
  CHECK(std::isnan(out[3]));                                            // its condition is not there
  scene.parse("sum(batch - max(batch))").reduced(scene.values(), out);  // the outer of two
  CHECK(out == std::vector<double>{-7, -6, -4, 0});
  scene.parse("-sum(batch)").reduced(scene.values(), out);
  CHECK(out == std::vector<double>{-15});
  scene.parse("batch + 1").reduced(scene.values(), out);
  CHECK(out == std::vector<double>{2, 3, 5, 9});
  scene.parse("7").reduced(scene.values(), out);
  CHECK(out == std::vector<double>{7});
}

TEST_CASE("formula: steps of scalars in postfix order", "[unit]") {
  const Scene scene;
  std::string all;
  for (const Formula::Step& step : scene.parse("if(!weight, -2.5, max2(request.wait, 4) ^ 2)").steps()) {
    if (step.kind == Formula::Step::Kind::number) all += " " + std::to_string(static_cast<int>(step.number * 10));
    if (step.kind == Formula::Step::Kind::scalar) all += " s" + std::to_string(step.slot);
    if (step.kind == Formula::Step::Kind::function)
      all += " " + std::string(step.function) + "/" + std::to_string(step.arguments);
  }
  CHECK(all == " s1 !/1 25 -/1 s0 40 max2/2 20 ^/2 if/3");
  CHECK(scene.parse("max(batch)").steps().empty());
  CHECK(scene.parse("batch").steps().empty());
  CHECK(scene.parse("weight").steps().size() == 1);
}

TEST_CASE("formula: blanks, tabs and line ends may stand anywhere", "[unit]") {
  const Scene scene;
  CHECK(scene.number("\t1\n+ 2 *\n\t3 \n") == 7);
  CHECK(scene.number(" max ( batch  where\tmodel =='gpt2' )") == 8);
  CHECK(scene.number("at( jit.stall ,4 )") == 40);
  CHECK(scene.all("model!= \"bert\"&&1||0") == std::vector<double>{0, 1, 0, 1});
  CHECK(scene.number("1e2 - .25 + 2.") == 101.75);
}

TEST_CASE("formula: names in parts, and dots that no part follows", "[unit]") {
  const Scene scene;
  CHECK_THAT(scene.fault("batch."), Contains("column 6: expected an operator or the end, got '.'"));
  CHECK_THAT(scene.fault("batch.2"), Contains("column 6: expected an operator or the end, got '.'"));
  CHECK_THAT(scene.fault("1 + batch."), Contains("column 10: expected an operator or the end, got '.'"));
  CHECK_THAT(scene.fault("1 + jit.stall.-2"), Contains("column 14: expected an operator or the end, got '.'"));
  CHECK_THAT(scene.fault("jit..stall", 2), Contains("column 1: unknown name 'jit'"));
  CHECK_THAT(scene.fault("jit.stall.x"), Contains("unknown name 'jit.stall.x' (did you mean 'jit.stall'?)"));
  CHECK_THAT(scene.fault("#"), Contains("column 1: expected a number, a name or '(', got '#'"));
  CHECK_THAT(scene.fault("  ."), Contains("column 3: expected a number such as 1.5 or 2e4"));
  CHECK_THAT(scene.fault("1 +\t%"), Contains("column 5: expected a number, a name or '(', got '%'"));
}

TEST_CASE("formula: one fault leads to no further ones", "[unit]") {
  const Scene scene;
  CHECK(scene.fault("max(foo)") ==
        "f.json:/value: formula \"max(foo)\", column 5: unknown name 'foo' "
        "(known: batch, dvm.stall, jit.stall, model, request.wait, weight)");
  scene.fault("at(jit.stall, foo)");
  scene.fault("any(foo == 'bert')");
  scene.fault("max(-foo)");
  scene.fault("max(!foo)");
  scene.fault("max((foo))");
  scene.fault("max(1 + foo)");
  scene.fault("max(foo + 1)");
  scene.fault("max(abs(foo))");
  scene.fault("(1 2");
  scene.fault("max(batch 2");
  scene.fault("abs(1 2");
  scene.fault("max2(1 2, 3)");
  scene.fault("at(batch, 1 2)");
  CHECK(scene.fault("foo + bar + foo", 3).find("column 1: unknown name 'foo'") != std::string::npos);
  CHECK_THAT(scene.fault("max(weight) + min(weight)", 2), Contains("elementwise it is max2(a, b)"));
  CHECK_THAT(scene.fault("sum(weight)"), Contains("column 1: expected a series in sum(), got a scalar"));
  CHECK(scene.fault("sum(weight)").find("elementwise") == std::string::npos);
  CHECK_THAT(scene.fault("1 + sum(2)"), Contains("column 5: expected a series"));
}

TEST_CASE("formula: where the grammar wants something else", "[unit]") {
  const Scene scene;
  CHECK_THAT(scene.fault("max(batch, 2)"), Contains("(elementwise it is max2(a, b))"));
  CHECK_THAT(scene.fault("min(batch, 2)"), Contains("(elementwise it is min2(a, b))"));
  CHECK(scene.fault("sum(batch, 2)") ==
        "f.json:/value: formula \"sum(batch, 2)\", column 11: expected ')' or 'where' in sum()");
  CHECK_THAT(scene.fault("sum(batch whereas 1)"), Contains("column 11: expected ')' or 'where' in sum()"));
  CHECK_THAT(scene.fault("max(batch"), Contains("column 10: expected ')' or 'where' in max()"));
  CHECK_THAT(scene.fault("if(1, 2)"), Contains("expected 3 arguments of if(), got ')' after argument 2"));
  CHECK_THAT(scene.fault("if(1)"), Contains("expected 3 arguments of if(), got ')' after argument 1"));
  CHECK_THAT(scene.fault("if(1, 2, 3"), Contains("expected ')' after argument 3 of if(), got the end"));
  CHECK_THAT(scene.fault("max2(1, 2, 3)"), Contains("expected ')' after argument 2 of max2(), got ','"));
  CHECK_THAT(scene.fault("squrt(4)"), Contains("column 1: unknown function 'squrt' (did you mean 'sqrt'?)"));
  CHECK_THAT(scene.fault("2 * fi(1, 2, 3)"), Contains("column 5: unknown function 'fi' (did you mean 'if'?)"));
  CHECK_THAT(scene.fault("min3(4)"), Contains("'min' or 'min2'"));
  CHECK_THAT(scene.fault("zzzzzz(4)"),
             Contains("known: abs, all, any, at, ceil, count, exp, first, floor, geomean, if, last, log, log10, log2, "
                      "max, max2, mean, min, min2, round, sqrt, sum)"));
  CHECK_THAT(scene.fault("1 == 1 != 1"), Contains("column 8: comparisons do not chain"));
  CHECK_THAT(scene.fault("model == 'bert' == 1"), Contains("comparisons do not chain"));
  CHECK_THAT(scene.fault("'bert'"), Contains("column 1: expected a text only to the right of == or !="));
  CHECK_THAT(scene.fault("1 + \"x\""), Contains("column 5: expected a text only to the right of == or !="));
  CHECK_THAT(scene.fault("(model) == 'bert'"), Contains("column 12: expected a name that has texts as values"));
  CHECK_THAT(scene.fault("-model == 'bert'"), Contains("expected a name that has texts as values"));
  CHECK_THAT(scene.fault("model == \"bert'"), Contains("column 10: expected the closing quote of this text"));
  CHECK_THAT(scene.fault("model >= 'bert'"), Contains("expected == or != before a text"));
  CHECK_THAT(scene.fault("model == 'brt'"), Contains("column 10: 'model' is never \"brt\""));
  CHECK_THAT(scene.fault("1e999"), Contains("column 1: expected a number such as 1.5 or 2e4"));
  CHECK_THAT(scene.fault("1_0"), Contains("column 1: expected an operator after 1, got '_'"));
}

TEST_CASE("formula: as deep, as many values and reductions as are allowed", "[unit]") {
  const Scene scene;
  // 32 values at a time: 31 wait for the innermost one.
  const auto waiting = [](int count) {
    std::string text = "1";
    for (int i = 0; i < count; ++i) text = "1+(" + text + ")";
    return text;
  };
  CHECK(scene.number(waiting(31)) == 32);
  CHECK_THAT(scene.fault(waiting(32)), Contains("expected at most 32 values at a time"));
  const auto reductions = [](int count) {
    std::string text = "0";
    for (int i = 0; i < count; ++i) text += "+max(batch)";
    return text;
  };
  CHECK(scene.number(reductions(32)) == 256);
  CHECK_THAT(scene.fault(reductions(33)), Contains("expected at most 32 reductions"));
  const auto levels = [](std::size_t count) { return std::string(count, '(') + "1" + std::string(count, ')'); };
  CHECK(scene.number(levels(200)) == 1);
  CHECK_THAT(scene.fault(levels(201)), Contains("expected fewer than 200 levels"));
  // Each of these gives its room back: one, two and three values become one.
  std::string flat = "0";
  for (int i = 0; i < 40; ++i) flat += "+max2(1,2)+if(1,2,3)+abs(1)+max(batch)*0";
  CHECK_THAT(scene.fault(flat), Contains("expected at most 32 reductions"));
  flat = "0";
  for (int i = 0; i < 40; ++i) flat += "+max2(1,2)+if(1,2,3)+abs(1)+(model=='bert')*0";
  CHECK(scene.all(flat) == std::vector<double>(4, 200));  // 40 * (2 + 2 + 1)
}

TEST_CASE("formula: whose value is a series, and what is read", "[unit]") {
  const Scene scene;
  for (const char* text : {"batch", "-batch", "!batch", "batch + 1", "1 + batch", "if(1, batch, 2)", "if(batch, 1, 2)",
                           "abs(batch)", "max2(1, batch)", "(batch)", "model == 'bert'", "+batch"})
    CHECK(scene.parse(text).is_series());
  for (const char* text : {"1", "weight", "max(batch)", "if(1, 2, 3)", "sum(batch where batch > 1)", "weight > 1"})
    CHECK_FALSE(scene.parse(text).is_series());
  const Formula both = scene.parse("sum(batch * weight where model == 'bert') + request.wait");
  CHECK(both.scalars_used() == std::vector<std::size_t>{0, 1});
  CHECK(both.series_used() == std::vector<std::size_t>{2, 3});
  CHECK(scene.parse("1").scalars_used().empty());
  CHECK(scene.parse("1").series_used().empty());
  CHECK_THROWS_WITH(scene.parse("batch").number(scene.values()), "expected a formula whose value is a scalar");
}

TEST_CASE("formula: series of one expression must be as long, those of a condition too", "[unit]") {
  Scene scene;
  const std::vector<double> shorter{1, 2};
  scene.series[1] = shorter;
  for (const char* text :
       {"sum(jit.stall + dvm.stall)", "sum(jit.stall where dvm.stall)", "sum(dvm.stall where batch)"})
    CHECK_THROWS_WITH(scene.number(text), "series of one expression differ in length");
  CHECK(scene.number("sum(dvm.stall)") == 3);
  scene.series[1] = {};
  CHECK(scene.number("sum(dvm.stall)") == 0);
  CHECK(scene.all("dvm.stall").empty());
}

TEST_CASE("formula: values held in a condition do not count among those of what it selects", "[unit]") {
  const Scene scene;
  std::string deep = "batch";
  for (int i = 0; i < 31; ++i) deep = "1+(" + deep + ")";  // 32 at a time, each by itself
  CHECK(scene.number("sum(" + deep + " where " + deep + " > 0)") == 31 * 4 + 15);
  CHECK(scene.number("max(" + deep + ") + max(" + deep + ")") == 78);
  CHECK_THAT(scene.fault("sum(1+(" + deep + ") where 1)"), Contains("expected at most 32 values at a time"));
  CHECK_THAT(scene.fault("sum(1 where batch + (" + deep + "))"), Contains("expected at most 32 values at a time"));
}

}  // namespace test_formula
