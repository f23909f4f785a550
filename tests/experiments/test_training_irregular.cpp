// Training on a fabric with leaf switches, and with stragglers.
#include <catch2/catch.hpp>

#include "experiments/systems/training/run.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_irregular {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

/// A GPT on eight nodes of four A100; `machine` are members with a leading comma.
std::string config(const std::string& machine, const std::string& plan = "\"pipeline_parallel\": 1") {
  return R"({"system": "training",
    "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 32}],
                "node": {"devices": 4, "nic": "ib-hdr-4x", "nics": 1})" +
         machine + R"(},
    "model": {"builder": {"policy": "gpt2", "gpt2": {"layers": 8, "hidden": 1024, "heads": 16, "intermediate": 4096,
              "vocab": 8192, "positions": 1024, "loss": true}}},
    "workload": {"sequence": 1024, "global_batch": 64},
    "plan": {"overlap_gradients": false, )" +
         plan + "}}";
}

training::TrainingResult result(const std::string& machine, const std::string& plan = "\"pipeline_parallel\": 1") {
  sim::Faults faults;
  const training::TrainingConfig config =
      training::read_training_config(sim::parse_json(test_training_irregular::config(machine, plan), "irregular.json"),
                                     *test_systems().registries(), faults);
  faults.throw_if_any();
  training::TrainingResult done = training::train(config);
  CHECK(done.status == "ok");
  return done;
}

double step(const std::string& machine, const std::string& plan = "\"pipeline_parallel\": 1") {
  return result(machine, plan).run.times.time_s;
}

std::string fault(const std::string& text) {
  try {
    (void)read_experiment(test_systems(), sim::parse_json(text, "irregular.json"))->run({});
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "none";
}

}  // namespace

TEST_CASE("leaf switches: what stays under one is as before, what leaves it has its share of the spine") {
  const double whole = step("");
  CHECK(step(R"(, "spine": {"leaf_nodes": 8, "oversubscription": 4})") == whole);
  CHECK(step(R"(, "spine": {"leaf_nodes": 4})") == whole);
  // Gradients of 32 ranks leave a leaf of four nodes: as over adapters of a quarter of the bandwidth.
  training::TrainingConfig slow;
  {
    sim::Faults faults;
    slow = training::read_training_config(sim::parse_json(config(""), "irregular.json"), *test_systems().registries(),
                                          faults);
    faults.throw_if_any();
  }
  slow.machine.nics->nic.bandwidth /= 4;
  const double quarter = training::train(slow).run.times.time_s;
  CHECK(quarter > whole);
  CHECK(step(R"(, "spine": {"leaf_nodes": 4, "oversubscription": 4})") == Approx(quarter).epsilon(1e-12));
  CHECK(step(R"(, "spine": {"leaf_nodes": 4, "oversubscription": 2, "share": 0.5})") == Approx(quarter).epsilon(1e-12));
  // In two stages of four nodes the copies of each stay under a leaf; the messages between stages leave it.
  const char* const stages = "\"pipeline_parallel\": 2";
  const training::TrainingResult with = result(R"(, "spine": {"leaf_nodes": 4, "oversubscription": 4})", stages);
  const training::TrainingResult without = result("", stages);
  CHECK(with.costs.stages[1].gradients_s == without.costs.stages[1].gradients_s);
  CHECK(with.costs.stages[1].shared_s > without.costs.stages[1].shared_s);  // of the table that both ends read
  CHECK(with.costs.activation_s > without.costs.activation_s);
  // Leaves of three nodes cut through the stages.
  CHECK(result(R"(, "spine": {"leaf_nodes": 3, "oversubscription": 4})", stages).costs.stages[1].gradients_s >
        without.costs.stages[1].gradients_s);
}

TEST_CASE("stragglers: the slowest copy decides") {
  const auto slow = [](const std::string& nodes) { return R"(, "slow_nodes": [)" + nodes + "]"; };
  const training::TrainingResult alike = result("");
  const double passes = alike.run.times.compute_s, rest = alike.run.times.time_s - passes;
  // Data parallel: one slow node is as bad as all slow, its passes take a quarter longer.
  const double one = step(slow(R"({"node": 5, "speed": 0.8})"));
  CHECK(one == Approx(passes / 0.8 + rest).epsilon(0.001));
  CHECK(step(slow(R"({"node": 5, "speed": 0.8}, {"node": 2, "speed": 0.9})")) == one);
  CHECK(step(slow(R"({"node": 5, "speed": 1})")) == alike.run.times.time_s);
  // In a pipeline one slow stage costs less than all, more than none; in order of nodes 2 s and 2 s + 1 are stage s.
  const char* const stages = "\"pipeline_parallel\": 4";
  const double none = step("", stages), first = step(slow(R"({"node": 0, "speed": 0.8})"), stages);
  const double all = step(slow(R"({"node": 0, "speed": 0.8}, {"node": 2, "speed": 0.8}, {"node": 4, "speed": 0.8},
                                  {"node": 6, "speed": 0.8})"),
                          stages);
  CHECK(first > none);
  CHECK(all > first);
  // Slow nodes of unlike copies do not add up: the slower copy decides.
  const double apart = step(slow(R"({"node": 0, "speed": 0.8}, {"node": 3, "speed": 0.8})"), stages);
  const double together = step(slow(R"({"node": 0, "speed": 0.8}, {"node": 2, "speed": 0.8})"), stages);
  CHECK(apart < together);
  CHECK(apart == Approx(std::max(first, step(slow(R"({"node": 3, "speed": 0.8})"), stages))).epsilon(1e-12));
}

TEST_CASE("leaf switches and stragglers: what cannot be is said") {
  CHECK_THAT(fault(config(R"(, "slow_nodes": [{"node": 8, "speed": 0.5}])")),
             Contains("/machine/slow_nodes/0/node: expected a node from 0 to 7, got 8"));
  CHECK_THAT(fault(config(R"(, "slow_nodes": [{"node": 1, "speed": 0.5}, {"node": 1, "speed": 0.6}])")),
             Contains("expected each node once, 1 is slow_nodes.0's too"));
  CHECK_THAT(fault(config(R"(, "slow_nodes": [{"node": 1, "speed": 1.5}])")), Contains("/machine/slow_nodes/0/speed"));
  CHECK_THAT(
      fault(config(R"(, "spine": {"leaf_nodes": 2}, "clusters": [{"nodes": 8, "nic": "ib-hdr-4x", "nics": 1}])")),
      Contains("/machine/spine: expected none: leaf switches over nodes with unlike adapters"));
}

}  // namespace test_training_irregular
