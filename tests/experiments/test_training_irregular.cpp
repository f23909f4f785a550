// Training on a fabric with leaf switches, and with stragglers.
#include <catch2/catch.hpp>

#include "experiments/systems/training/planner.hpp"
#include "experiments/systems/training/run.hpp"
#include "experiments/systems/training/stage_division.hpp"
#include "tests/experiments/support.hpp"
#include "tests/experiments/system_run.hpp"
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
  CHECK(with.costs.messages.longest_s() > without.costs.messages.longest_s());
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

namespace {

/// Sixteen devices in two groups, a stage each; Llama 3.2 1B.
sim::Node on_groups(const std::string& groups, const std::string& partition = "even",
                    const std::string& plan = "\"pipeline_parallel\": 2") {
  return sim::parse_json(R"({"system": "training", "machine": {"devices": )" + groups +
                             R"(, "node": {"devices": 8, "nic": "ib-ndr-4x", "nics": 8}},
    "model": {"builder": {"policy": "decoder", "decoder": {"config": "catalog:llama-3.2-1b", "loss": true}}},
    "policies": {"partition": {"policy": ")" +
                             partition + R"("}}, "plan": {)" + plan +
                             R"(}, "workload": {"sequence": 2048, "global_batch": 64}})",
                         "groups.json");
}

training::TrainingResult trained_on(const std::string& groups, const std::string& partition = "even") {
  sim::Faults faults;
  const auto read =
      training::read_training_config(on_groups(groups, partition), *test_systems().registries(), faults, true);
  faults.throw_if_any();
  return training::train(read);
}

const char* const kBoth = R"([{"part": "h100-sxm5-80gb", "count": 8}, {"part": "a100-sxm4-40gb", "count": 8}])";

}  // namespace

TEST_CASE("Stages on unlike devices cost what they cost on devices of their own kind", "[unit][training]") {
  const training::TrainingResult both = trained_on(kBoth);
  const training::TrainingResult fast = trained_on(R"([{"part": "h100-sxm5-80gb", "count": 16}])");
  const training::TrainingResult slow = trained_on(R"([{"part": "a100-sxm4-40gb", "count": 16}])");
  REQUIRE(both.reason.empty());
  CHECK(both.costs.stages[0].forward_s() == fast.costs.stages[0].forward_s());
  CHECK(both.costs.stages[1].backward_s() == slow.costs.stages[1].backward_s());
  CHECK(both.costs.stages[1].optimizer_s == slow.costs.stages[1].optimizer_s);
  CHECK(both.run.times.time_s > fast.run.times.time_s);
  CHECK(both.run.times.time_s < slow.run.times.time_s * 1.0001);
  // Energy: dynamic parts of each kind's stage, and idle power of eight devices each.
  const auto idle = [](const training::TrainingResult& r) { return r.idle_j / r.run.times.time_s; };
  CHECK(idle(both) == Approx((idle(fast) + idle(slow)) / 2));
  CHECK(both.energy_j - both.idle_j ==
        Approx(((fast.energy_j - fast.idle_j) + (slow.energy_j - slow.idle_j)) / 2).epsilon(0.2));
  // A device of 40 GiB is fuller with as much.
  CHECK(both.fullest == 1);
  CHECK(both.available_bytes == (std::int64_t{40} << 30));
  // Two groups of the same part are one group.
  const training::TrainingResult same =
      trained_on(R"([{"part": "h100-sxm5-80gb", "count": 8}, {"part": "h100-sxm5-80gb", "count": 8}])");
  CHECK(same.run.times.time_s == fast.run.times.time_s);
  CHECK(same.energy_j == Approx(fast.energy_j));
}

TEST_CASE("Layers go to unlike devices by their speed", "[unit][training]") {
  const training::TrainingResult even = trained_on(kBoth), own = trained_on(kBoth, "by_speed");
  CHECK(even.layers == std::vector<std::int64_t>{8, 8});
  REQUIRE(own.layers.size() == 2);
  CHECK(own.layers[0] + own.layers[1] == 16);
  CHECK(own.layers[0] > own.layers[1]);
  CHECK(own.run.times.time_s < even.run.times.time_s);
  // The other way round the other stage has more.
  const training::TrainingResult turned =
      trained_on(R"([{"part": "a100-sxm4-40gb", "count": 8}, {"part": "h100-sxm5-80gb", "count": 8}])", "by_speed");
  CHECK(turned.layers[0] < turned.layers[1]);
}

TEST_CASE("What unlike devices cannot do is said", "[unit][training]") {
  const auto run_text = [](const sim::Node& config) {
    return read_experiment(test_systems(), config)->run({}).summary;
  };
  CHECK_THAT(run_text(on_groups(kBoth, "even", "\"pipeline_parallel\": 1")).find("reason")->as_string(),
             Contains("stage 0 has devices 0 to 15, which are unlike: 8 h100-sxm5-80gb + 8 a100-sxm4-40gb"));
  const auto fault = [&](const sim::Node& config) { return faults_of_run([&] { return run_text(config); }); };
  CHECK_THAT(fault(on_groups(R"([{"part": "h100-sxm5-80gb", "count": 8}, {"part": "a100-sxm4-40gb", "count": 4}])")),
             Contains("/machine/devices/1/count: expected whole nodes of 8 beside unlike devices, got 4"));
  CHECK_THAT(fault(on_groups(kBoth, "even", R"("best_by": "time")")),
             Contains("/plan/best_by: expected none: plans are searched over equal devices"));
  sim::Node job = on_groups(kBoth);
  job.set("system", sim::Node::string("training_job"));
  CHECK_THAT(fault(job), Contains("/machine/devices: expected one group: unlike devices are those of system training"));
}

namespace {

training::TrainingConfig read_groups(const std::string& groups) {
  sim::Faults faults;
  auto read = training::read_training_config(on_groups(groups), *test_systems().registries(), faults, true);
  faults.throw_if_any();
  return read;
}

sim::Node plans_on(const std::string& groups, const std::string& plans = "{}") {
  sim::Node root = on_groups(groups, "even", "");
  root.set("system", sim::Node::string("training_plans"));
  root.erase("policies");
  root.set("plans", sim::parse_json(plans, "plans.json"));
  return read_experiment(test_systems(), root)->run({}).summary;
}

}  // namespace

TEST_CASE("Layers are divided among unlike devices as trying every division divides them", "[theory][training]") {
  // Two stages on H100 of 80 GiB, two on A100 of 40; what does not fit runs again.
  const training::TrainingConfig config = read_groups(
      R"([{"part": "h100-sxm5-80gb", "count": 8, "override": {"memory": "11 GiB"}},
          {"part": "a100-sxm4-40gb", "count": 8, "override": {"memory": "9 GiB"}}])");
  training::StageTables tables(config.machine, config.model);
  training::Plan plan{.tensor = 1, .pipeline = 4, .data = 4, .micro_batch = 2, .micro_batches = 8};
  const std::int64_t layers = tables.table().layers();
  const auto found = divide_stages(tables, plan, layers, layers);
  REQUIRE(found);
  double best = 1e99;
  const auto times = [&](std::int64_t s, std::int64_t count) {
    std::pair<double, double> least{1e99, 0};
    for (std::int64_t again = 0; again <= count; ++again) {
      training::Plan own = plan;
      own.recompute = again > 0 ? training::Recompute::full : training::Recompute::none;
      own.recompute_layers = again;
      const training::ModelCosts& model = tables.table(plan, s).costs(own.share());
      const training::StageCosts stage = stage_costs(model, tables.machine(plan, s), own, s, count);
      if (stage_memory(model, stage, own, training::most_kept(stage, own, s)).total() >
          tables.machine(plan, s).device.memory_bytes)
        continue;
      least = std::min(least, {stage.forward_s() + stage.backward_s(), stage.optimizer_s + stage.gathers_s});
    }
    return least;
  };
  std::vector<std::vector<std::pair<double, double>>> of(4);
  for (std::int64_t s = 0; s < 4; ++s)
    for (std::int64_t count = 1; count <= layers; ++count) of[static_cast<std::size_t>(s)].push_back(times(s, count));
  for (std::int64_t a = 1; a <= layers; ++a)
    for (std::int64_t b = 1; a + b <= layers; ++b)
      for (std::int64_t c = 1; a + b + c < layers; ++c) {
        const std::int64_t counts[] = {a, b, c, layers - a - b - c};
        double longest = 0, sum = 0, update = 0;
        for (std::size_t s = 0; s < 4; ++s) {
          const auto& [passes, last] = of[s][static_cast<std::size_t>(counts[s] - 1)];
          longest = std::max(longest, passes);
          sum += passes;
          update = std::max(update, last);
        }
        best = std::min(best, 7 * longest + sum + update);
      }
  CHECK(found->objective_s == Approx(best).epsilon(1e-12));
  CHECK(found->layers[0] > found->layers[3]);
  CHECK(std::ranges::any_of(found->again, [](std::int64_t count) { return count > 0; }));
  // The planner looks near what each stage's share by speed is, and loses nothing by it here.
  CHECK(divide_stages(tables, plan, layers)->objective_s == Approx(best).epsilon(1e-12));
}

TEST_CASE("A plan for unlike devices takes in a run what it takes in the planner", "[unit][training]") {
  const sim::Node found = plans_on(kBoth);
  REQUIRE(found.at("status")->as_string() == "ok");
  CHECK(found.at("left_out")->find("a stage has unlike devices")->as_integer() > 0);
  const sim::Node& best = found.find("training_plans")->items().front();
  const sim::Node* even = found.find("kinds")->find("stages alike");
  REQUIRE(even != nullptr);
  CHECK(best.find("iteration_s")->as_number() < 0.8 * even->find("closed_form_s")->as_number());
  // The same, stated.
  const std::string layers = best.find("stage_layers")->as_string(),
                    again = best.find("stage_recompute_layers")->as_string();
  const auto list = [](std::string text) {
    std::ranges::replace(text, '|', ',');
    return "[" + text + "]";
  };
  sim::Node run = on_groups(kBoth, "listed", "");
  sim::assign(run, "policies.partition.listed.layers=" + list(layers));
  for (const char* name : {"tensor_parallel", "pipeline_parallel", "data_parallel", "micro_batch"})
    sim::assign(run, std::string("plan.") + name + "=" + std::to_string(best.find(name)->as_integer()));
  sim::assign(
      run, std::string("plan.sequence_parallel=") + (best.find("sequence_parallel")->as_boolean() ? "true" : "false"));
  sim::assign(run, "plan.zero=" + best.find("zero")->as_string());
  sim::assign(run, "plan.recompute=" + best.find("recompute")->as_string());
  sim::assign(run, "plan.stage_recompute_layers=" + list(again));
  const sim::Node stated = read_experiment(test_systems(), run)->run({}).summary;
  REQUIRE(stated.at("status")->as_string() == "ok");
  CHECK(stated.at("iteration_s")->as_number() == Approx(best.find("iteration_s")->as_number()).epsilon(1e-9));
  CHECK(stated.at("memory_bytes.peak")->as_number() == best.find("memory_bytes")->as_number());
}

TEST_CASE("Two groups of one part are planned as one group", "[unit][training]") {
  const std::string asked = R"({"stages": "apart", "pipeline_parallel": [2, 4]})";
  const sim::Node one = plans_on(R"([{"part": "h100-sxm5-80gb", "count": 16}])", asked);
  const sim::Node two =
      plans_on(R"([{"part": "h100-sxm5-80gb", "count": 8}, {"part": "h100-sxm5-80gb", "count": 8}])", asked);
  const auto& best = [](const sim::Node& all) -> const sim::Node& {
    return all.find("training_plans")->items().front();
  };
  for (const char* name : {"iteration_s", "energy_j", "memory_bytes"})
    CHECK(best(two).find(name)->as_number() == Approx(best(one).find(name)->as_number()).epsilon(1e-9));
  CHECK(best(two).find("stage_layers")->as_string() == best(one).find("stage_layers")->as_string());
  // Nor are fewer devices than there are looked at: which would be left out?
  CHECK(plans_on(kBoth, R"({"devices": [8]})").at("status")->as_string() == "infeasible");
}

TEST_CASE("Messages between stages cost what lies between their ranks", "[unit][training]") {
  // Eight stages of two ranks on two nodes of eight: the fourth hop leaves the node, over one adapter of its own each.
  const training::TrainingConfig config = read_groups(R"([{"part": "h100-sxm5-80gb", "count": 16}])");
  const training::TrainingMachine& machine = config.machine;
  const double bytes = 1e8;
  const double inside = training::message(machine, 0, 2, 2, bytes).time_s;
  const double across = training::message(machine, 6, 8, 2, bytes).time_s;
  CHECK(across > 3 * inside);
  CHECK(training::message(machine, 8, 10, 2, bytes).time_s == inside);
  CHECK(across == Approx(training::message(machine, 0, 8, 8, bytes).time_s));  // eight adapters, a rank each
  CHECK(training::slowest_message(machine, 2, 4, bytes).time_s == inside);
  CHECK(training::slowest_message(machine, 2, 8, bytes).time_s == across);
  training::StageTables tables(machine, config.model);
  const training::Plan plan{.tensor = 2, .pipeline = 8, .data = 1, .micro_batch = 1, .micro_batches = 8};
  const training::StageMessages messages = stage_messages(tables.table().costs(plan.share()), machine, plan);
  REQUIRE(messages.hops.size() == 7);
  for (std::int64_t s = 0; s < 7; ++s) CHECK((messages.hop(s).time_s > messages.hop(0).time_s) == (s == 3));
  training::Plan chunked = plan;
  chunked.chunks = 2;
  CHECK(stage_messages(tables.table().costs(plan.share()), machine, chunked).wrap.time_s == messages.hop(3).time_s);
  CHECK(messages.longest_s() == messages.hop(3).time_s);
  CHECK(messages.through(8).time_s == Approx(6 * messages.hop(0).time_s + messages.hop(3).time_s));
  // With one adapter two ranks share it; whole nodes, and pipelines inside one, have one kind of hop.
  training::TrainingMachine narrow = machine;
  narrow.nics->count = 1;
  CHECK(training::message(narrow, 6, 8, 2, bytes).time_s > 1.9 * across);
  for (const std::int64_t tensor : {1, 8}) {
    const training::Plan even{.tensor = tensor, .pipeline = 2, .data = 1};
    CHECK(stage_messages(tables.table().costs(even.share()), machine, even).hops.empty());
  }
  // The event run pays the hop that is there.
  const training::StepCosts costs = tables.step(plan, {2, 2, 2, 2, 2, 2, 2, 2});
  const auto schedule = test_systems()
                            .registry<policies::ScheduleRegistry>()
                            .prepare("1f1b", nullptr, {}, *std::make_unique<sim::Faults>())
                            .make();
  for (const training::MessageRun& message : run_step(costs, *schedule, sim::TickScale(1)).messages)
    CHECK(sim::TickScale(1).seconds(message.end - message.start) ==
          Approx(messages.between(message.from, message.to).time_s).epsilon(1e-6));
}

TEST_CASE("Hops inside a node take the links of their own devices, at the ranks that stages have", "[unit][training]") {
  const auto first_hops = [](const std::string& groups, const std::string& plan) {
    sim::Faults faults;
    const auto read =
        training::read_training_config(on_groups(groups, "even", plan), *test_systems().registries(), faults, true);
    faults.throw_if_any();
    const training::TrainingResult result = training::train(read);
    REQUIRE(result.reason.empty());
    std::vector<double> hops;
    for (std::int64_t s = 0; s + 1 < result.plan.pipeline; ++s) hops.push_back(result.costs.messages.hop(s).time_s);
    return hops;
  };
  const std::string eight = R"("tensor_parallel": 2, "pipeline_parallel": 8)";
  const std::string h100 = R"({"part": "h100-sxm5-80gb", "count": 8})", l40s = R"({"part": "l40s", "count": 8})";
  const std::vector<double> fast = first_hops("[" + h100 + "," + h100 + "]", eight);
  const std::vector<double> slow = first_hops("[" + l40s + "," + l40s + "]", eight);
  const std::vector<double> both = first_hops("[" + h100 + "," + l40s + "]", eight);
  REQUIRE(slow[0] > 5 * fast[0]);
  for (const std::size_t s : {0, 1, 2}) CHECK(both[s] == fast[s]);
  for (const std::size_t s : {4, 5, 6}) CHECK(both[s] == slow[s]);
  CHECK(both[3] == fast[3]);
  // 4 + 2 + 1 + 1 ranks are one node's.
  const std::vector<double> list =
      first_hops(R"([{"part": "h100-sxm5-80gb", "count": 16}])",
                 R"("stage_tensor_parallel": [4, 2, 1, 1], "pipeline_parallel": 4, "data_parallel": 1)");
  CHECK(list[1] == list[0]);
  CHECK(list[2] == list[0]);
}

TEST_CASE("Memory may ask for a division far from that by speed", "[unit][training]") {
  // The faster devices have little memory: by speed they would have most layers.
  const sim::Node found = plans_on(
      R"([{"part": "h100-sxm5-80gb", "count": 8, "override": {"memory": "6 GiB"}}, {"part": "a100-sxm4-80gb", "count": 8}])",
      R"({"pipeline_parallel": [2], "tensor_parallel": [1], "interleave": [1], "micro_batch": [1],
                   "zero": ["optimizer"], "recompute": ["none"]})");
  REQUIRE(found.at("status")->as_string() == "ok");
  const std::string layers = found.find("training_plans")->items().front().find("stage_layers")->as_string();
  CHECK(std::stoi(layers) < 8);
}

TEST_CASE("A group whose devices have no links is said at once", "[unit][training]") {
  const std::string groups = R"([{"part": "h100-sxm5-80gb", "count": 8}, {"part": "tpu-v5e", "count": 8}])";
  const sim::Node run = read_experiment(test_systems(), on_groups(groups, "even", R"("tensor_parallel": 4,
                          "pipeline_parallel": 4)"))
                            ->run({})
                            .summary;
  CHECK_THAT(run.find("reason")->as_string(), Contains("tpu-v5e has no link"));
  CHECK_THAT(plans_on(groups).find("reason")->as_string(), Contains("tpu-v5e has no link"));
}

TEST_CASE("A slow hop bounds how often a micro-batch can begin", "[theory][training]") {
  // Two stages of 1 + 2 s, a hop of 10 s: two micro-batches are under way, 26 s for the round; 8 of them take 104 s and
  // what the last one needs.
  training::StepCosts costs;
  costs.plan = training::Plan{.pipeline = 2, .micro_batches = 8};
  costs.messages.next.time_s = 10;
  for (int s = 0; s < 2; ++s) {
    training::ChunkCosts chunk;
    chunk.layers = 1;
    chunk.forward.kernel_s = 1;
    chunk.backward_input.kernel_s = 2;
    training::StageCosts stage;
    stage.chunks.push_back(chunk);
    costs.stages.push_back(stage);
  }
  const auto schedule = test_systems()
                            .registry<policies::ScheduleRegistry>()
                            .prepare("1f1b", nullptr, {}, *std::make_unique<sim::Faults>())
                            .make();
  const double run = run_step(costs, *schedule, sim::TickScale(1)).times.time_s;
  const double closed = closed_form(costs).time_s;
  CHECK(closed == Approx(4 * 26));
  CHECK(run >= closed);
  CHECK(run < 1.2 * closed);
}

}  // namespace test_training_irregular
