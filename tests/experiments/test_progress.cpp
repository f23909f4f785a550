// Progress to a result: noisy quadratics, reward over compute, AlgoPerf's score, and a training's loss, time and money.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "experiments/answers/progress_questions.hpp"
#include "experiments/progress/quadratic.hpp"
#include "sim/base/random.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_progress {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

sim::Node run(const std::string& text) {
  return read_experiment(test_systems(), sim::parse_json(text, "progress.json"))->run({}).summary;
}

double number(const sim::Node& node, std::string_view path) {
  REQUIRE(node.at(path) != nullptr);
  return node.at(path)->as_number();
}

/// The faults of a function, or "none".
template <class Do>
std::string fault(Do act) {
  try {
    act();
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "none";
}

/// Points of a curve, evenly spaced in the logarithm of compute, with noise.
std::vector<progress::CurvePoint> drawn(const progress::RewardCurve& curve, double from, double to, double noise,
                                        std::uint64_t seed) {
  sim::RandomStream random(seed, "points");
  std::vector<progress::CurvePoint> points;
  for (int i = 0; i < 60; ++i) {
    const double compute = from * std::pow(to / from, i / 59.0);
    points.push_back({compute, curve.at(compute) + random.normal(0, noise)});
  }
  return points;
}

}  // namespace

TEST_CASE("progress: a quadratic's steps by hand, and its rest") {
  // h = 1, c = 0.5, x^2 = 1: rate 0.5 gives 0.25 + 0.25 * 0.5 = 0.375, then 0.09375 + 0.125 = 0.21875; loss x^2 / 2.
  const progress::NoisyQuadratic one{.curvature = {1}, .noise = {0.5}};
  const std::vector<double> two(2, 1.0);
  std::vector<progress::QuadraticStep> steps;
  CHECK(progress::train_quadratic(one, two, 0.5, [&](const progress::QuadraticStep& s) { steps.push_back(s); }) ==
        Approx(0.109375));
  CHECK(steps[0].loss == Approx(0.1875));
  CHECK(steps[0].norm == Approx(std::sqrt(1.5)));  // h^2 x^2 + c
  // A constant rate rests at x^2 = r c / (h (2 - r h)).
  const std::vector<double> long_run(5000, 1.0);
  CHECK(progress::train_quadratic(one, long_run, 0.5) == Approx(0.5 * (0.5 * 0.5 / 1.5)));
  CHECK(progress::train_quadratic(one, std::vector<double>(4000, 1.0), 2.5) == kNever);
  // Curvatures 1, 0.1, 0.01.
  const progress::NoisyQuadratic three = progress::spaced_quadratic(3, 100, 0.2);
  CHECK(three.curvature[1] == Approx(0.1));
  CHECK(three.noise[2] == Approx(0.002));
}

TEST_CASE("progress: the mean of drawn descents is the closed form") {
  // 20,000 descents of 30 steps on two modes; the mean loss has a deviation of some 1 %.
  const progress::NoisyQuadratic problem{.curvature = {1, 0.1}, .noise = {0.3, 0.05}};
  sim::RandomStream random(9, "descents");
  double sum = 0;
  for (int i = 0; i < 20'000; ++i) {
    double x[2] = {1, -1};
    for (int t = 0; t < 30; ++t)
      for (int m = 0; m < 2; ++m)
        x[m] -= 0.4 * (problem.curvature[m] * x[m] + random.normal(0, std::sqrt(problem.noise[m])));
    sum += (x[0] * x[0] + 0.1 * x[1] * x[1]) / 2;
  }
  CHECK(sum / 20'000 == Approx(progress::train_quadratic(problem, std::vector<double>(30, 1.0), 0.4)).epsilon(0.03));
}

TEST_CASE("progress: a fitted curve finds its ceiling where the window reaches four middles") {
  const progress::RewardCurve curve{.start = 0.3, .ceiling = 0.61, .exponent = 1.92, .middle = 2542};
  CHECK(curve.at(2542) == Approx((0.3 + 0.61) / 2));  // half of the way
  const auto exact = progress::fit_curve(drawn(curve, 1500, 40'000, 0, 1), 0.3, 0, 1);
  CHECK(exact.curve.ceiling == Approx(0.61).margin(1e-4));
  CHECK(exact.curve.exponent == Approx(1.92).epsilon(1e-2));
  CHECK(exact.curve.middle == Approx(2542).epsilon(1e-2));
  double far = 0, near = 0, short_of = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto four = progress::fit_curve(drawn(curve, 1500, 4 * 2542 * 1.2, 0.01, seed), 0.3, 0, 1);
    far = std::max(far, std::abs(four.curve.ceiling - 0.61));
    CHECK(four.trusted());
    const auto two = progress::fit_curve(drawn(curve, 1500, 2.4 * 2542, 0.01, seed), 0.3, 0, 1);
    near = std::max(near, std::abs(two.curve.ceiling - 0.61));
    const auto less = progress::fit_curve(drawn(curve, 300, 0.7 * 2542, 0.01, seed), 0.3, 0, 1);
    short_of += std::abs(less.curve.ceiling - 0.61) / 20;
  }
  CHECK(far <= 0.02);
  CHECK(near <= 0.06);
  CHECK(short_of >= 0.05);  // there the ceiling is a guess
}

TEST_CASE("progress: every published curve is found again from four middles on") {
  // training/scalerl_fits.csv: Cmid, B, A.
  const double rows[][3] = {{2542, 1.92, 0.61},  {11272, 1.89, 0.645}, {2818, 1.77, 0.605}, {10909, 1.70, 0.645},
                            {4242, 1.65, 0.710}, {2896, 2.05, 0.595},  {1675, 1.09, 0.615}};
  for (const auto& [middle, exponent, ceiling] : rows) {
    CAPTURE(middle);
    const progress::RewardCurve curve{.start = 0.3, .ceiling = ceiling, .exponent = exponent, .middle = middle};
    const auto fit = progress::fit_curve(drawn(curve, 1500, 8 * middle, 0.01, 3), 0.3, 40, 1);
    CHECK(std::abs(fit.curve.ceiling - ceiling) <= 0.02);
    CHECK(fit.ceiling_low <= fit.curve.ceiling);
    CHECK(fit.ceiling_high >= fit.curve.ceiling);
    CHECK(fit.ceiling_high - fit.ceiling_low < 0.1);
  }
}

TEST_CASE("progress: a fit that is not trusted does not extrapolate") {
  const Scratch scratch;
  std::string rows = "compute,reward\n";
  const progress::RewardCurve curve{.start = 0.3, .ceiling = 0.6, .exponent = 2, .middle = 1000};
  for (const progress::CurvePoint& p : drawn(curve, 100, 800, 0.001, 1))
    rows += std::to_string(p.compute) + "," + std::to_string(p.reward) + "\n";
  const std::string path = scratch.write("short.csv", rows).string();
  const auto ask = [&](double at) { return fit_reward_curve({.table = path, .start = 0.3, .at = at, .draws = 0}); };
  CHECK_THAT(fault([&] { (void)ask(5000); }), Contains("below 2 its ceiling is a guess"));
  CHECK_FALSE(ask(0).fit.trusted());
  CHECK_THAT(curve_text(ask(500)), Contains("nothing is extrapolated"));
  // What is held out judges.
  const auto held = fit_reward_curve({.table = path, .start = 0.3, .until = 600, .draws = 0});
  CHECK(held.fitted + held.judged == 60);
  CHECK(held.judged_error < 0.05);
  const std::string few = scratch.write("few.csv", "compute,reward\n1,0\n2,0\n3,0\n").string();
  CHECK_THAT(fault([&] { (void)fit_reward_curve({.table = few}); }),
             Contains("expected at least 4 points to fit, got 3"));
  const std::string zero = scratch.write("zero.csv", "compute,reward\n0,0\n").string();
  CHECK_THAT(fault([&] { (void)fit_reward_curve({.table = zero}); }), Contains("row 1: expected a compute above 0"));
}

TEST_CASE("progress: AlgoPerf's score is the area under the performance profile") {
  // b is twice as slow on w: (4 - 2) / 3; nobody but a reaches v, nobody at all u.
  const progress::Scores all =
      progress::scores({"u", "v", "w"}, {{"b", {kNever, kNever, 20}}, {"a", {kNever, 5, 10}}}, 4);
  CHECK(all.submissions[0].name == "a");
  CHECK(all.scores[0] == Approx(2.0 / 3));
  CHECK(all.scores[1] == Approx(2.0 / 9));
  // Numerically: the share of workloads within tau times the fastest, over tau from 1 to 4.
  const std::vector<double> ratios{1, 1.7, 3.9, 5};
  std::vector<std::string> names;
  progress::Submission slow{"slow", {}}, fast{"fast", {}};
  for (const double ratio : ratios)
    names.push_back(std::to_string(ratio)), slow.times_s.push_back(ratio), fast.times_s.push_back(1);
  double area = 0;
  for (int i = 0; i < 30'000; ++i) {
    const double tau = 1 + (i + 0.5) / 10'000;
    for (const double ratio : ratios) area += ratio <= tau ? 1.0 / 4 / 30'000 : 0;
  }
  CHECK(progress::scores(names, {slow, fast}, 4).scores[1] == Approx(area).margin(1e-4));
}

TEST_CASE("progress: the measured times score as published") {
  const std::string path = std::string(ORRERY_SHARED_DIR) + "/data/systems/algoperf_v05_external_time_to_target.csv";
  if (!fs::exists(path)) return;
  const progress::Scores all = progress::read_scores(path, 4);
  std::map<std::string, double> by_name;
  for (std::size_t i = 0; i < all.scores.size(); ++i) by_name[all.submissions[i].name] = all.scores[i];
  CHECK(by_name.at("shampoo_submission") == Approx(0.7785).margin(0.0005));
  CHECK(by_name.at("amos") == Approx(0.4915).margin(0.0005));
  CHECK(by_name.at("lawa_queue") == Approx(0.3704).margin(0.0005));
  CHECK(by_name.at("schedule_free_adamw") == Approx(0.7726).margin(0.0005));
  CHECK(by_name.at("baseline") == Approx(0.5896).margin(0.0005));
}

TEST_CASE("progress: tables of times that are wrong are told") {
  const Scratch scratch;
  const auto told = [&](const std::string& rows) {
    const std::string path =
        scratch.write("times.csv", "submission,workload,median_time_to_target_s\n" + rows).string();
    return fault([&] { (void)progress::read_scores(path, 4); });
  };
  CHECK_THAT(told("a,w,-1\n"), Contains("row 1: expected a time above 0 or inf, got -1"));
  CHECK_THAT(told("a,w,1\na,w,2\n"), Contains("row 2: a has w twice"));
  CHECK_THAT(told("a,w,1\na,v,2\nb,w,1\n"), Contains("b lacks v, which others have"));
  CHECK_THAT(told(""), Contains("expected a row"));
}

TEST_CASE("progress: budgets of steps, time and money are one") {
  const auto with = [](const std::string& budget, const std::string& rest = "") {
    return run(
        R"({"system": "progress", "workload": {"price": 2}, "job": {"nodes": 4, "node_devices": 8, "step": "10 s",
      "duration": "10 d"}, "failures": {"per_1000_node_days": 20000}, "checkpoint": {"interval": "10 min"}, "progress": {)" +
        budget + "}" + rest + "}");
  };
  const sim::Node steps = with(R"("steps": 1000)");
  CHECK(number(steps, "budget.time_s") == Approx(1000 * 10 / number(steps, "ettr")));
  CHECK(number(steps, "ettr") < 1);
  CHECK(number(steps, "budget.cost") == Approx(number(steps, "budget.time_s") / 3600 * 32 * 2));
  const sim::Node time = with(R"("time": ")" + std::to_string(number(steps, "budget.time_s") + 0.01) + " s\"");
  CHECK(number(time, "budget.steps") == 1000);
  CHECK(number(time, "loss.final") == number(steps, "loss.final"));
  const sim::Node cost = with(R"("cost": )" + std::to_string(number(steps, "budget.cost") + 0.01));
  CHECK(number(cost, "budget.steps") == 1000);
  // Without a step that is known there are no times.
  const sim::Node bare = run(R"({"system": "progress", "progress": {"steps": 1000}})");
  CHECK(bare.at("budget.time_s") == nullptr);
  // A larger batch has less noise: never a higher loss at the same number of steps.
  const sim::Node larger =
      run(R"({"system": "progress", "workload": {"global_batch": 16}, "progress": {"steps": 1000}})");
  CHECK(number(larger, "loss.final") < number(bare, "loss.final"));
  CHECK(number(bare, "loss.first") > number(bare, "loss.final"));
  CHECK(with(R"("time": "5 s")").find("status")->as_string() == "infeasible");
}

TEST_CASE("progress: a peak that is tuned is no worse than any that is stated") {
  const auto loss = [](const std::string& peak) {
    return number(run(R"({"system": "progress", "progress": {"steps": 300)" + peak + "}}"), "loss.final");
  };
  const double best = loss("");
  for (const char* peak : {"0.01", "0.1", "0.5", "1.2"})
    CHECK(best <= loss(R"(, "peak": )" + std::string(peak)) * 1.05);
}

TEST_CASE("progress: what cannot be is said") {
  const auto told = [](const std::string& text) { return fault([&] { (void)run(text); }); };
  // What only pricing the step finds wrong is told at its place too, as a training run tells it.
  const std::string step = R"("machine": {"devices": [{"part": "v100-sxm2-32gb"}]},
    "model": {"builder": {"policy": "decoder", "decoder": {"config": "catalog:llama-3.2-1b", "loss": true, "dtype": "fp8"}}})";
  const std::string plain = told(R"({"system": "training", )" + step + "}");
  CHECK(plain != "none");
  CHECK(told(R"({"system": "training_job", )" + step + "}") == plain);
  CHECK(told(R"({"system": "progress", "progress": {"steps": 5}, )" + step + "}") == plain);
  CHECK_THAT(told(R"({"system": "progress"})"), Contains("expected one budget above 0 of steps, time and cost"));
  CHECK_THAT(told(R"({"system": "progress", "progress": {"steps": 5, "time": "1 s"}})"),
             Contains("expected one budget"));
  CHECK_THAT(told(R"({"system": "progress", "progress": {"cost": 5}})"), Contains("/workload/price"));
  CHECK_THAT(told(R"({"system": "progress", "progress": {"time": "5 s"}})"), Contains("/job/step"));
  CHECK_THAT(told(R"({"system": "progress", "progress": {"steps": 5, "lowest": 2}})"),
             Contains("expected less than 2"));
  CHECK_THAT(
      run(R"({"system": "progress", "progress": {"steps": 10000000, "modes": 100000}})").find("reason")->as_string(),
      Contains("updates of modes are more than"));
}

}  // namespace test_progress
