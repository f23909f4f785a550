// Training on nodes with unlike adapters: which network a group of ranks has, and what follows from it.
#include <catch2/catch.hpp>

#include "experiments/systems/training/run.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_mixed {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

/// A GPT on four nodes of four A100 in two stages; `machine` are members with a leading comma.
std::string config(const std::string& machine, const std::string& plan = "", const std::string& policies = "") {
  return R"({"system": "training",
    "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 16}],
                "node": {"devices": 4, "nic": "ib-hdr-4x", "nics": 1})" +
         machine + R"(},
    "model": {"builder": {"policy": "gpt2", "gpt2": {"layers": 12, "hidden": 2048, "heads": 16, "intermediate": 8192,
              "vocab": 8192, "positions": 1024, "loss": true}}},
    "workload": {"sequence": 1024, "global_batch": 64},
    "plan": {"pipeline_parallel": 2, "overlap_gradients": false)" +
         plan + R"(}, "policies": {)" + policies + "}}";
}

std::string clusters(int first, int second, const std::string& rest = "") {
  return R"(, "clusters": [{"nodes": )" + std::to_string(first) + R"(, "nic": "ib-hdr-4x", "nics": 1}, {"nodes": )" +
         std::to_string(second) + R"(, "nic": "roce-200g", "nics": 1}])" + rest;
}

training::TrainingConfig read(const std::string& text) {
  sim::Faults faults;
  training::TrainingConfig config =
      training::read_training_config(sim::parse_json(text, "mixed.json"), *test_systems().registries(), faults);
  faults.throw_if_any();
  return config;
}

sim::Node run(const std::string& text) {
  return read_experiment(test_systems(), sim::parse_json(text, "mixed.json"))->run({}).summary;
}

double step(const std::string& text) {
  return run(text).at("iteration_s")->as_number();
}

/// By what tells the catalog's adapters apart.
std::string name(const training::NodeNics* nics) {
  if (nics->nic.bandwidth < 2e9) return "ethernet-10g";
  if (nics->nic.bandwidth < 5e9) return "ethernet-25g";
  return nics->nic.latency_s < 0.8e-6 ? "ib-hdr-4x" : "roce-200g";
}

std::string fault(const std::string& text) {
  try {
    (void)run(text);
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "none";
}

}  // namespace

TEST_CASE("mixed nodes: a group that straddles kinds has the common network, any other its own") {
  // Ranks 0-7 are the first stage, on nodes 0 and 1; copies of a rank are one apart.
  const auto nics = [](const std::string& machine, std::int64_t first) {
    const training::TrainingConfig c = read(config(machine));
    return name(training::group_nics(c.machine, first, 8, 8, 1));
  };
  CHECK(nics(clusters(2, 2), 0) == "ib-hdr-4x");
  CHECK(nics(clusters(2, 2), 8) == "roce-200g");
  CHECK(nics(clusters(1, 3), 0) == "ethernet-25g");  // nodes 0 and 1 are unlike
  CHECK(nics(clusters(1, 3), 8) == "roce-200g");
  CHECK(nics(clusters(2, 2, R"(, "node_order": "in_turns")"), 0) == "ethernet-25g");
  CHECK(nics(clusters(2, 2, R"(, "network": "job")"), 0) == "ethernet-25g");
  CHECK(nics(clusters(2, 2, R"(, "common": {"nic": "ethernet-10g"}, "network": "job")"), 8) == "ethernet-10g");
  // Of several groups the slowest counts: pairs of nodes (0, 2) and (1, 3), of which one straddles.
  const training::TrainingConfig c = read(config(clusters(1, 3)));
  CHECK(name(training::group_nics(c.machine, 0, 16, 2, 8)) == "ethernet-25g");
  CHECK(name(training::group_nics(c.machine, 4, 4, 2, 2)) == "roce-200g");
  CHECK(training::group_nics(read(config("")).machine, 0, 8, 8, 1) == nullptr);
}

TEST_CASE("mixed nodes: gradients of a straddling group take as long as on Ethernet, and the moved cut restores them") {
  const auto gradients = [](const std::string& text, std::size_t stage) {
    return run(text).find("stages")->items()[stage].find("gradients_s")->as_number();
  };
  std::string ethernet = config("");
  ethernet.replace(ethernet.find("ib-hdr-4x"), 9, "ethernet-25g");
  CHECK(gradients(config(clusters(1, 3)), 0) == gradients(ethernet, 0));
  CHECK(gradients(config(clusters(2, 2)), 0) == gradients(config(""), 0));
  CHECK(gradients(config(clusters(2, 2)), 0) < 0.2 * gradients(ethernet, 0));
}

TEST_CASE("mixed nodes: alike nodes in a cluster are what they are without one; a naive job is as Ethernet") {
  const std::string alike = R"(, "clusters": [{"nodes": 4, "nic": "ib-hdr-4x", "nics": 1}])";
  CHECK(step(config(alike)) == step(config("")));
  std::string ethernet = config("");
  ethernet.replace(ethernet.find("ib-hdr-4x"), 9, "ethernet-25g");
  CHECK(step(config(clusters(2, 2, R"(, "network": "job")"))) == step(ethernet));
  const double mixed = step(config(clusters(2, 2)));
  CHECK(step(config("")) < mixed);
  CHECK(mixed < step(ethernet));
}

TEST_CASE("mixed nodes: layers by priced speed go to the faster cluster") {
  // The second cluster has a tenth of the first one's bandwidth between nodes.
  const std::string machine = R"(, "clusters": [{"nodes": 2, "nic": "ib-hdr-4x", "nics": 1},
                                                {"nodes": 2, "nic": "ethernet-25g", "nics": 1}])";
  const sim::Node summary = run(config(machine, "", R"("partition": {"policy": "by_speed"})"));
  const double first = summary.find("stages")->items()[0].find("layers")->as_number();
  // Speeds are those of the whole machine with either adapter: floor(12 S0 / (S0 + S1)).
  std::string ethernet = config("");
  ethernet.replace(ethernet.find("ib-hdr-4x"), 9, "ethernet-25g");
  const double fast = 1 / step(config("")), slow = 1 / step(ethernet);
  CHECK(first == std::floor(12 * fast / (fast + slow)));
  CHECK(first > 6);
}

TEST_CASE("mixed nodes: weights gathered beside the next forward pass take less, never less than nothing") {
  const auto optimizer = [](const std::string& plan) {
    return run(config(clusters(2, 2), R"(, "zero": "optimizer")" + plan)).at("breakdown_s.optimizer")->as_number();
  };
  const double plain = optimizer(""), beside = optimizer(R"(, "overlap_gathers": true)");
  CHECK(beside < plain);
  CHECK(beside > 0);
  // Without copies that share states there is nothing to gather.
  CHECK(step(config(clusters(2, 2), R"(, "overlap_gathers": true)")) == step(config(clusters(2, 2))));
}

TEST_CASE("mixed nodes: what cannot be is said") {
  CHECK_THAT(fault(config(clusters(2, 3))),
             Contains("/machine/clusters: expected nodes for 16 devices, 5 of 4 have 20"));
  CHECK_THAT(fault(config(R"(, "clusters": [{"nodes": 4, "nic": "infiniband"}])")), Contains("infiniband"));
  CHECK_THAT(fault(config(clusters(2, 2, R"(, "common": {"nic": "ethernet-26g"})"))), Contains("ethernet-25g"));
  CHECK_THAT(run(config(clusters(2, 2), R"(, "tensor_parallel": 8)")).find("reason")->as_string(),
             Contains("ranks that share a layer stay in one node of 4: 8 do not"));
  std::string none = config("");
  none.replace(none.find(R"([{"part": "a100-sxm4-80gb", "count": 16}])"), 41, "[]");
  CHECK_THAT(fault(none), Contains("/machine/devices: expected one group of devices, got none"));
  std::string plans = config(clusters(2, 2));
  plans.replace(plans.find("\"training\""), 10, "\"training_plans\"");
  CHECK_THAT(fault(plans), Contains("expected none: plans are compared on equal nodes"));
}

}  // namespace test_training_mixed
