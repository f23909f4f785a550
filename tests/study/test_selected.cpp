// Searches that find out which point is best whatever the seed, and `orrery best --confirm`.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "experiments/study/selected.hpp"
#include "experiments/study/stored_point.hpp"
#include "study_support.hpp"

namespace orrery::experiments::study::test_selected {
namespace {

using namespace test;
using Catch::Contains;

/// Requests that come at random; a small token budget makes prompts wait whatever the seed.
std::string noisy_study(const std::string& parameters, const std::string& search) {
  return R"({"kind": "study", "version": 1, "base": {"system": "serving",
  "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
  "model": {"config": "catalog:llama-2-7b"},
  "workload": {"generator": {"requests": 20, "arrivals": {"policy": "poisson", "poisson": {"rate": "4 1/s"}},
    "lengths": {"policy": "fixed", "fixed": {"prompt": 2000, "output": 8}}}},
  "policies": {"batching": {"policy": "sarathi"}},
  "run": {"timeline": {"enabled": false}}},
  "parameters": [{"name": "budget", "path": "policies.batching.sarathi.token_budget", "values": [128, 512, 2048]})" +
         parameters +
         R"(], "measures": {"ttft": "ttft_s.mean", "tbt": "tbt_s.mean"}, "objectives": [{"minimise": "ttft"}],
  "limits": [{"value": "tbt", "most": "1 s"}], "search": )" +
         search + "}";
}

const std::string kSeed = R"(, {"name": "seed", "path": "run.seed", "range": [1, 100000], "type": "integer"})";
const std::string kSelect =
    R"({"driver": {"policy": "select", "select": {"over": "seed"}}, "budget": 200, "batch": 3})";

TEST_CASE("a selection ends when the best is known, is the same for any threads and stops, and says how all stand",
          "[study][selected]") {
  Scratch scratch;
  const Study study = read(scratch, noisy_study(kSeed, kSelect));
  const auto result = explore(study, {.search = true, .out = scratch / "a"});
  CHECK(result.points < 200);
  const auto selected = read_selected(scratch / "a");
  REQUIRE(selected);
  CHECK(selected->decided);
  REQUIRE(selected->candidates.size() == 3);
  const SelectedCandidate &best = selected->candidates[0], &worst = selected->candidates[2];
  CHECK(best.point[0] == 2);  // 2,048 tokens at a time: a prompt in one pass
  CHECK(best.standing == search::Standing::best);
  CHECK(worst.point[0] == 0);  // 128: sixteen passes
  CHECK(worst.standing == search::Standing::worse);
  CHECK(worst.runs >= 5);
  CHECK(worst.difference.mean > 0);
  std::int64_t runs = 0;
  for (const auto& one : selected->candidates) runs += one.runs;
  CHECK(runs <= result.runs);
  CHECK_THAT(selected_text(*selected), Contains("best of 3 candidates by ttft to within 1 % at 95 % confidence"));
  CHECK_THAT(selected_text(*selected), Contains(fmt::format("worse than {}", worst.by)));
  const sim::Node json = selected_json(*selected);
  const sim::Node& first = json.find("candidates")->items()[0];
  CHECK(first.at("parameters.budget")->as_integer() == 2048);
  CHECK(first.at("parameters.seed") == nullptr);
  (void)explore(study, {.search = true, .out = scratch / "b", .jobs = 3});
  CHECK(dump(scratch / "b") == dump(scratch / "a"));
  int most = 0;
  for (bool done = false; !done;) {
    int asked = 0;
    most += 20;
    done = !explore(study, {.search = true, .out = scratch / "c", .stop = [&] { return ++asked > most; }}).interrupted;
  }
  CHECK(most > 20);  // it was stopped at least once
  CHECK(dump(scratch / "c") == dump(scratch / "a"));
}

TEST_CASE("too few runs leave it open", "[study][selected]") {
  Scratch scratch;
  const Study study = read(scratch, noisy_study(kSeed, kSelect), {"search.budget=6"});
  (void)explore(study, {.search = true, .out = scratch / "a"});
  const auto selected = read_selected(scratch / "a");
  REQUIRE(selected);
  CHECK_FALSE(selected->decided);
  CHECK_THAT(selected_text(*selected), Contains("3 of 3 candidates contend") && Contains("contends"));
}

TEST_CASE("the best points of a store are confirmed with seeds that it has not used", "[study][selected]") {
  Scratch scratch;
  const Study study = read(scratch, noisy_study("", R"({"driver": {"policy": "grid"}, "budget": 3})"));
  (void)explore(study, {.search = true, .out = scratch / "a"});
  CHECK_FALSE(is_selection(scratch / "a"));
  const ConfirmOptions options{.candidates = 2, .within = 0.02, .runs = 60};
  const Study confirming = confirming_study(test_systems(), scratch / "a", options);
  CHECK(confirming.name == "s-confirm");
  REQUIRE(confirming.first.size() == 2);
  CHECK(confirming.first[0] == Point{2, 1'000'002});  // the best first; one seed and a million after
  (void)explore(confirming, {.search = true, .out = scratch / "c"});
  CHECK(is_selection(scratch / "c"));
  const auto selected = read_selected(scratch / "c");
  REQUIRE(selected);
  CHECK(selected->params.within == 0.02);
  CHECK(selected->candidates.size() == 2);
  CHECK(selected->candidates[0].point[0] == 2);
  // A run of it is made again, and it is no store to confirm.
  CHECK(read_point(test_systems(), scratch / "c", 2, {}, {})->resolved().at("run.seed")->as_integer() == 1'000'002);
  CHECK_THROWS_WITH(confirming_study(test_systems(), scratch / "c", options),
                    Contains("the store is a selection already"));
  // What was laid over the base stays.
  const Study faster = read(scratch, noisy_study("", R"({"driver": {"policy": "grid"}, "budget": 3})"),
                            {"base.workload.generator.requests=15"});
  (void)explore(faster, {.search = true, .out = scratch / "f"});
  CHECK(confirming_study(test_systems(), scratch / "f", options).base.at("workload.generator.requests")->as_integer() ==
        15);
}

TEST_CASE("selections that cannot be made are told", "[study][selected]") {
  Scratch scratch;
  const auto told = [&](const std::string& text, const std::vector<std::string>& set) {
    try {
      (void)check_explorable(read(scratch, text, set), true);
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return std::string();
  };
  CHECK(told(noisy_study(kSeed, kSelect), {}).empty());
  CHECK_THAT(
      told(noisy_study(kSeed, kSelect), {"search.driver.select.over=sed"}),
      Contains("/search/driver: 'over' of driver 'select': expected a parameter of whole numbers") && Contains("seed"));
  CHECK_THAT(told(noisy_study("", kSelect), {}), Contains("got 'seed'"));
  CHECK_THAT(told(noisy_study(kSeed, kSelect), {R"(objectives=[{"minimise":"ttft"},{"minimise":"tbt"}])"}),
             Contains("/objectives: driver 'select' compares by one objective, got 2"));
}

}  // namespace
}  // namespace orrery::experiments::study::test_selected
