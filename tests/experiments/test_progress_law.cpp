// A law of parameters and tokens joined with a job: by hand, optima, what batches cost, faults; the best plan in place
// of a config's own.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/progress/law.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_progress_law {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;
using progress::law_loss;
using progress::LossLaw;

namespace {

sim::Node run(const sim::Node& root) {
  return read_experiment(test_systems(), root)->run({}).summary;
}

double number(const sim::Node& node, std::string_view path) {
  REQUIRE(node.at(path) != nullptr);
  return node.at(path)->as_number();
}

std::string fault(const sim::Node& root) {
  try {
    (void)run(root);
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "none";
}

/// Llama 3.2 1B on 16 H100; `changes` are laid over it, a path each.
sim::Node config(const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  sim::Node root = sim::parse_json(R"({"system": "progress",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 16}], "node": {"nic": "ib-ndr-4x"}},
    "model": {"builder": {"policy": "decoder", "decoder": {"config": "catalog:llama-3.2-1b", "loss": true}}},
    "workload": {"sequence": 4096, "global_batch": 256, "price": 2.5},
    "plan": {"best_by": "time"},
    "progress": {"cost": 20000, "law": {}}})",
                                   "law.json");
  for (const auto& [path, value] : changes) {
    sim::Node* at = &root;
    std::string rest = path;
    for (std::size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      const std::string head = rest.substr(0, dot);
      if (at->find(head) == nullptr) at->set(head, sim::Node::object());
      at = at->find(head);
      rest = rest.substr(dot + 1);
    }
    at->set(rest, sim::parse_json(value, "changes.json"));
  }
  return root;
}

}  // namespace

TEST_CASE("law: the published fit by hand, and its split", "[golden][progress]") {
  // Chinchilla's 70 billion parameters and 1.4 trillion tokens: 1.8172 + 482.01 / 70e9^0.3478 + 2085.43
  // / 1.4e12^0.3658.
  const LossLaw law;
  const progress::LawLoss small = law_loss(law, 70e9, 1.4e12, 1e-9);
  CHECK(small.of_size == Approx(0.0821).epsilon(0.01));
  CHECK(small.of_data == Approx(0.0750).epsilon(0.01));
  CHECK(small.loss == Approx(law.floor + small.of_size + small.of_data));
  CHECK(small.of_batch == Approx(0).margin(1e-9));
  CHECK(small.counted_tokens == Approx(1.4e12));
  // Kaplan et al.: 2.1e8 tokens over L^(1 / 0.21); at a loss of 2, 7.7 million.
  CHECK(2.1e8 / std::pow(2.0, 1 / 0.21) == Approx(7.74e6).epsilon(1e-3));
  // A batch as large as the critical one needs twice the tokens.
  const progress::LawLoss big = law_loss(law, 70e9, 1.4e12, small.critical_batch);
  CHECK(big.counted_tokens == Approx(0.7e12).epsilon(0.03));
  CHECK(big.loss == Approx(law.floor + big.of_size + big.of_data + big.of_batch));
  CHECK(law_loss(law, 70e9, big.counted_tokens, 1e-9).loss == Approx(big.loss));  // what "counted" says
  CHECK(std::isinf(law_loss(law, 1e9, 1e9, 1e9).loss));
}

TEST_CASE("law: loss falls with parameters, tokens and smaller batches", "[prop][progress]") {
  const LossLaw law;
  for (const double parameters : {1e8, 1e9, 1e11})
    for (const double tokens : {1e10, 1e12})
      for (const double batch : {1e4, 1e5, 1e6}) {
        CAPTURE(parameters, tokens, batch);
        const double own = law_loss(law, parameters, tokens, batch).loss;
        CHECK(law_loss(law, 2 * parameters, tokens, batch).loss < own);
        CHECK(law_loss(law, parameters, 2 * tokens, batch).loss < own);
        CHECK(law_loss(law, parameters, tokens, batch / 2).loss < own);
      }
  // At 6 N D = C the best N goes with C^(beta / (alpha + beta)), 0.5126 here, in closed form.
  const auto best = [&](double flops) {
    double least = 1e9, at = 0;
    for (double n = 1e7; n < 1e13; n *= 1.002) {
      const double loss = law_loss(law, n, flops / (6 * n), 1e-9).loss;
      if (loss < least) least = loss, at = n;
    }
    return at;
  };
  CHECK(std::log10(best(1e24) / best(1e22)) / 2 == Approx(0.3658 / (0.3478 + 0.3658)).epsilon(0.01));
}

TEST_CASE("law: a budget of money becomes steps, tokens and a loss", "[unit][progress]") {
  const sim::Node summary = run(config());
  const double steps = number(summary, "budget.steps"), tokens = number(summary, "budget.tokens");
  CHECK(tokens == steps * 256 * 4096);
  CHECK(number(summary, "budget.cost") == Approx(20000).epsilon(1e-3));
  CHECK(number(summary, "law.parameters") == Approx(1.236e9).epsilon(0.25));  // the table may count twice
  const progress::LawLoss by_hand = law_loss({}, number(summary, "law.parameters"), tokens, 256.0 * 4096);
  CHECK(number(summary, "loss.final") == Approx(by_hand.loss));
  CHECK(number(summary, "loss.floor") + number(summary, "loss.size") + number(summary, "loss.data") +
            number(summary, "loss.batch") ==
        Approx(number(summary, "loss.final")));
  CHECK(summary.find("peak_rate") == nullptr);
  // More money is a lower loss; twice the batch costs tokens that count.
  CHECK(number(run(config({{"progress.cost", "40000"}})), "loss.final") < number(summary, "loss.final"));
  CHECK(number(run(config({{"workload.global_batch", "8192"}})), "loss.batch") > number(summary, "loss.batch"));
  // The batch is the step's own where it follows from the memory.
  const sim::Node largest = run(config({{"workload.largest_batch", "true"}, {"plan", R"({"zero": "weights"})"}}));
  CHECK(number(largest, "budget.tokens") > number(largest, "budget.steps") * 16 * 4096);
  CHECK(number(largest, "loss.final") ==
        Approx(law_loss({}, number(largest, "law.parameters"), number(largest, "budget.tokens"),
                        number(largest, "budget.tokens") / number(largest, "budget.steps"))
                   .loss));
  // Steps alone need no machine.
  const sim::Node alone = run(sim::parse_json(R"({"system": "progress", "workload": {"sequence": 1000,
    "global_batch": 10}, "progress": {"steps": 1000000, "law": {"parameters": 1e9}}})",
                                              "alone.json"));
  CHECK(number(alone, "loss.final") == Approx(law_loss({}, 1e9, 1e10, 1e4).loss));
}

TEST_CASE("law: what cannot be is said in one line", "[unit][progress]") {
  CHECK_THAT(fault(config({{"progress.modes", "5"}})), Contains("expected none beside progress.law"));
  CHECK_THAT(fault(config({{"policies.rate", R"({"policy": "cosine"})"}})), Contains("rates that fall to nothing"));
  CHECK_THAT(fault(sim::parse_json(R"({"system": "progress", "progress": {"steps": 10, "law": {}}})", "law.json")),
             Contains("expected law.parameters, or a section model that has them"));
  const sim::Node few = run(sim::parse_json(
      R"({"system": "progress", "progress": {"steps": 2, "law": {"parameters": 1e9}}, "workload": {"sequence": 4096,
          "global_batch": 65536}})",
      "few.json"));
  CHECK(few.find("status")->as_string() == "infeasible");
  CHECK_THAT(few.find("reason")->as_string(), Contains("2 steps are too few for batches of 2.68e+08 tokens"));
  const sim::Node experts = run(config({{"model.builder.decoder.config", R"("catalog:mixtral-8x7b")"},
                                        {"machine.devices", R"([{"part": "h100-sxm5-80gb", "count": 64}])"}}));
  CHECK(experts.find("status")->as_string() == "infeasible");
  CHECK_THAT(experts.find("reason")->as_string(), Contains("the law is of dense models"));
}

TEST_CASE("The best plan in place of a config's own is the planner's, and runs as that", "[unit][training]") {
  const auto training = [](const std::string& plan, const std::string& more = "") {
    return sim::parse_json(R"({"system": "training",
      "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 16}], "node": {"nic": "ib-hdr-4x"}},
      "model": {"builder": {"policy": "gpt2", "gpt2": {"layers": 12, "hidden": 4096, "heads": 32, "intermediate": 16384,
                "vocab": 51200, "positions": 1024, "attention": "eager", "loss": true}}},
      "workload": {"sequence": 1024, "global_batch": 64}, "plan": {)" +
                               plan + "}" + more + "}",
                           "training.json");
  };
  sim::Node plans = training("");
  plans.set("system", sim::Node::string("training_plans"));
  for (const std::string rank : {"time", "memory"}) {
    CAPTURE(rank);
    plans.set("plans", sim::parse_json(R"({"rank": ")" + rank + R"("})", "plans.json"));
    const sim::Node found = run(plans);
    const sim::Node& best = found.find("training_plans")->items().front();
    const sim::Node own = run(training(R"("best_by": ")" + rank + R"(", "tensor_parallel": 3, "micro_batch": 7)"));
    CHECK(own.find("status")->as_string() == "ok");
    CHECK(number(own, "plan.tensor_parallel") == number(best, "tensor_parallel"));
    CHECK(number(own, "plan.pipeline_parallel") == number(best, "pipeline_parallel"));
    CHECK(number(own, "plan.micro_batch") == number(best, "micro_batch"));
    CHECK(number(own, "iteration_s") == Approx(number(best, "iteration_s")));
    CHECK(number(own, "memory_bytes.peak") == number(best, "memory_bytes"));
  }
  // Choices that are not searched over are the planner's too, to the byte.
  const sim::Node apart = run(training(R"("best_by": "time", "update_apart": true, "gradients_anew": true)"));
  CHECK(apart.find("status")->as_string() == "ok");
  const sim::Node none =
      run(training(R"("best_by": "time")", R"(, "run": {}, "policies": {"schedule": {"policy": "1f1b"}})"));
  CHECK(none.find("status")->as_string() == "ok");
  sim::Node small = training(R"("best_by": "time")");
  small.find("machine")->set("context", sim::Node::string("81900 MiB"));
  const sim::Node tight = run(small);
  CHECK(tight.find("status")->as_string() == "infeasible");
  CHECK_THAT(tight.find("reason")->as_string(), Contains("no plan for 16 devices can be"));
  CHECK_THAT(fault(training(R"("best_by": "time")", R"(, "policies": {"schedule": {"policy": "zb_h1"}})")),
             Contains("expected the schedule 1f1b or interleaved"));
  CHECK_THAT(fault(training(R"("best_by": "time", "offload_optimizer": [0.5, 1])")),
             Contains("expected one share for all stages"));
  sim::Node largest = training(R"("best_by": "time")");
  largest.find("workload")->set("largest_batch", sim::Node::boolean(true));
  CHECK_THAT(fault(largest), Contains("expected a global batch"));
}

}  // namespace test_progress_law
