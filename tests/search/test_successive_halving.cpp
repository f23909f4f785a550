// Successive halving: rungs, promotion, brackets.
#include <catch2/catch.hpp>
#include <map>

#include "quality.hpp"

namespace orrery::experiments::search::test_successive_halving {
namespace {

using namespace test;

/// How many trials there were at each fidelity, in the order of the search, as "27 x 1/27, 9 x 1/9".
std::string rungs(const std::vector<Trial>& trials) {
  std::string text;
  int count = 0;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    ++count;
    const double fidelity = trials[i].proposal.fidelity;
    if (i + 1 < trials.size() && trials[i + 1].proposal.fidelity == fidelity) continue;
    text += fmt::format("{}{} x 1/{:.0f}", text.empty() ? "" : ", ", count, 1 / fidelity);
    count = 0;
  }
  return text;
}

std::vector<Trial> search(const Problem& problem, const std::string& params, std::int64_t budget) {
  return search_problem(problem, "successive_halving", params, {.budget = budget, .batch = 5}, 1);
}

TEST_CASE("a bracket takes eta^s points and keeps one in eta", "[search][halving]") {
  const Problem problem = make_problem("rungs");
  CHECK(rungs(search(problem, "{}", 40)) == "27 x 1/27, 9 x 1/9, 3 x 1/3, 1 x 1/1");
  CHECK(rungs(search(problem, R"({"eta": 2, "min_fidelity": 0.25, "points": 10})", 17)) ==
        "10 x 1/4, 5 x 1/2, 2 x 1/1");
}

TEST_CASE("Hyperband's brackets start later in turn", "[search][halving]") {
  // Longest bracket s = 2 of eta 3; bracket s takes ceil(3 / (s + 1) * 3^s) points: 9, 5, 3 (Li et al. 2018, table 1).
  const Problem problem = make_problem("rungs");
  CHECK(rungs(search(problem, R"({"min_fidelity": 0.11, "hyperband": true})", 22)) ==
        "9 x 1/9, 3 x 1/3, 1 x 1/1, 5 x 1/3, 4 x 1/1");  // the last four: one promoted of the five, three new ones
}

TEST_CASE("the promoted are the best of their rung", "[search][halving]") {
  const auto trials = search(make_problem("rungs"), "{}", 40);
  std::vector<double> first;
  for (int i = 0; i < 27; ++i) first.push_back(trials[static_cast<std::size_t>(i)].result.objectives[0]);
  std::sort(first.begin(), first.end());
  for (std::size_t i = 27; i < 36; ++i) {
    const auto before = std::find_if(trials.begin(), trials.begin() + 27, [&](const Trial& trial) {
      return trial.proposal.point == trials[i].proposal.point;
    });
    REQUIRE(before != trials.begin() + 27);
    CHECK(before->result.objectives[0] <= first[8]);
  }
}

TEST_CASE("for the same work it finds better points than full runs", "[search][halving]") {
  // 480 trials of 12 brackets cost 12 * (27/27 + 9/9 + 3/3 + 1) = 48 full runs.
  const Quality halving = quality("rungs", "successive_halving", "{}", {.budget = 480, .batch = 8, .seeds = 15});
  const Quality full = quality("rungs", "random", "{}", {.budget = 48, .batch = 8, .seeds = 15});
  INFO("halving " << text_of(halving) << ", full runs " << text_of(full));
  CHECK(halving.median < full.median);
}

}  // namespace
}  // namespace orrery::experiments::search::test_successive_halving
