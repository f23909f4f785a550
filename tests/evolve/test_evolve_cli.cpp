// The command, and expressions in configs as a user meets them.
#include "tests/evolve/study_file.hpp"

namespace test_evolve_cli {

using namespace orrery;
using namespace orrery::experiments::evolve::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

const std::string kSmall = R"(, "genetic": {"population": 6}, "search": {"generations": 2})";

/// A config with a burst on a small cache, so that sequences wait and are preempted.
std::string config(const std::string& policies, const std::string& more = "", int replicas = 1) {
  return R"({"kind": "experiment", "version": 1, "system": "serving",
  "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": )" +
         std::to_string(replicas) + R"(}]}, "model": {"config": "catalog:llama-2-7b"},
  "workload": {"generator": {"requests": 300, "arrivals": {"policy": "gamma", "gamma": {"rate": "30 req/s", "cv": 3}},
    "lengths": {"policy": "uniform"}}, "predictor": {"sigma": 0.3}},
  "replica": {"kv_blocks": 400)" +
         (replicas > 1 ? std::string(R"(, "tensor_parallel": 1)") : "") + more + R"(},
  "policies": {)" +
         policies + R"(}, "run": {"timeline": {"enabled": false}}})";
}

/// Summaries too, but for the number of events: where scores may change, the replica leaps less.

void check_same_files(const Scratch& scratch, const std::string& a, const std::string& b) {
  for (const std::string file : {"requests.csv", "series.csv", "energy.csv", "distributions.csv"}) {
    CAPTURE(a, b, file);
    const std::string one = experiments::test::slurp(scratch / a / file);
    CHECK_FALSE(one.empty());
    const bool same = one == experiments::test::slurp(scratch / b / file);
    CHECK(same);
  }
  sim::Node one = sim::read_json(scratch / a / "summary.json"), other = sim::read_json(scratch / b / "summary.json");
  one.erase("events");
  other.erase("events");
  CHECK(one.dump(1) == other.dump(1));
}

void run(const Scratch& scratch, const std::string& name, const std::string& text) {
  scratch.write(name + ".json", text);
  const CommandResult result = command(scratch, "run " + name + ".json --quiet --out " + name);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
}

}  // namespace

TEST_CASE("expressions that say what a policy does give its files", "[cli]") {
  const Scratch scratch;
  run(scratch, "fcfs", config(R"("batching": {"policy": "vllm_v1"})"));
  run(scratch, "order", config(R"("batching": {"policy": "expression"})"));
  run(scratch, "arrived", config(R"("batching": {"policy": "expression", "expression": {"score": "-waited_s"}})"));
  check_same_files(scratch, "fcfs", "order");
  check_same_files(scratch, "fcfs", "arrived");
  const sim::Node summary = sim::read_json(scratch / "fcfs" / "summary.json");
  CHECK(summary.at("requests.preemptions")->as_integer() > 0);
  run(scratch, "sjf", config(R"("batching": {"policy": "sjf", "sjf": {"aging": 0}})"));
  run(scratch, "left", config(R"("batching": {"policy": "expression", "expression": {"score": "predicted_left"}})"));
  check_same_files(scratch, "sjf", "left");
  run(scratch, "live",
      config(R"("batching": {"policy": "expression", "expression": {"score": "predicted_left + 0 * waited_s"}})"));
  check_same_files(scratch, "sjf", "live");
}

TEST_CASE("a router by requests gives the files of least_loaded", "[cli]") {
  const Scratch scratch;
  run(scratch, "least",
      config(R"("routing": {"policy": "least_loaded", "least_loaded": {"load": "requests"}})", "", 3));
  run(scratch, "expr", config(R"("routing": {"policy": "expression", "expression": {"score": "requests"}})", "", 3));
  check_same_files(scratch, "least", "expr");
}

TEST_CASE("evolve: tables, JSON, a folder; the same for any number of jobs", "[cli]") {
  const Scratch scratch;
  scratch.write("s.json", study_text(kSmall));
  const CommandResult one = command(scratch, "evolve s.json --json --quiet --jobs 1 --out made");
  CAPTURE(one.err);
  REQUIRE(one.exit_code == 0);
  CHECK(one.out == experiments::test::slurp(scratch / "made" / "evolve.json"));
  CHECK_THAT(experiments::test::slurp(scratch / "made" / "candidates.csv"),
             Contains("candidate,generation,island,how,parents,nodes,figure"));
  CHECK(command(scratch, "evolve s.json --json --quiet --jobs 2").out == one.out);
  const CommandResult text = command(scratch, "evolve s.json --quiet");
  CHECK_THAT(text.out, Contains("held out") && Contains("best: ") && Contains("quartiles of 2"));
  CHECK(command(scratch, "evolve s.json --quiet --out made").exit_code == 2);
  const CommandResult program = command(
      scratch,
      R"(evolve s.json --quiet --proposer "while read l; do echo '{\"candidates\": [\"predicted_left\"]}'; done")");
  CHECK(program.exit_code == 0);
  CHECK_THAT(program.out, Contains("best: predicted_left"));
}

TEST_CASE("evolve: faults with their place, and nothing written", "[cli]") {
  const Scratch scratch;
  scratch.write("s.json", study_text(kSmall));
  const auto refused = [&](const std::string& arguments, const std::string& message) {
    const CommandResult result = command(scratch, "evolve " + arguments + " --quiet --out made");
    CAPTURE(arguments, result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Contains(message));
    CHECK_FALSE(fs::exists(scratch / "made"));
  };
  refused("none.json", "none.json");
  refused("s.json --set objective.figure=e2e_s.maen", "/objective/figure");
  refused("s.json --set base.policies.batching.expression.score=ordr", "did you mean 'order'?");
  refused("s.json --set search.generations=0", "/search/generations");
}

TEST_CASE("describe shows the names, with units", "[cli]") {
  const Scratch scratch;
  const CommandResult result = command(scratch, "describe expression");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("expression (batching)") && Contains("expression (routing)") &&
                             Contains("waited_s: quantity in s") && Contains("kv_share: number (ratio)"));
}

}  // namespace test_evolve_cli
