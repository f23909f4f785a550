// Which candidate is best under noise: how often the answer is right, what runs it takes, limits, equals, what is
// refused.
#include <catch2/catch.hpp>

#include "experiments/search/selection.hpp"
#include "quality.hpp"

namespace orrery::experiments::search::test_selection {
namespace {

using namespace test;

struct Noise {
  double deviation = 1, shared = 0;  ///< of a run; the share of its variance that all candidates have in common
};

/// Runs until it is decided; values are means plus normal noise.
Selection selected(const std::vector<double>& means, const Noise& noise, const SelectionParams& params,
                   std::uint64_t seed) {
  Selection selection(means.size(), 0, params);
  sim::RandomStream random(seed, "noise");
  while (!selection.decided()) {
    const double common = random.normal(0, 1);
    for (std::size_t i = 0; i < means.size(); ++i) {
      const double own = random.normal(0, 1);
      if (!selection.wants(i)) continue;
      const double error = std::sqrt(noise.shared) * common + std::sqrt(1 - noise.shared) * own;
      selection.hear(i, {.objectives = {means[i] + noise.deviation * error}});
    }
  }
  return selection;
}

std::int64_t total_runs(const Selection& selection) {
  std::int64_t runs = 0;
  for (std::size_t i = 0; i < selection.size(); ++i) runs += selection.runs(i);
  return runs;
}

TEST_CASE("an interval that holds for all numbers of runs at once", "[search][selection]") {
  // Error 0.1, 4 runs: k = (sqrt(5) / 0.1)^(1 / 2) = 4.7287; t^2 = 3 (k - 1) / (1 - k / 5) = 206.2.
  RunningMean series;
  for (const double value : {1.0, 2.0, 3.0}) series.add(value);
  CHECK(std::isinf(anytime_half_width(series, 0.1)));  // k = (2 / 0.1)^(2 / 3) = 7.37, more than 4
  series.add(4);
  CHECK(series.mean == 2.5);
  CHECK(series.variance() == Approx(5.0 / 3));  // 2.25 + 0.25 + 0.25 + 2.25 over 3
  const double k = std::sqrt(std::sqrt(5) / 0.1);
  CHECK(anytime_half_width(series, 0.1) == Approx(std::sqrt(3 * (k - 1) / (1 - k / 5) * (5.0 / 3) / 4)));
  // The Bayes factor at that mean is 1 / error.
  const double t_squared = std::pow(anytime_half_width(series, 0.1), 2) * 4 / (5.0 / 3);
  CHECK(std::pow(5, -0.5) * std::pow((1 + t_squared / 3) / (1 + t_squared / 15), 2) == Approx(10));
}

TEST_CASE("the interval is left at some time at most as often as is said", "[search][selection]") {
  // A hundred looks after every run: an interval for one look alone, 1.98 s / sqrt(n), is left by a third of the
  // series.
  int left = 0, left_one_look = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    sim::RandomStream random(seed, "noise");
    RunningMean series;
    bool ever = false, ever_one_look = false;
    for (int run = 0; run < 100; ++run) {
      series.add(random.normal(0, 3));
      ever = ever || std::abs(series.mean) > anytime_half_width(series, 0.05);
      ever_one_look =
          ever_one_look || (run >= 9 && std::abs(series.mean) > 1.98 * std::sqrt(series.variance() / series.count));
    }
    left += ever ? 1 : 0;
    left_one_look += ever_one_look ? 1 : 0;
  }
  CHECK(left <= 50);  // 0.05 promised for ever; some 100 runs use up part of it
  CHECK(left > 5);
  CHECK(left_one_look > 200);
}

TEST_CASE("the best of five comes out as often as is asked", "[search][selection]") {
  // All others worse by just the difference that matters, 1 % of 100: the hardest case that must come out right.
  const std::vector<double> means{101, 101, 100, 101, 101};
  int right = 0;
  double runs = 0, easy = 0, near = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Selection selection = selected(means, {.deviation = 2}, {.confidence = 0.9}, seed);
    right += selection.order()[0] == 2 ? 1 : 0;
    runs += static_cast<double>(total_runs(selection)) / 200;
  }
  CHECK(right >= 0.9 * 200);
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    easy += static_cast<double>(
                total_runs(selected({130, 130, 100, 130, 130}, {.deviation = 2}, {.confidence = 0.9}, seed))) /
            30;
    near += static_cast<double>(total_runs(selected({100.5, 100.5, 100, 100.5, 100.5}, {.deviation = 2},
                                                    {.within = 0.005, .confidence = 0.9}, seed))) /
            30;
  }
  // Differences of 15 deviations take little more than the first stage of 25 runs; half the difference four times the
  // runs, and a little more for the logarithm.
  CHECK(easy < 50);
  CHECK(near / runs > 3.5);
  CHECK(near / runs < 6);
}

TEST_CASE("seeds in common save runs", "[search][selection]") {
  const std::vector<double> means{101, 100, 101};
  double own = 0, shared = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    own += static_cast<double>(total_runs(selected(means, {.deviation = 4}, {}, seed)));
    shared += static_cast<double>(total_runs(selected(means, {.deviation = 4, .shared = 0.9}, {}, seed)));
  }
  CHECK(shared < 0.2 * own);  // the variance of a difference is 2 sigma^2 (1 - share), a tenth
}

TEST_CASE("candidates that differ by what does not matter end as one with the best", "[search][selection]") {
  const Selection selection = selected({100, 100.1, 100}, {.deviation = 2}, {}, 5);
  CHECK(selection.decided());
  CHECK(selection.standing(selection.order()[0]) == Standing::best);
  for (const std::size_t place : {1, 2}) CHECK(selection.standing(selection.order()[place]) == Standing::within);
  // Twice the mean of all, twice the noise: the same shares, the same runs.
  const Selection twice = selected({200, 200.2, 200}, {.deviation = 4}, {}, 5);
  CHECK(total_runs(twice) == total_runs(selection));
}

TEST_CASE("without noise the first stage decides, and equals are told apart from worse", "[search][selection]") {
  const Selection selection = selected({3, 2, 2, 5}, {.deviation = 0}, {}, 1);
  CHECK(total_runs(selection) == 24);  // of five equal differences the Bayes factor is at most 6^2, of six 7^2.5
  CHECK(selection.order() == std::vector<std::size_t>{1, 2, 0, 3});
  CHECK(selection.standing(1) == Standing::best);
  CHECK(selection.standing(2) == Standing::equal);
  CHECK(selection.sent_away_by(2) == 1);
  CHECK(selection.standing(0) == Standing::worse);
  CHECK(selection.mean(0).half == 0);
  CHECK(selection.difference(3, 1).mean == 3);
}

TEST_CASE("a limit holds for the mean, and only who meets it sends others away", "[search][selection]") {
  // The first is best but breaks its limit by a tenth in the mean, though half its runs meet it.
  Selection selection(3, 1, {.confidence = 0.9});
  sim::RandomStream random(3, "noise");
  const std::vector<double> means{90, 100, 105}, margins{0.1, -0.1, -0.1};
  while (!selection.decided())
    for (std::size_t i = 0; i < 3; ++i) {
      const double noise = random.normal(0, 1);
      if (selection.wants(i))
        selection.hear(i, {.objectives = {means[i] + noise}, .margins = {margins[i] + 0.2 * noise}});
    }
  CHECK(selection.standing(0) == Standing::over);
  CHECK(selection.sent_away_by(0) == 0);  // its first limit
  CHECK(selection.mean_margin(0, 0) > 0);
  CHECK(selection.order()[0] == 1);
  CHECK(selection.standing(1) == Standing::best);
  CHECK(selection.standing(2) == Standing::worse);
}

TEST_CASE("who ties with the best and is not known to meet its limit is not called as good", "[search][selection]") {
  Selection selection(2, 1, {});
  sim::RandomStream random(3, "noise");
  for (int run = 0; run < 500 && !selection.decided(); ++run) {
    const double noise = random.normal(0, 1);
    selection.hear(0, {.objectives = {100 + noise}, .margins = {-0.5 + 0.001 * random.normal(0, 1)}});
    selection.hear(1, {.objectives = {100.05 + noise + 0.2 * random.normal(0, 1)}, .margins = {random.normal(0, 1)}});
  }
  CHECK(selection.decided());
  CHECK(selection.standing(0) == Standing::best);
  CHECK(selection.standing(1) == Standing::contending);
}

TEST_CASE("a run that fails sends its candidate away; where all fail nothing is best", "[search][selection]") {
  Selection selection(2, 0, {.initial = 3});
  for (int r = 0; r < 2; ++r)
    for (std::size_t i = 0; i < 2; ++i) selection.hear(i, {.objectives = {double(i)}});
  selection.hear(0, {.status = TrialStatus::infeasible, .reason = "does not fit"});
  CHECK(selection.standing(0) == Standing::not_run);
  CHECK(selection.reason(0) == "does not fit");
  CHECK_FALSE(selection.decided());  // the other has had two runs of three
  selection.hear(1, {.objectives = {1}});
  CHECK(selection.decided());
  CHECK(selection.standing(1) == Standing::best);
  Selection none(1, 0, {});
  none.hear(0, {.status = TrialStatus::failed});
  CHECK(none.decided());
}

Space noisy_space() {
  Space space;
  add(space, categorical("policy", {"a", "b", "c"}));
  add(space, ordinal("size", {1, 2}));
  add(space, integer("replicate", 5, 10'000));
  return space;
}

TEST_CASE("the driver compares all points of a space, or those named first", "[search][selection]") {
  const Space space = noisy_space();
  const Evaluate evaluate = [](const Proposal& p) -> Evaluation {
    sim::RandomStream noise(static_cast<std::uint64_t>(p.point[2]), "seed");  // the same for all at a seed
    return {.objectives = {100 + 2 * p.point[0] + p.point[1] + noise.normal(0, 5)}};
  };
  const auto search = [&](std::vector<Proposal> first, std::size_t batch) {
    UniqueDriver driver(make_driver("select", {.space = &space, .random = sim::RandomStream(1, "d")}), space,
                        {1, "unique"});
    return run_search(driver, on_threads(evaluate, 2), {.budget = 5000, .batch = batch, .first = std::move(first)});
  };
  const auto all = search({}, 6);
  // Noise in common cancels: 6 points, 6 runs of each, and the best is known.
  REQUIRE(all.size() == 36);
  CHECK(all[0].proposal.point == Point{0, 0, 5});
  CHECK(all[35].proposal.point == Point{2, 1, 10});
  const auto some = search({{{1, 1, 5}}, {{2, 0, 5}}}, 3);
  CHECK(some.size() == 11);  // both first ones, then batches of 3 until both have had 5
  for (const Trial& trial : some) CHECK(trial.proposal.point[0] > 0);
}

TEST_CASE("what cannot be selected is told", "[search][selection]") {
  const auto told = [](const Space& space, const std::string& over) {
    try {
      (void)selection_candidates(space, over);
    } catch (const sim::ConfigError& error) {
      return error.faults().front().message;
    }
    return std::string();
  };
  const Space space = noisy_space();
  CHECK(told(space, "replicate").empty());
  CHECK(told(space, "replicat") ==
        "'over' of driver 'select': expected a parameter of whole numbers ('range', \"type\": \"integer\"), got "
        "'replicat'");
  CHECK(
      told(space, "size") ==
      "'over' of driver 'select': expected a parameter of whole numbers ('range', \"type\": \"integer\"), got 'size'");
  Space reals = noisy_space();
  add(reals, real("x", 0, 1));
  CHECK(told(reals, "replicate") ==
        "driver 'select' compares points one by one: expected 'values' of 'x', got a range of real numbers");
  Space many = noisy_space();
  add(many, integer("n", 1, 1000));
  CHECK(told(many, "replicate") == "driver 'select' compares at most 1000 points");
}

}  // namespace
}  // namespace orrery::experiments::search::test_selection
