// Layers with experts in training: cases by hand, closed forms against events, gradients that are summed once.
#include <catch2/catch.hpp>

#include "experiments/moe_layers/layer_times.hpp"
#include "experiments/systems/training/config.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_moe_layers {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using namespace orrery::experiments::moe_layers;
using Catch::Contains;

namespace {

ScheduleParams schedule(bool links, bool degrees, Gradients gradients, std::vector<std::int64_t> tried = {1, 2, 4, 8}) {
  return {"one", links, degrees, gradients, std::move(tried)};
}

/// Gather and scatter alike, or as they come.
CostParams drawn(sim::RandomStream& random, bool alike) {
  const auto cost = [&](double start, double each) {
    return LinearCost{start * random.uniform(), each * (0.1 + random.uniform())};
  };
  CostParams costs{cost(5e-4, 1e-9), cost(2e-4, 5e-10), cost(2e-4, 5e-10), cost(2e-4, 5e-14), cost(5e-4, 3e-9)};
  if (alike) costs.scatter = costs.gather;
  return costs;
}

std::string config(const std::string& layer, const std::string& schedules) {
  return R"({"system": "moe_layers", "costs": {
    "exchange": {"start": "1 ms", "each": "1 ns"}, "gather": {"start": "0 s", "each": "0.1 ns"},
    "scatter": {"start": "0 s", "each": "0.1 ns"}, "product": {"start": "0 s", "each": "1e-15 s"},
    "all_reduce": {"start": "1 ms", "each": "1 ns"}}, "layer": {)" +
         layer + R"(}, "schedules": [)" + schedules + "]}";
}

sim::Node run(const std::string& text) {
  return read_experiment(test_systems(), sim::parse_json(text, "moe.json"))->run({}).summary;
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

TEST_CASE("moe layers: the four cases by hand") {
  // One of exchange, gather, products, scatter decides; two chunks. Separate links.
  CHECK(closed_form({4, 1, 1, 1}, 2, 0, true) == 18);  // t3: 2 2 4 + 1 + 1
  CHECK(closed_form({4, 1, 1, 1}, 2, 5, true) == 21);  // t1: the gap of 2 holds two of five
  CHECK(closed_form({1, 1, 9, 1}, 2, 0, true) == 22);  // t2: 1 + 1 + 2 9 + 1 + 1
  CHECK(closed_form({1, 5, 1, 5}, 2, 0, true) == 22);  // t4: 2 + 2 (5 + 5)
  CHECK(exchange_gap_s({1, 1, 9, 1}, 2, true) == 18);  // 22 less 4 of exchange
  CHECK(exchange_gap_s({4, 1, 1, 1}, 2, true) == 2);
  // One queue: 2 (4 + 1 + 1 + 4) of messages, or products between the first and the last ones.
  CHECK(closed_form({4, 1, 1, 1}, 2, 0, false) == 20);
  CHECK(closed_form({1, 1, 9, 1}, 2, 0, false) == 22);
  CHECK(exchange_gap_s({4, 1, 1, 1}, 2, false) == 0);
}

TEST_CASE("moe layers: sizes are those of FSMoE's solver") {
  // 2 x 1,024 tokens of 512 in 1.5 rows each: 1,572,864 elements gathered, an eighth of them exchanged; products
  // 1,572,864 x 2,048 / 8 x 3 in all, in 4 chunks; attention 2,048 (4 512^2 + 2 1,024 512) / 8.
  const CostParams costs{{1e-3, 1e-9}, {2e-3, 2e-9}, {3e-3, 3e-9}, {4e-3, 1e-12}, {5e-3, 5e-9}};
  const LayerPrices prices(costs, {2, 1024, 512, 2048, 3, 8, 1.5}, 8);
  const ChunkTimes four = prices.chunk(4, false);
  CHECK(four.exchange_s == Approx(1e-3 + 1e-9 * 1572864 / 8 / 4));
  CHECK(four.gather_s == Approx(2e-3 + 2e-9 * 1572864 / 4));
  CHECK(four.scatter_s == Approx(3e-3 + 3e-9 * 1572864 / 4));
  CHECK(four.product_s == Approx(4e-3 + 1e-12 * 1572864.0 * 2048 / 8 * 3 / 4));
  CHECK(prices.chunk(4, true).product_s == Approx(2 * four.product_s));
  CHECK(prices.chunk(4, true).exchange_s == four.exchange_s);
  const double attention = 4e-3 + 1e-12 * 2048 * (4.0 * 512 * 512 + 2.0 * 1024 * 512) / 8;
  CHECK(prices.stack().attention_s == Approx(attention + 5e-3 + 5e-9 * 2048 * 512));
  CHECK(prices.stack().gradients_s == Approx(5e-9 * 4 * 512 * 512 / 8));
}

TEST_CASE("moe layers: events are as long as the closed form, gradients are summed once") {
  sim::RandomStream random(11, "moe");
  double furthest = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const Layer layer{1 << random.below(3),
                      512 << random.below(3),
                      1024 << random.below(3),
                      2048 << random.below(4),
                      2 + static_cast<std::int64_t>(random.below(2)),
                      8,
                      1.2 + 3 * random.uniform()};
    const bool alike = trial % 4 != 0;
    const LayerPrices prices(drawn(random, alike), layer, 8);
    const auto layers = 1 + static_cast<std::int64_t>(random.below(5));
    for (const bool links : {false, true}) {
      double before = 0;
      for (const Gradients gradients : {Gradients::end, Gradients::attention, Gradients::adaptive}) {
        const ScheduleParams own = schedule(links, trial % 2 == 0, gradients);
        const StackPlan plan = plan_stack(prices, layers, own);
        const double error = plan.closed_s / run_stack(prices, layers, own, plan) - 1;
        CHECK(error < 1e-6);  // no order of the queues is faster
        if (alike) furthest = std::max(furthest, -error);
        double summed = plan.after_s, starts = plan.after_s > 0 ? 1 : 0;
        for (const auto* list : {&plan.beside_exchange, &plan.beside_attention})
          for (const double one : *list) summed += one, starts += one > 0 ? 1 : 0;
        CHECK(summed - starts * prices.stack().all_reduce_start_s ==
              Approx(static_cast<double>(layers) * prices.stack().gradients_s));
        if (gradients == Gradients::adaptive) CHECK(plan.closed_s <= before * (1 + 1e-12));
        before = plan.closed_s;
      }
    }
    // Separate links and degrees never lose.
    const auto closed = [&](bool links, bool degrees) {
      return plan_stack(prices, layers, schedule(links, degrees, Gradients::adaptive)).closed_s;
    };
    CHECK(closed(true, true) <= closed(false, true) * (1 + 1e-12));
    CHECK(closed(false, true) <= closed(false, false) * (1 + 1e-12));
  }
  CHECK(furthest < 0.03);
}

TEST_CASE("moe layers: a grid's means") {
  const sim::Node summary = run(config(R"("batch": [1, 2], "width": [512], "layers": 1)",
                                       R"({"name": "a", "separate_links": false, "gradients": "end"}, {"name": "b"})"));
  CHECK(summary.at("sizes")->as_number() == 2);
  double step = 0, speedup = 0;
  for (const char* batch : {"1", "2"}) {
    const sim::Node one = run(config(std::string(R"("batch": [)") + batch + R"(], "width": [512], "layers": 1)",
                                     R"({"name": "a", "separate_links": false, "gradients": "end"}, {"name": "b"})"));
    step += one.at("schedules.b.step_s")->as_number() / 2;
    speedup += one.at("schedules.b.speedup")->as_number() / 2;
  }
  CHECK(summary.at("schedules.b.step_s")->as_number() == Approx(step));
  CHECK(summary.at("schedules.b.speedup")->as_number() == Approx(speedup));
  CHECK(summary.at("schedules.a.speedup")->as_number() == 1);
}

TEST_CASE("moe layers: what cannot be is said") {
  CHECK_THAT(fault(config(R"("batch": [])", R"({"name": "a"})")), Contains("/layer/batch: expected at least one"));
  CHECK_THAT(fault(config("", "")), Contains("/schedules: expected at least one schedule, got none"));
  CHECK_THAT(fault(config("", R"({"name": "a"}, {"name": "a"})")), Contains("'a' is schedules.0's too"));
  CHECK_THAT(fault(config("", R"({"name": "a", "degrees": []})")), Contains("expected at least one number of chunks"));
  CHECK_THAT(fault(config(R"("layers": 10000)", R"({"name": "a", "degrees": [1024]})")),
             Contains("expected at most 20000000 tasks, these sizes, layers and chunks give some 1.02e+08"));
}

namespace {

std::string on_machine(const std::string& layer, const std::string& node = R"("devices": 8)",
                       const std::string& count = "32") {
  return R"({"system": "moe_layers", "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": )" + count +
         R"(}], "node": {)" + node + R"(, "nic": "ib-hdr-4x", "nics": 4}}, "layer": {"shared_by": 8, "tensor": 8)" +
         layer +
         R"(}, "schedules": [{"name": "tutel", "separate_links": false, "gradients": "end"}, {"name": "fsmoe"}]})";
}

}  // namespace

TEST_CASE("moe layers: costs fitted to a machine are its collectives and products") {
  // One size, cut into 1 to 8 chunks: the exchange between 4 nodes of 4 x 1,024 x 2,048 x 1.2 / 8 elements.
  const sim::Node summary = run(on_machine(R"(, "batch": [4])"));
  CHECK(summary.at("costs.fit_error")->as_number() < 0.25);
  const auto of = [&](const char* name, double size) {
    const sim::Node& cost = *summary.at(std::string("costs.") + name);
    return cost.find("start_s")->as_number() + cost.find("each_s")->as_number() * size;
  };
  sim::Faults faults;
  std::vector<std::filesystem::path> inputs;
  const sim::Node root = sim::parse_json(on_machine(""), "moe.json");
  training::MachineParams params =
      sim::parse_params<training::MachineParams>(*root.find("machine"), *test_systems().registries(), faults, {});
  faults.throw_if_any();
  const training::TrainingMachine machine =
      training::read_training_machine(*root.find("machine"), params, inputs, faults);
  const double elements = 4 * 1024 * 2048 * 1.2;
  const auto takes = [&](hw::LibraryCall call, const hw::RankGroup& group, double size) {
    return training::collective(machine, call, group, 2 * size).time_s;
  };
  CHECK(of("exchange", elements / 8) ==
        Approx(takes(hw::LibraryCall::all_to_all, training::rank_group(machine, 4, 8), elements / 8)).epsilon(0.02));
  CHECK(of("gather", elements) ==
        Approx(takes(hw::LibraryCall::all_gather, training::rank_group(machine, 8, 1), elements)).epsilon(0.02));
  CHECK(summary.at("schedules.fsmoe.speedup")->as_number() > 1);
  // One node: nothing is exchanged between nodes, and no gradients are summed there.
  const sim::Node alone = run(on_machine("", R"("devices": 8)", "8"));
  CHECK(alone.at("costs.exchange.each_s")->as_number() == 0);
  CHECK(alone.at("costs.all_reduce.start_s")->as_number() == 0);
}

TEST_CASE("moe layers: all wait for the busiest node's experts") {
  // Twice the rows: what twice the factor gives, whose attention is the same.
  const auto step = [&](const std::string& layer) {
    return run(config(R"("batch": [2])" + layer, R"({"name": "plain"})")).at("schedules.plain.step_s")->as_number();
  };
  CHECK(step(R"(, "factor": [1.2], "imbalance": [2])") == Approx(step(R"(, "factor": [2.4])")));
  CHECK(step(R"(, "factor": [1.2], "imbalance": [1.5])") > step(R"(, "factor": [1.2])"));
}

TEST_CASE("moe layers: a machine that cannot be is said") {
  CHECK_THAT(fault(R"({"system": "moe_layers", "schedules": [{"name": "a"}]})"),
             Contains("expected either 'costs', or a 'machine' that they are fitted to"));
  CHECK_THAT(fault(on_machine("", R"("devices": 4)")), Contains("8 ranks share an expert, a node has 4 devices"));
  CHECK_THAT(fault(on_machine("", R"("devices": 8)", "30")), Contains("30 devices do not fill nodes of 8"));
}

}  // namespace test_moe_layers
