// What trials tell: fronts, volumes, histories, which parameters matter.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/search/analysis/front.hpp"
#include "experiments/search/analysis/importance.hpp"
#include "experiments/search/analysis/report.hpp"
#include "sim/base/math.hpp"
#include "spaces.hpp"

namespace orrery::experiments::search::test_analysis {
namespace {

using namespace test;
using Points = std::vector<std::vector<double>>;

Trial trial(std::vector<double> objectives, double violation = 0) {
  return {{}, {.objectives = std::move(objectives), .margins = {violation}}};
}

TEST_CASE("the front leaves out what is dominated, infeasible, failed or not a full run", "[analysis]") {
  std::vector<Trial> trials{trial({1, 3}),
                            trial({3, 1}),
                            trial({2, 2}),
                            trial({3, 3}),
                            trial({0, 0}, 1),
                            trial({2, 2}),
                            {{}, {.status = TrialStatus::failed}},
                            trial({0, 0})};
  trials.back().proposal.fidelity = 0.5;
  CHECK(pareto_front(trials) == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("hypervolumes in closed form", "[analysis]") {
  // Two squares of 2 x 1 with 1 x 1 in common: 2 + 2 - 1.
  CHECK(hypervolume({{0, 1}, {1, 0}, {1, 1}}, std::vector<double>{2, 2}) == 3);
  CHECK(hypervolume({{0, 3}, {3, 0}}, std::vector<double>{2, 2}) == 0);
  CHECK(hypervolume({{0.5}, {0.25}}, std::vector<double>{1}) == 0.75);
  // Three bricks of 2 x 1 x 1 on the axes of a cube of side 2, all three sharing one unit cube: 3 * 2 - 2 = 4.
  CHECK(hypervolume({{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}, std::vector<double>{2, 2, 2}) == 4);
  CHECK(hypervolume({{0, 1, 1}, {0, 1, 1}}, std::vector<double>{2, 2, 2}) == 2);
  // The same in n dimensions: n bricks of two unit cubes with one in common: n + 1.
  for (std::size_t n = 2; n <= 6; ++n) {
    Points points(n, std::vector<double>(n, 1));
    for (std::size_t i = 0; i < n; ++i) points[i][i] = 0;
    CHECK(hypervolume(points, std::vector<double>(n, 2)) == double(n + 1));
  }
}

TEST_CASE("hypervolume in four dimensions agrees with a count of cells", "[analysis][prop]") {
  sim::RandomStream random(4, "test");
  constexpr std::int64_t kSide = 6;
  for (std::size_t dimensions = 2; dimensions <= 4; ++dimensions)
    for (int round = 0; round < 8; ++round) {
      Points points;
      for (int i = 0; i < 9; ++i) {
        points.emplace_back();
        for (std::size_t m = 0; m < dimensions; ++m) points.back().push_back(double(random.integer(0, kSide)));
      }
      std::int64_t cells = 0, all = 1;
      for (std::size_t m = 0; m < dimensions; ++m) all *= kSide;
      for (std::int64_t cell = 0; cell < all; ++cell) {
        const auto inside = [&](const std::vector<double>& point) {
          std::int64_t rest = cell;
          for (std::size_t m = 0; m < dimensions; ++m, rest /= kSide)
            if (double(rest % kSide) < point[m]) return false;
          return true;
        };
        cells += std::any_of(points.begin(), points.end(), inside) ? 1 : 0;
      }
      CHECK(hypervolume(points, std::vector<double>(dimensions, double(kSide))) == double(cells));
    }
}

TEST_CASE("of many objectives volumes are sampled, and near the exact ones", "[analysis]") {
  // Six objectives, points on the unit sphere: one by one from the exact volumes (16 points or fewer) to sampled ones.
  sim::RandomStream random(3, "test");
  Points points;
  for (int i = 0; i < 16; ++i) {
    points.emplace_back();
    double length = 0;
    for (int m = 0; m < 6; ++m) {
      points.back().push_back(std::abs(random.normal(0, 1)));
      length += points.back().back() * points.back().back();
    }
    for (double& value : points.back()) value /= std::sqrt(length);
  }
  const std::vector<double> reference(6, 1.2);
  const double exact = hypervolume(points, reference);
  points.push_back(points[0]);  // adds next to nothing, but there are 17 now
  points.back()[0] -= 1e-6;
  points.back()[1] += 1e-6;
  CHECK(hypervolume(points, reference) == Approx(exact).epsilon(0.01));
  CHECK(hypervolume(points, reference) != exact);
  std::vector<Trial> trials;
  for (const auto& point : points) trials.push_back(trial(point));
  const std::vector<double> history = hypervolume_history(trials, reference);
  CHECK(std::is_sorted(history.begin(), history.end()));
  CHECK(history.back() == Approx(exact).epsilon(0.01));
  // A hundred points of eight objectives, which took 25 s exactly.
  Points many(100, std::vector<double>(8, 0.5));
  for (auto& point : many)
    for (double& value : point) value = random.uniform();
  CHECK(hypervolume(many, std::vector<double>(8, 1.1)) > 0);
}

TEST_CASE("a growing front and its volume are those of all points at once", "[analysis][prop]") {
  sim::RandomStream random(4, "front");
  for (const std::size_t dimensions : {2U, 3U, 4U, 5U})
    for (int round = 0; round < 60; ++round) {
      const std::vector<double> reference(dimensions, 6.0);
      Front front(reference);
      std::vector<Trial> trials;
      std::vector<std::vector<double>> points;
      for (int i = 0; i < 25; ++i) {  // whole numbers: many ties, and some points beyond the reference
        std::vector<double> point;
        for (std::size_t m = 0; m < dimensions; ++m) point.push_back(double(random.integer(0, 8)));
        const bool covered = std::any_of(points.begin(), points.end(), [&](const auto& other) {
          return std::equal(other.begin(), other.end(), point.begin(), [](double a, double b) { return a <= b; });
        });
        CHECK(front.add(point) == !covered);
        points.push_back(point);
        trials.push_back(trial(point));
        CHECK(front.volume() == Approx(hypervolume(points, reference)));
      }
      // By the definition: nobody covers it, and of equal ones it is the first.
      std::vector<std::size_t> expected;
      for (std::size_t i = 0; i < points.size(); ++i) {
        bool best = true;
        for (std::size_t j = 0; j < points.size(); ++j) {
          const bool covers = std::equal(points[j].begin(), points[j].end(), points[i].begin(),
                                         [](double a, double b) { return a <= b; });
          if (j != i && covers && (points[j] != points[i] || j < i)) best = false;
        }
        if (best) expected.push_back(i);
      }
      CHECK(pareto_front(trials) == expected);
    }
}

TEST_CASE("histories", "[analysis]") {
  const std::vector<Trial> trials{trial({5, 0}, 1), trial({1, 1}), trial({1.5, 1.5}), trial({0, 1.5}), trial({0, 0})};
  // Reference (2, 2): nothing; 1 x 1; no more; 1 + 1 x 0.5; 2 x 2.
  CHECK(hypervolume_history(trials, std::vector<double>{2, 2}) == std::vector<double>{0, 1, 1, 1.5, 4});
  const std::vector<double> best = best_so_far(trials);
  CHECK(std::isinf(best[0]));
  CHECK(std::vector<double>(best.begin() + 1, best.end()) == std::vector<double>{1, 1, 0, 0});
  CHECK(simple_regret(trials, -1)[4] == 1);
  // Front (0, 0) alone, so the worst feasible: 1.5 and a tenth of 1.5.
  CHECK(reference_behind(trials).value()[0] == Approx(1.65));
  CHECK_FALSE(reference_behind(std::span(trials).first(1)));
  // Front (1, 1), (0, 1.5): 1 + 0.1, 1.5 + 0.05.
  const auto reference = reference_behind(std::span(trials).first(4)).value();
  CHECK(reference[0] == Approx(1.1));
  CHECK(reference[1] == Approx(1.55));
}

std::vector<Trial> trials_of(const Space& space, int count, const std::function<double(const Point&)>& f) {
  sim::RandomStream random(9, "trials");
  std::vector<Trial> trials;
  for (int i = 0; i < count; ++i) {
    Point point = *space.sample(random);
    const double value = f(point);
    trials.push_back({{std::move(point)}, {.objectives = {value}}});
  }
  return trials;
}

TEST_CASE("importance of an additive function", "[analysis]") {
  Space space;
  for (const char* name : {"a", "b", "idle"}) add(space, real(name, 0, 1));
  // Variances of 2 a and b: 4/12 and 1/12, so 0.8 and 0.2 of the whole, and no interaction.
  const auto trials = trials_of(space, 400, [](const Point& x) { return 2 * x[0] + x[1]; });
  const Importance found = importance(space, trials);
  CHECK(found.trials == 400);
  CHECK(found.explained > 0.85);
  CHECK(found.parameters[0].main_effect == Approx(0.8).margin(0.12));
  CHECK(found.parameters[1].main_effect == Approx(0.2).margin(0.1));
  CHECK(found.parameters[2].main_effect < 0.01);
  CHECK(found.parameters[0].permutation > 3 * found.parameters[1].permutation);
  CHECK(found.parameters[2].permutation < 0.02);
  CHECK(found.parameters[0].range_at_best == Approx(2).margin(0.6));  // leaves draw the ends towards the middle
  CHECK(found.interactions[0].share < 0.02);
}

TEST_CASE("importance of what matters in pairs alone", "[analysis]") {
  Space space;
  add(space, categorical("a", {"x", "y"}));
  add(space, categorical("b", {"x", "y"}));
  add(space, real("c", 0, 1));
  // Exclusive or: neither alone tells anything.
  const auto trials = trials_of(space, 300, [](const Point& x) { return x[0] == x[1] ? 1.0 : 0.0; });
  const Importance found = importance(space, trials);
  CHECK(found.explained > 0.9);
  CHECK(found.parameters[0].main_effect < 0.05);
  CHECK(found.parameters[0].permutation > 0.5);
  CHECK(found.interactions[0].first == "a");
  CHECK(found.interactions[0].second == "b");
  CHECK(found.interactions[0].share > 0.8);
  CHECK(importance(space, std::span(trials).first(5)).parameters.empty());
}

/// Share of a parameter alone, or of a pair; -1: not told.
double share(const Importance& found, const std::string& first, const std::string& second = "") {
  for (const ParameterImportance& one : found.parameters)
    if (second.empty() && one.parameter == first) return one.main_effect;
  for (const Interaction& one : found.interactions)
    if (one.first == first && one.second == second) return one.share;
  return -1;
}

TEST_CASE("shares of functions that are known, within five points", "[analysis]") {
  {
    // 2 x1 + x2 + x3 / 2 with variances 4, 1 and 1/4 over 12; kind adds 0 or sqrt(2/3) (variance 1/6); 6 (x4 - 1/2)(x5
    // - 1/2) has variance 36/144 = 1/4 and nothing alone. Of 0.8542 in all: .390, .098, .024, .195, .293.
    Space space;
    for (const char* name : {"x1", "x2", "x3", "x4", "x5"}) add(space, real(name, 0, 1));
    add(space, categorical("kind", {"a", "b"}));
    const auto trials = trials_of(space, 512, [](const Point& x) {
      return 2 * x[0] + x[1] + x[2] / 2 + x[5] * std::sqrt(2.0 / 3) + 6 * (x[3] - 0.5) * (x[4] - 0.5);
    });
    const Importance found = importance(space, trials, 0, {.process_sample = 1024});
    CHECK(found.process);
    CHECK(found.explained > 0.95);
    CHECK(share(found, "x1") == Approx(0.390).margin(0.05));
    CHECK(share(found, "x2") == Approx(0.098).margin(0.05));
    CHECK(share(found, "x3") == Approx(0.024).margin(0.05));
    CHECK(share(found, "kind") == Approx(0.195).margin(0.05));
    CHECK(share(found, "x4") == Approx(0).margin(0.05));
    CHECK(share(found, "x4", "x5") == Approx(0.293).margin(0.05));
    CHECK(found.interactions[0].first == "x4");
    CHECK(found.rest < 0.05);
  }
}

TEST_CASE("shares of functions that are known, within five points: Ishigami, g", "[analysis]") {
  {
    // Ishigami, a = 7, b = 0.1: S1 0.3139, S2 0.4424, S3 0, S13 0.2437.
    Space space;
    for (const char* name : {"x1", "x2", "x3"}) add(space, real(name, -3.14159265358979, 3.14159265358979));
    const auto trials = trials_of(space, 512, [](const Point& x) {
      return std::sin(x[0]) + 7 * std::pow(std::sin(x[1]), 2) + 0.1 * std::pow(x[2], 4) * std::sin(x[0]);
    });
    const Importance found = importance(space, trials);
    CHECK(share(found, "x1") == Approx(0.3139).margin(0.05));
    CHECK(share(found, "x2") == Approx(0.4424).margin(0.05));
    CHECK(share(found, "x3") == Approx(0).margin(0.05));
    CHECK(share(found, "x1", "x3") == Approx(0.2437).margin(0.05));
    CHECK(share(found, "x1", "x2") == Approx(0).margin(0.05));
  }
  {
    // Sobol's g with a = 0, 1, 4.5, 9: V_i = 1/3 / (1 + a_i)^2, V = prod (1 + V_i) - 1.
    Space space;
    for (const char* name : {"x1", "x2", "x3", "x4"}) add(space, real(name, 0, 1));
    constexpr double kA[4] = {0, 1, 4.5, 9};
    const auto trials = trials_of(space, 512, [&](const Point& x) {
      double product = 1;
      for (std::size_t i = 0; i < 4; ++i) product *= (std::abs(4 * x[i] - 2) + kA[i]) / (1 + kA[i]);
      return product;
    });
    double whole = 1, own[4];
    for (std::size_t i = 0; i < 4; ++i) own[i] = 1.0 / 3 / ((1 + kA[i]) * (1 + kA[i])), whole *= 1 + own[i];
    whole -= 1;
    const Importance found = importance(space, trials);
    const char* const names[] = {"x1", "x2", "x3", "x4"};
    for (std::size_t i = 0; i < 4; ++i) CHECK(share(found, names[i]) == Approx(own[i] / whole).margin(0.05));
    CHECK(share(found, "x1", "x2") == Approx(own[0] * own[1] / whole).margin(0.05));
  }
}

TEST_CASE("importance where parameters do not always count", "[analysis]") {
  const Space space = mixed_space();
  const auto trials = trials_of(space, 300, [](const Point& x) { return std::isnan(x[1]) ? 5 : x[1]; });
  const Importance found = importance(space, trials);
  CHECK(found.explained > 0.9);
  CHECK(found.parameters[0].main_effect > 0.5);
  CHECK(found.parameters[2].main_effect < 0.05);
  const Importance again = importance(space, trials);
  CHECK(again.parameters[0].main_effect == found.parameters[0].main_effect);
}

TEST_CASE("elementary effects of a grid", "[analysis]") {
  Space space;
  add(space, integer("a", 0, 3));
  add(space, categorical("b", {"x", "y"}));
  std::vector<Trial> trials;
  for (double a = 0; a < 4; ++a)
    for (double b = 0; b < 2; ++b) trials.push_back({{{a, b}}, {.objectives = {a + (b == 1 ? 2 * a : 0)}}});
  const auto effects = elementary_effects(space, trials);
  // a: neighbours are a quarter of the interval apart; 1 / 0.25 = 4 under x, 3 / 0.25 = 12 under y: mean 8,
  // deviation 4.
  CHECK(effects[0].pairs == 6);
  CHECK(effects[0].mean == Approx(8));
  CHECK(effects[0].deviation == Approx(4));
  // b: 2 a for a = 0 … 3: mean 3, squares (9 + 1 + 1 + 9) / 4 = 5.
  CHECK(effects[1].pairs == 4);
  CHECK(effects[1].mean == Approx(3));
  CHECK(effects[1].deviation == Approx(std::sqrt(5.0)));
}

TEST_CASE("the report says what the parts say", "[analysis]") {
  Space space;
  add(space, integer("a", 0, 3));
  add(space, categorical("b", {"x", "y"}));
  std::vector<Trial> trials;
  for (double a = 0; a < 4; ++a)
    for (double b = 0; b < 2; ++b) trials.push_back({{{a, b}}, {.objectives = {a, 3 - a + b}}});
  trials.push_back({{{0, 0}}, {.status = TrialStatus::failed}});
  const AnalysisReport report = analyse(space, trials, {{"cost"}, {"delay"}});
  CHECK(report.trials == 9);
  CHECK(report.feasible == 8);
  CHECK(report.failed == 1);
  CHECK(report.front == std::vector<std::size_t>{0, 2, 4, 6});  // b = x, any a
  // Reference 3.3, 3.3. Steps of the front (0, 3), (1, 2), (2, 1), (3, 0): 3.3 * 0.3 + 2.3 + 1.3 + 0.3 = 4.89.
  CHECK(report.volumes.back() == Approx(4.89));
  const std::string text = analysis_text(report, space, trials);
  CHECK(text.find("9 trials: 8 feasible, 0 over a limit, 0 infeasible, 1 failed\nfront: 4 points\n") == 0);
  CHECK(text.find("a=2, b=x") != std::string::npos);
  CHECK(text.find("cost\n  best: 0 after 1\n") != std::string::npos);
  CHECK(text.find("delay\n  best: 3 after 1, 2 after 3, 1 after 5, 0 after 7\n") != std::string::npos);
  const sim::Node json = analysis_json(report, space, trials);
  CHECK(json.find("front")->items().size() == 4);
  CHECK(json.find("hypervolume")->items().size() == 9);
  CHECK(json.find("objectives")->items()[1].find("name")->as_string() == "delay");
}

}  // namespace
}  // namespace orrery::experiments::search::test_analysis
