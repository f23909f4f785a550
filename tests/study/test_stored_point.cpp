// `orrery run STORE --point N`: a point's very run again; what a point sets, from the store alone.
#include <catch2/catch.hpp>
#include <sstream>

#include "experiments/study/stored_point.hpp"
#include "study_support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::study::test_stored_point {
namespace {

using namespace test;
using Catch::Contains;

double measure(const fs::path& store, std::int64_t id, const std::string& name) {
  double value = std::nan("");
  StoreReader reader(store);
  reader.for_each([&](const PointRow& row) {
    for (std::size_t i = 0; row.id == id && i < reader.columns().size(); ++i)
      if (reader.columns()[i].name == name) value = number_of(row.cells[i]);
  });
  return value;
}

double figure(const CommandResult& run, const std::string& path) {
  const sim::Node summary = sim::parse_json(run.out, "stdout");
  return summary.at(path)->as_number();
}

TEST_CASE("a point of a sweep is run again, to the bit", "[study][cli]") {
  Scratch scratch;
  fs::create_directories(scratch / "in");
  scratch.write("in/s.json", small_study());
  scratch.write("in/trace.csv", small_trace());
  // What is laid over the base is part of every point.
  REQUIRE(command(scratch, "sweep in/s.json --set base.run.seed=7 --out out/s.sqlite --quiet").exit_code == 0);
  for (const int id : {1, 4, 9}) {  // budgets of sarathi, and vllm_v0, which has none
    const CommandResult run = command(scratch, "run out/s.sqlite --point " + std::to_string(id) + " --json --quiet");
    CAPTURE(id, run.err);
    REQUIRE(run.exit_code == 0);
    CHECK(figure(run, "ttft_s.p99") == measure(scratch / "out/s.sqlite", id, "ttft"));
    CHECK(figure(run, "throughput.output_tokens_per_s") == measure(scratch / "out/s.sqlite", id, "speed"));
  }
  const CommandResult dry = command(scratch, "run out/s.sqlite --point 4 --dry-run --quiet");
  const sim::Node config = sim::parse_json(dry.out, "stdout");
  CHECK(config.at("run.seed")->as_integer() == 7);
  CHECK(config.at("policies.batching.sarathi.token_budget")->as_integer() == 512);  // 256 has points 1 to 3
  CHECK(config.at("workload.rate_scale")->as_number() == 0.5);
  const CommandResult other =
      command(scratch, "run out/s.sqlite --point 4 --set workload.rate_scale=3 --dry-run --quiet");
  CHECK(sim::parse_json(other.out, "stdout").at("workload.rate_scale")->as_number() == 3);
}

TEST_CASE("seeds and shorter runs are part of a point", "[study][cli]") {
  Scratch scratch;
  const std::string study = study_json(kParameters + ", " + kGoals + R"(, "seeds": {"count": 2, "first": 11},
      "fidelity": {"path": "workload.limit", "full": 8},
      "search": {"driver": {"policy": "successive_halving"}, "budget": 6, "batch": 3})");
  scratch.write("trace.csv", small_trace());
  scratch.write("s.json", study);
  const CommandResult search = command(scratch, "search s.json --out s.sqlite --quiet");
  CAPTURE(search.err);
  REQUIRE(search.exit_code == 0);
  StoreReader store(scratch / "s.sqlite");
  const StoredTrials stored = read_trials(store, {});
  REQUIRE(stored.trials[0].proposal.fidelity < 1);
  const std::vector<std::string> sets = settings_of(stored, 0);
  CHECK(sets.back() == "run.seed=11");
  CHECK(sets[sets.size() - 2] ==
        "workload.limit=" + std::to_string(std::max(1L, std::lround(8 * stored.trials[0].proposal.fidelity))));
  const CommandResult dry = command(scratch, "run s.sqlite --point 1 --dry-run --quiet");
  const sim::Node config = sim::parse_json(dry.out, "stdout");
  CHECK(config.at("run.seed")->as_integer() == 11);
  CHECK("workload.limit=" + std::to_string(config.at("workload.limit")->as_integer()) == sets[sets.size() - 2]);
}

TEST_CASE("what a point sets, laid over the base by hand, is its config", "[study][cli]") {
  Scratch scratch;
  scratch.write("trace.csv", small_trace());
  scratch.write("s.json", small_study());
  REQUIRE(command(scratch, "sweep s.json --out s.sqlite --quiet").exit_code == 0);
  StoreReader store(scratch / "s.sqlite");
  const StoredTrials stored = read_trials(store, {});
  const Study study = study_of(test_systems(), store);
  for (std::size_t i = 0; i < stored.trials.size(); ++i) {
    sim::Node config = study.base;
    for (const std::string& one : settings_of(stored, i)) sim::assign(config, one);
    CHECK(config.dump() == study.config(stored.trials[i].proposal.point, 1, 1).dump());
  }
}

TEST_CASE("a point that cannot be run again is one line", "[study][cli]") {
  Scratch scratch;
  scratch.write("trace.csv", small_trace());
  scratch.write("s.json", small_study());
  REQUIRE(command(scratch, "sweep s.json --out s.sqlite --quiet").exit_code == 0);
  const auto error = [&](const std::string& arguments) {
    const CommandResult result = command(scratch, "run " + arguments);
    CHECK(result.exit_code == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK_FALSE(fs::exists(scratch / "runs"));
    return result.err;
  };
  CHECK_THAT(error("s.sqlite --point 10"), Contains("s.sqlite: expected a point of the store, 1 to 9, got 10"));
  CHECK_THAT(error("s.sqlite"), Contains("got the store of a study (--point N runs one of its points)"));
  CHECK_THAT(error("s.json --point 1"), Contains("s.json: expected a store of orrery"));
  scratch.write("t.json", study_json(kParameters + R"(, "measures": {"ttft": "ttft_s.p99"})"));
  CHECK_THAT(error("s.sqlite --point 1 --study t.json"), Contains("expected the study that s.sqlite is of"));
  fs::rename(scratch / "s.json", scratch / "moved.json");
  CHECK_THAT(error("s.sqlite --point 1"), Contains("--study FILE says where it is now"));
  CHECK(command(scratch, "run s.sqlite --point 1 --study moved.json --dry-run").exit_code == 0);
}

}  // namespace
}  // namespace orrery::experiments::study::test_stored_point
