// Trees of expressions: text and back, simplification, breeding within bounds.
#include <cmath>

#include "sim/base/formula_functions.hpp"
#include "tests/evolve/study_file.hpp"

namespace test_trees {

using namespace orrery;
using namespace orrery::experiments::evolve;
using namespace orrery::experiments::evolve::test;

namespace {

/// The value of a tree, names standing for `values` by slot.
double value_of(const EvolveStudy& study, const Tree& tree, const std::vector<double>& values) {
  sim::Faults faults;
  const auto formula = policies::parse_expression(text_of(tree, study.names), study.subject->names, {}, faults);
  REQUIRE(formula);
  return formula->number({.scalars = values, .series = {}});
}

bool equal(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

std::string simple(const EvolveStudy& study, const std::string& text) {
  return text_of(simplified(tree(study, text)), study.names);
}

const std::string kLarge = R"(, "limits": {"nodes": 200, "depth": 20})";

}  // namespace

TEST_CASE("text becomes a tree and the tree that text", "[unit]") {
  const EvolveStudy s = study(kLarge);
  for (const std::string text :
       {"order", "-order", "-3", "order - (-3)", "(order + 1) * 2", "order + (1 * 2)", "if(order < 3, 1, waiting)",
        "min2(order, max2(waited_s, 0.001))", "!(order < 3)", "(order < 3) && (order > 1)", "abs(-order)",
        "(order ^ 2) ^ 3", "log(1e+30)", "-(-order)"})
    CHECK(text_of(tree(s, text), s.names) == text);
  // Precedence of the formula, made explicit.
  CHECK(text_of(tree(s, "1 + 2 * order - 3"), s.names) == "(1 + (2 * order)) - 3");
  CHECK(text_of(tree(s, "-order ^ 2"), s.names) == "-(order ^ 2)");
  CHECK(depth_of(tree(s, "order")) == 1);
  CHECK(depth_of(tree(s, "if(order < 3, 1, waiting)")) == 3);
  CHECK(tree(s, "if(order < 3, 1, waiting)").size() == 6);
}

TEST_CASE("simplification: numbers meet, what does nothing goes, equals look equal", "[unit]") {
  const EvolveStudy s = study(kLarge);
  CHECK(simple(s, "1 + 2 * 3") == "7");
  CHECK(simple(s, "order * (3 - 2)") == "order");
  CHECK(simple(s, "order - 0") == "order");
  CHECK(simple(s, "1 * order / 1") == "order");
  CHECK(simple(s, "-(-order)") == "order");
  CHECK(simple(s, "max2(order + 1, 1 + order)") == simple(s, "order + 1"));
  CHECK(simple(s, "if(2 < 1, order, waiting)") == "waiting");
  CHECK(simple(s, "order > 3") == simple(s, "3 < order"));
  CHECK(simple(s, "order * waiting") == simple(s, "waiting * order"));
  // Kept: NaN and infinities may come of them.
  CHECK(simple(s, "order * 0") != "0");
  CHECK(simple(s, "order - order") != "0");
  CHECK(simple(s, "1 / 0") == "1 / 0");
  CHECK(simple(s, "order - waiting") != simple(s, "waiting - order"));
}

TEST_CASE("random trees: within bounds, text that parses, the same value when simplified", "[prop]") {
  const EvolveStudy s = study(R"(, "limits": {"nodes": 31, "depth": 5})");
  sim::RandomStream random(1, "trees");
  std::vector<double> values(s.names.size());
  std::size_t smaller = 0, deepest = 0;
  for (int i = 0; i < 2000; ++i) {
    const Tree t =
        random_tree(s.material, i % 5 == 0 ? Type::truth : Type::number, 2 + random.below(4), i % 2 == 0, random);
    REQUIRE(s.material.fits(t));
    deepest = std::max(deepest, depth_of(t));
    const std::string text = text_of(t, s.names);
    CAPTURE(text);
    REQUIRE(text_of(tree(s, text), s.names) == text);
    const Tree less = simplified(t);
    REQUIRE(less.size() <= t.size());
    smaller += less.size() < t.size() ? 1 : 0;
    CHECK(text_of(simplified(less), s.names) == text_of(less, s.names));
    for (int k = 0; k < 5; ++k) {
      for (double& value : values) value = random.bernoulli(0.2) ? 0 : random.uniform(-5, 5);
      REQUIRE(equal(value_of(s, t, values), value_of(s, less, values)));
    }
  }
  CHECK(deepest == 5);
  CHECK(smaller > 20);
}

TEST_CASE("children stay within bounds and differ from their parents", "[prop]") {
  const EvolveStudy s = study(R"(, "limits": {"nodes": 15, "depth": 4})");
  sim::RandomStream random(2, "breeding");
  int changed = 0;
  for (int i = 0; i < 2000; ++i) {
    const Tree a = random_tree(s.material, Type::number, 4, false, random);
    const Tree b = random_tree(s.material, Type::number, 4, true, random);
    for (const Tree& child : {crossover(s.material, a, b, random), mutate_subtree(s.material, a, random),
                              mutate_point(s.material, a, random), mutate_constant(s.material, a, random)}) {
      REQUIRE(s.material.fits(child));
      const std::string text = text_of(child, s.names);
      REQUIRE(text_of(tree(s, text), s.names) == text);
      changed += text != text_of(a, s.names) ? 1 : 0;
    }
  }
  CHECK(changed > 6000);
}

TEST_CASE("names outside the study's are not used, and refused", "[unit]") {
  const EvolveStudy s = study(R"(, "names": ["waited_s", "prompt_tokens"])");
  sim::RandomStream random(3, "names");
  for (int i = 0; i < 300; ++i) {
    const std::string text = text_of(random_tree(s.material, Type::number, 5, true, random), s.names);
    CAPTURE(text);
    CHECK(text.find("order") == std::string::npos);
    CHECK(text.find("predicted") == std::string::npos);
  }
  Refusal refusal;
  CHECK_FALSE(read_candidate(s, "order + 1", refusal));
  CHECK(refusal.kind == Refusal::Kind::name);
  CHECK_FALSE(read_candidate(s, "waited_s + ", refusal));
  CHECK(refusal.kind == Refusal::Kind::faulty);
  std::string deep = "waited_s";
  for (int i = 0; i < 8; ++i) deep = "abs(" + deep + ")";
  CHECK_FALSE(read_candidate(s, deep, refusal));
  CHECK(refusal.kind == Refusal::Kind::too_large);
}

}  // namespace test_trees
