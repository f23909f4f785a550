// Speculation in a whole serving system: tokens add up, time follows the models, leaps change nothing.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "policies/speculation/speculation.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_speculation {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

sim::Node config(const std::string& speculation, const std::string& extra = "", int slots = 4, int requests = 24) {
  return sim::parse_json(
      R"({"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]}, "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": {"requests": )" +
          std::to_string(requests) + R"(, "arrivals": {"policy": "poisson", "poisson": {"rate": "2 1/s"}},
      "lengths": {"policy": "uniform", "uniform": {"prompt_min": 50, "prompt_max": 400, "output_min": 20, "output_max": 200}}}},
    "policies": {"batching": {"policy": "sarathi", "sarathi": {"max_sequences": )" +
          std::to_string(slots) + R"(}}, "speculation": )" + speculation + R"(},
    "run": {"timeline": {"enabled": false}})" +
          extra + "}",
      "speculation");
}

sim::Node run(const sim::Node& root) {
  return read_experiment(test_systems(), root)->run({}).summary;
}
double number(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  REQUIRE(value != nullptr);
  return value->as_number();
}

const std::vector<std::string> kSpeculators{
    R"({"policy": "mtp", "mtp": {"drafts": 3}})", R"({"policy": "n_gram", "n_gram": {"drafts": 5, "match": 0.4}})",
    R"({"policy": "draft_model", "draft_model": {"model": "catalog:llama-2-7b", "drafts": 2, "step_overhead": "1 ms"}})",
    R"({"policy": "mtp", "mtp": {"drafts": 4, "adaptive": true, "max_batch": 2, "ragged": "least"}})"};

}  // namespace

TEST_CASE("Under every speculator each request gets its tokens, and no block is lost", "[prop]") {
  const sim::Node plain = run(config("{}"));
  for (const std::string& speculation : kSpeculators) {
    // A small cache too: proposals take only blocks that nobody needs.
    for (const char* extra : {"", R"(, "replica": {"kv_blocks": 80, "max_context": 1200})"}) {
      CAPTURE(speculation, extra);
      const sim::Node summary = run(config(speculation, extra));
      CHECK(number(summary, "requests.completed") == 24);
      CHECK(number(summary, "tokens.output") == number(plain, "tokens.output"));
      CHECK(number(summary, "tbt_s.mean") > 0);
      const double drafted = number(summary, "speculation.drafted");
      const double accepted = number(summary, "speculation.accepted");
      CHECK(drafted > 0);
      CHECK(accepted >= 0);
      CHECK(accepted <= drafted);
      CHECK(number(summary, "tokens.processed") >= number(plain, "tokens.processed"));
    }
  }
}

TEST_CASE("Replicas draw by themselves which drafts are kept", "[unit]") {
  // Two requests alike, one on each of two replicas: only the draws tell their iterations apart.
  sim::Node root = config(R"({"policy": "mtp", "mtp": {"drafts": 3, "acceptance": 0.5}})",
                          R"(, "cluster": {"replicas": [{"count": 2}]})", 4, 2);
  sim::assign(root, "machine.devices.0.count=2");
  sim::assign(root, "policies.routing.policy=round_robin");
  sim::assign(root, R"(workload.generator.lengths={"policy": "uniform", "uniform": {"prompt_min": 100,
      "prompt_max": 100, "output_min": 200, "output_max": 200}})");
  const sim::Node summary = run(root);
  const sim::Node* rows = summary.at("replicas");
  REQUIRE(rows != nullptr);
  REQUIRE(rows->items().size() == 2);
  CHECK(number(rows->items()[0], "completed") == 1);
  CHECK(number(rows->items()[1], "completed") == 1);
  CHECK(number(rows->items()[0], "iterations") != number(rows->items()[1], "iterations"));
  // The second draws what the first does where the seed is 2^32 greater; all else of these runs is without chance.
  sim::assign(root, "run.seed=4294967297");
  const sim::Node further = run(root);
  CHECK(number(further.at("replicas")->items()[0], "iterations") == number(rows->items()[1], "iterations"));
}

TEST_CASE("Leaping and stepping give the same files under every speculator", "[prop]") {
  const Scratch scratch;
  int i = 0;
  for (const std::string& speculation : kSpeculators) {
    CAPTURE(speculation);
    std::vector<std::string> texts;
    for (const char* leap : {"true", "false"}) {
      sim::Node root = config(speculation);
      sim::assign(root, std::string("run.leap=") + leap);
      const fs::path folder = scratch / std::to_string(i++);
      fs::create_directories(folder);
      sim::Node summary = read_experiment(test_systems(), root)->run({.folder = folder}).summary;
      summary.erase("events");
      std::string text = summary.dump();
      for (const char* file : {"requests.csv", "series.csv", "energy.csv", "distributions.csv"})
        text += slurp(folder / file);
      texts.push_back(std::move(text));
    }
    CHECK(texts[0] == texts[1]);
  }
}

TEST_CASE("No drafts is no speculation: a control", "[unit]") {
  const sim::Node plain = run(config("{}"));
  const sim::Node none = run(config(R"({"policy": "n_gram", "n_gram": {"drafts": 0}})"));
  CHECK(number(none, "e2e_s.mean") == number(plain, "e2e_s.mean"));
  CHECK(none.find("speculation") == nullptr);
  // Drafts of which none is kept cost time and give nothing.
  const sim::Node wrong = run(config(R"({"policy": "mtp", "mtp": {"drafts": 4, "acceptance": 0}})"));
  CHECK(number(wrong, "e2e_s.mean") > number(plain, "e2e_s.mean"));
  CHECK(number(wrong, "speculation.tokens_a_step") == 1);
}

TEST_CASE("A sequence alone takes as many steps as the closed form says", "[theory]") {
  const sim::Node summary =
      run(config(R"({"policy": "n_gram", "n_gram": {"drafts": 4, "match": 1, "acceptance": 0.7}})", "", 1, 100));
  // Some 11,000 tokens in 4,000 steps; kept tokens vary by 1.7 a step: a standard error of 0.03.
  CHECK(number(summary, "speculation.tokens_a_step") == Approx(policies::tokens_a_step(0.7, 4)).margin(0.1));
}

TEST_CASE("Drafting pays at batch 1 and not at a large batch; what drafts takes memory", "[unit]") {
  const char* one = R"({"policy": "mtp", "mtp": {"drafts": 4}})";
  const auto latency = [](const sim::Node& summary) { return number(summary, "tpot_s.mean"); };
  const double alone = latency(run(config(one, "", 1))) / latency(run(config("{}", "", 1)));
  CHECK(alone < 0.7);
  const sim::Node plain = run(config("{}"));
  const sim::Node model = run(config(kSpeculators[2]));
  CHECK(number(model, "memory_bytes.weights") == Approx(2 * number(plain, "memory_bytes.weights")));
  CHECK(number(model, "memory_bytes.kv_capacity") < number(plain, "memory_bytes.kv_capacity"));
  // Three layers' worth of 32: each token's keys and values take 1/32 more with a layer that drafts.
  const sim::Node layer = run(config(one));
  CHECK(number(layer, "memory_bytes.weights") > number(plain, "memory_bytes.weights"));
}

TEST_CASE("Layers that draft are layers of the model: no more than it has", "[unit]") {
  // Llama-2-7B has 32 layers; what a 33rd costs was read behind the last one.
  CHECK(run(config(R"({"policy": "mtp", "mtp": {"layers": 32}})")).find("status")->as_string() == "ok");
  const sim::Node summary = run(config(R"({"policy": "mtp", "mtp": {"layers": 33}})"));
  CHECK(summary.find("status")->as_string() == "infeasible");
  CHECK(summary.find("reason")->as_string() == "mtp drafts with 33 layers of the model, which has 32");
}

TEST_CASE("A draft model that is not named, or not there, is a fault at its place", "[unit]") {
  const auto fault = [](const std::string& speculation) -> std::string {
    try {
      (void)read_experiment(test_systems(), config(speculation));
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return "none";
  };
  CHECK(fault(R"({"policy": "draft_model"})").find("/policies/speculation") != std::string::npos);
  CHECK(fault(R"({"policy": "draft_model", "draft_model": {"model": "catalog:llama-9"}})")
            .find("/policies/speculation/draft_model/model") != std::string::npos);
  CHECK(fault(R"({"policy": "mpt"})").find("mtp") != std::string::npos);
}

}  // namespace test_speculation
