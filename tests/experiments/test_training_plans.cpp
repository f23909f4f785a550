// Plans to train: what is scored equals what is run, the best is the best of all, and what does not fit is counted.
#include <catch2/catch.hpp>

#include "experiments/systems/training/launch_flags.hpp"
#include "experiments/systems/training/plan_text.hpp"
#include "experiments/systems/training/planner.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_plans {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using namespace orrery::experiments::training;
using Catch::Contains;

namespace {

/// Twelve layers on eight A100 with so much memory.
sim::Node config(const std::string& system, const std::string& memory = "80 GiB", const std::string& plans = "{}") {
  return sim::parse_json(R"({"system": ")" + system + R"(",
    "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 8, "override": {"memory": ")" +
                             memory + R"("}}]},
    "model": {"builder": {"policy": "gpt2", "gpt2": {"layers": 12, "hidden": 1024, "heads": 16, "intermediate": 4096,
              "vocab": 51200, "positions": 1024, "attention": "eager", "loss": true, "dropout": 0.1}}},
    "workload": {"sequence": 1024, "global_batch": 16})" +
                             (system == "training" ? std::string() : R"(, "plans": )" + plans) + "}",
                         "plans.json");
}

TrainingConfig read(const std::string& memory = "80 GiB") {
  sim::Faults faults;
  TrainingConfig all = read_training_config(config("training", memory), *test_systems().registries(), faults);
  faults.throw_if_any();
  return all;
}

/// Every plan of eight devices, by nested loops and nothing of the planner's.
std::vector<Plan> every_plan(const TrainingConfig& config) {
  std::vector<Plan> all;
  for (std::int64_t tensor = 1; tensor <= 8; tensor *= 2)
    for (std::int64_t pipeline = 1; tensor * pipeline <= 8; pipeline *= 2)
      for (std::int64_t micro = 1; micro <= 16; micro *= 2)
        for (std::int64_t chunks = 1; chunks <= 8; ++chunks)
          for (const bool sequence : {false, true})
            for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
              for (const Zero zero : {Zero::none, Zero::optimizer, Zero::gradients, Zero::weights}) {
                Plan plan{.tensor = tensor,
                          .pipeline = pipeline,
                          .data = 8 / tensor / pipeline,
                          .micro_batch = micro,
                          .chunks = chunks,
                          .sequence = sequence,
                          .zero = zero,
                          .recompute = recompute};
                if (16 % (plan.data * micro) != 0 || (12 / pipeline) % chunks != 0) continue;
                plan.micro_batches = 16 / plan.data / micro;
                if (chunks > 1 && (pipeline == 1 || plan.micro_batches % pipeline != 0)) continue;
                if (sequence && tensor == 1) continue;
                if (plan.data == 1 && zero != Zero::none) continue;
                all.push_back(plan);
              }
  (void)config;
  return all;
}

std::vector<std::int64_t> even(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> all;
  for (std::int64_t s = 0; s < stages; ++s) all.push_back(layers * (s + 1) / stages - layers * s / stages);
  return all;
}

}  // namespace

TEST_CASE("A scored plan is the closed form of its step, and keeps what its run keeps", "[prop]") {
  TrainingConfig all = read();
  all.machine.host_link = hw::read_part<hw::LinkPart>((home_folder() / "hw/catalog/pcie5-x16.json").string()).part;
  CostTable table(all.machine, all.model);
  const auto& schedules = test_systems().registry<policies::ScheduleRegistry>();
  sim::Faults faults;
  const auto plain = schedules.prepare("1f1b", nullptr, {}, faults).make();
  const auto chunked = schedules.prepare("interleaved", nullptr, {}, faults).make();
  std::size_t number = 0;
  for (Plan plan : every_plan(all)) {
    if (number++ % 7 != 0) continue;
    plan.update_apart = number % 2 == 0;
    plan.gradients_anew = number % 3 == 0;
    plan.gradients_fp32 = number % 5 == 0;
    if (number % 4 == 0) plan.offload_activations = {0.5};
    if (number % 5 == 0) plan.offload_weights = {0.75};
    if (number % 6 == 0) plan.offload_gradients = {1};
    if (number % 8 == 0) plan.offload_optimizer = {0.5};
    const StepCosts costs = step_costs(table, all.machine, plan, even(12, plan.pipeline));
    const ScoredPlan scored = score(table, all.machine, plan, 12);
    CHECK(scored.closed_s == closed_form(costs).time_s);
    const StepRun run = run_step(costs, plan.chunks > 1 ? *chunked : *plain, sim::TickScale(1));
    CHECK(scored.closed_s == Approx(run.times.time_s).epsilon(0.12));
    std::int64_t fullest = 0;
    const ModelCosts& model = table.costs(plan.share());
    for (std::int64_t s = 0; s < plan.pipeline; ++s)
      fullest = std::max(fullest, stage_memory(model, costs.stages[static_cast<std::size_t>(s)], plan,
                                               run.peak_kept_bytes[static_cast<std::size_t>(s)])
                                      .total());
    CHECK(scored.memory_bytes == fullest);
    std::int64_t host = 0;  // one node has all ranks
    for (std::int64_t s = 0; s < plan.pipeline; ++s)
      host += plan.stage_ranks() *
              costs.stages[static_cast<std::size_t>(s)].host_bytes(run.peak_host_bytes[static_cast<std::size_t>(s)]);
    CHECK(scored.host_bytes == host);
  }
}

TEST_CASE("The planner tells how far it is, and can be stopped") {
  const TrainingConfig all = read("80 GiB");
  PlannerParams params;
  params.run = 3;
  std::vector<std::int64_t> told;
  (void)find_plans(all, params, *test_systems().registries(), [&](const Progress& progress) {
    if (progress.total) told.push_back(progress.done);  // of plans that are run; the space is too small for the others
  });
  CHECK(told == std::vector<std::int64_t>{1, 2, 3});
  struct Stopped {};
  CHECK_THROWS_AS(find_plans(all, params, *test_systems().registries(), [](const Progress&) { throw Stopped{}; }),
                  Stopped);
}

TEST_CASE("The planner finds what trying everything finds", "[theory]") {
  for (const char* memory : {"80 GiB", "6 GiB"}) {
    CAPTURE(memory);
    const TrainingConfig all = read(memory);
    CostTable table(all.machine, all.model);
    PlannerParams params;
    params.run = params.show = 1000;
    const PlannerResult found = find_plans(all, params, *test_systems().registries());
    std::int64_t fit = 0, too_large = 0;
    double best = 1e9;
    for (const Plan& plan : every_plan(all)) {
      const ScoredPlan scored = score(table, all.machine, plan, 12);
      if (scored.memory_bytes > all.machine.device.memory_bytes) {
        ++too_large;
        continue;
      }
      ++fit;
      best = std::min(best, scored.closed_s);
    }
    CHECK(found.evaluated == fit + too_large);
    const auto left_out = found.left_out.find("more memory than a device has");
    CHECK((left_out == found.left_out.end() ? 0 : left_out->second) == too_large);
    REQUIRE_FALSE(found.kinds.empty());
    CHECK(found.kinds.front().first == "all");
    CHECK(found.kinds.front().second.closed_s == best);
    // Listed plans are in the order of their runs.
    for (std::size_t i = 1; i < found.best.size(); ++i) CHECK(found.best[i - 1].time_s <= found.best[i].time_s);
    CHECK(std::ssize(found.best) == std::min<std::int64_t>(1000, fit));
  }
}

TEST_CASE("Plans of a config are listed, restricted, and infeasible where none fits", "[unit]") {
  const auto run = [](const std::string& memory, const std::string& plans) {
    return read_experiment(test_systems(), config("training_plans", memory, plans))->run({}).summary;
  };
  const sim::Node two = run("80 GiB", R"({"tensor_parallel": [2], "zero": ["none"], "show": 3})");
  CHECK(two.find("status")->as_string() == "ok");
  CHECK(two.find("training_plans")->items().size() == 3);
  for (const sim::Node& plan : two.find("training_plans")->items()) {
    CHECK(plan.find("tensor_parallel")->as_integer() == 2);
    CHECK(plan.find("zero")->as_string() == "none");
  }
  const sim::Node none = run("2 GiB", R"({"tensor_parallel": [1], "pipeline_parallel": [1], "zero": ["none"]})");
  CHECK(none.find("status")->as_string() == "infeasible");
  CHECK_THAT(none.find("reason")->as_string(), Contains("no plan of the space fits"));
  // The one with most headroom needs no more than the fastest.
  const sim::Node roomy = run("80 GiB", R"({"rank": "memory"})"), fast = run("80 GiB", "{}");
  CHECK(roomy.find("training_plans")->items()[0].find("memory_bytes")->as_number() <=
        fast.find("training_plans")->items()[0].find("memory_bytes")->as_number());
}

TEST_CASE("Each objective has its own best, and energy is the run's", "[prop]") {
  const TrainingConfig all = read();
  CostTable table(all.machine, all.model);
  PlannerParams params;
  params.devices = {4, 8};
  params.explain = "2 2 2 1 yes full optimizer";
  const PlannerResult found = find_plans(all, params, *test_systems().registries());
  std::map<std::string, ScoredPlan> best(found.objectives.begin(), found.objectives.end());
  REQUIRE(best.size() == 4);
  // Brute force of memory and device hours over eight and over four devices.
  for (Plan plan : every_plan(all)) {
    const ScoredPlan scored = score(table, all.machine, plan, 12);
    if (scored.memory_bytes > all.machine.device.memory_bytes) continue;
    CHECK(best.at("memory").memory_bytes <= scored.memory_bytes);
    CHECK(best.at("energy").energy_j <= scored.energy_j);
    CHECK(best.at("cost").device_s() <= scored.device_s());
    CHECK(best.at("time").closed_s <= scored.closed_s);
  }
  CHECK(best.at("time").devices == 8);
  CHECK(best.at("cost").devices == 4);  // fewer devices wait less for each other
  // The plan asked about, and its energy as `orrery run` has it but for how long the idle power lasts.
  REQUIRE(found.explained);
  CHECK(found.explained->reason.empty());
  const sim::Node root = [] {
    sim::Node node = config("training");
    node.set("plan", sim::parse_json(R"({"tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": 2,
      "sequence_parallel": true, "recompute": "full", "zero": "optimizer"})",
                                     "plan.json"));
    return node;
  }();
  const sim::Node run = read_experiment(test_systems(), root)->run({}).summary;
  const double idle = run.at("energy_j.idle")->as_number();
  const ScoredPlan& asked = found.explained->plan;
  CHECK(asked.time_s == Approx(run.at("iteration_s")->as_number()).epsilon(1e-9));
  CHECK(asked.energy_j - idle * asked.closed_s / asked.time_s ==
        Approx(run.at("energy_j.total")->as_number() - idle).epsilon(1e-9));
}

TEST_CASE("Selective recomputation is a plan of its own where it has something to repeat", "[unit]") {
  const auto plans = [](const char* attention, const char* asked) {
    sim::Node root = config("training_plans", "80 GiB", asked);
    root.find("model")->find("builder")->find("gpt2")->set("attention", sim::Node::string(attention));
    return read_experiment(test_systems(), root)->run({}).summary;
  };
  constexpr const char* kWhy = "selective recomputation of attention that is one kernel";
  const sim::Node eager = plans("eager", "{}"), fused = plans("sdpa", "{}");
  CHECK(eager.find("left_out")->find(kWhy) == nullptr);
  CHECK(fused.find("left_out")->find(kWhy) != nullptr);
  CHECK(3 * fused.at("evaluated")->as_integer() == 2 * eager.at("evaluated")->as_integer());  // of three kinds two
  for (const sim::Node& plan : fused.find("training_plans")->items())
    CHECK(plan.find("recompute")->as_string() != "selective");
  // Who asks for it gets it.
  const sim::Node asked = plans("sdpa", R"({"recompute": ["selective"]})");
  CHECK(asked.find("training_plans")->items().front().find("recompute")->as_string() == "selective");
}

TEST_CASE("Plans with activations in the host's memory are found where nothing else fits", "[unit]") {
  // Copies of the whole model, two sequences at a time: 6.2 GiB, and 3.9 with activations in the host's memory.
  const auto asked = [](const char* shares, bool link) {
    sim::Node root =
        config("training_plans", "5 GiB",
               std::string(R"({"recompute": ["none"], "zero": ["none"], "tensor_parallel": [1], )") +
                   R"("pipeline_parallel": [1], "micro_batch": [2], "offload_activations": )" + shares + "}");
    if (link) root.find("machine")->set("host_link", sim::Node::string("pcie5-x16"));
    return root;
  };
  const auto result = [&](const char* shares) {
    return read_experiment(test_systems(), asked(shares, true))->run({}).summary;
  };
  CHECK(result("[0]").at("status")->as_string() == "infeasible");
  const sim::Node found = result("[0, 1]");
  REQUIRE(found.at("status")->as_string() == "ok");
  REQUIRE(found.find("training_plans")->items().size() == 1);
  CHECK(found.find("training_plans")->items().front().find("offload")->as_string() == "a1");
  CHECK(found.at("evaluated")->as_number() == 2);
  try {
    (void)read_experiment(test_systems(), asked("[0.5]", false));
    FAIL("no link, no fault");
  } catch (const sim::ConfigError& error) {
    CHECK_THAT(error.faults().front().text(), Contains("expected machine.host_link"));
  }
}

TEST_CASE("A plan is read as the table prints it", "[unit]") {
  const PlanParams plan = parse_plan("8 4x3 2 1 yes by_op weights");
  CHECK(plan.tensor_parallel == 8);
  CHECK(plan.pipeline_parallel == 4);
  CHECK(plan.interleave == 3);
  CHECK(plan.data_parallel == 2);
  CHECK(plan.sequence_parallel);
  CHECK(plan.recompute == Recompute::by_op);
  CHECK(plan.zero == Zero::weights);
  CHECK(parse_plan("4c2 4 2 1 yes none none").context_parallel == 2);
  CHECK(parse_plan("4c2 4 2 1 yes none none").tensor_parallel == 4);
  // What the words do not say is as the config's plan has it; what they say is not.
  PlanParams others;
  others.gradients_fp32 = true;
  others.async_tensor_parallel = true;
  others.interleave = 4;
  others.stage_tensor_parallel = {1, 2};
  const PlanParams own = parse_plan("2 4 2 1 no none none", others);
  CHECK(own.gradients_fp32);
  CHECK_FALSE(own.async_tensor_parallel);  // no sequence parallelism that it could run beside products
  CHECK(own.interleave == 1);
  CHECK(own.stage_tensor_parallel.empty());
  const PlanParams away = parse_plan("2 4 2 1 no by_op none a0.5+o0.25|1|1|1");
  CHECK(away.recompute == Recompute::by_op);
  CHECK(away.offload_activations == std::vector<double>{0.5});
  CHECK(away.offload_optimizer == std::vector<double>{0.25, 1, 1, 1});
  CHECK(away.offload_weights.empty());
  CHECK(offload_text(away) == "a0.5+o0.25|1|1|1");
  CHECK(parse_plan("2 4 2 1 no full none", away).offload_activations.empty());
  for (const char* wrong : {"a2", "x1", "a", "a0.5+a1", "o0.5|", "a-1", "o0.5|x"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH(parse_plan(std::string("2 4 2 1 no full none ") + wrong),
                      Contains("expected shares up to 1 behind a, o, g or w"));
  }
  CHECK_THROWS_WITH(parse_plan("8 4 2 1 yes none"), Contains("expected seven words"));
  CHECK_THROWS_WITH(parse_plan("8c 4 2 1 yes none none"),
                    Contains("expected ranks of context parallelism behind the c"));
  CHECK_THROWS_WITH(parse_plan("0 4 2 1 yes none none"), Contains("expected ranks of tensor parallelism in the plan"));
  CHECK_THROWS_WITH(parse_plan("8 4x 2 1 yes none none"), Contains("expected chunks behind the x"));
  CHECK_THROWS_WITH(parse_plan("8 4 2 1 maybe none none"), Contains("expected yes or no"));
  CHECK_THROWS_WITH(parse_plan("8 4 2 1 yes some none"), Contains("expected none, selective, by_op or full"));
  CHECK_THROWS_WITH(parse_plan("8 4 2 1 yes none all"), Contains("expected none, optimizer, gradients or weights"));
}

TEST_CASE("A plan that cannot be is explained with its reason", "[unit]") {
  const auto reason = [](const std::string& plan) {
    const sim::Node summary =
        read_experiment(test_systems(), config("training_plans", "80 GiB", R"({"explain": ")" + plan + R"("})"))
            ->run({})
            .summary;
    const sim::Node* why = summary.find("explained")->find(plan)->find("reason");
    return why == nullptr ? std::string() : why->as_string();
  };
  CHECK(reason("1 8 1 1 no none none").empty());
  CHECK(reason("1 16 1 1 no none none") == "tensor 1 x pipeline 16 x data 1 are 16 ranks, the machine has 8 devices");
  CHECK_THAT(reason("1 8x2 1 1 no none none"), Contains("want as many layers, the model has 12"));
  CHECK_THAT(reason("1 1 8 4 no none none"), Contains("do not divide a batch of 16"));
}

TEST_CASE("A plan that leaves states to a host that is not there is no plan", "[unit]") {
  sim::Node root = config("training_plans", "80 GiB", R"({"explain": "1 8 1 1 no none none o1"})");
  sim::assign(root, "plan.offload_optimizer=[1]");
  const auto reason = [&] {
    const sim::Node summary = read_experiment(test_systems(), root)->run({}).summary;
    return summary.find("explained")->find("1 8 1 1 no none none o1")->find("reason")->as_string();
  };
  CHECK_THAT(reason(), Contains("needs machine.host_link"));
  sim::assign(root, "machine.host_link=pcie4-x16");
  sim::assign(root, "policies.offload.policy=host");
  CHECK_THAT(reason(), Contains("needs machine.host_update"));
}

TEST_CASE("Plans differ in micro-batches, so none is the largest by itself", "[unit]") {
  sim::Node root = config("training_plans", "80 GiB", "{}");
  root.find("workload")->set("largest_batch", sim::Node::boolean(true));
  CHECK_THROWS_WITH(read_experiment(test_systems(), root),
                    Contains("expected false: micro-batches are among what plans differ in"));
}

TEST_CASE("Plans whose stages differ are listed beside the others, and never worse", "[prop]") {
  const auto best = [](const std::string& memory, const std::string& stages) {
    return read_experiment(test_systems(), config("training_plans", memory,
                                                  R"({"recompute": ["none", "full"], "interleave": [1], "stages": ")" +
                                                      stages + R"("})"))
        ->run({})
        .summary.find("training_plans")
        ->items()
        .front();
  };
  for (const char* memory : {"80 GiB", "5 GiB", "3400 MiB"})
    CHECK(best(memory, "apart").find("iteration_s")->as_number() <=
          best(memory, "alike").find("iteration_s")->as_number() * (1 + 1e-9));
}

TEST_CASE("What is not searched over is as the config has it, and context parallelism is told", "[unit]") {
  const sim::Node root = sim::parse_json(R"({"system": "training_plans",
    "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 8}]},
    "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "heads": 8, "kv_heads": 8,
              "head_dim": 128, "intermediate": 4096, "vocab": 32000, "tied": false, "loss": true}}},
    "workload": {"sequence": 4096, "global_batch": 8},
    "plan": {"sequence_parallel": true, "async_tensor_parallel": true},
    "plans": {"tensor_parallel": [2], "context_parallel": [2], "pipeline_parallel": [1], "show": 100, "run": 100,
              "recompute": ["none"], "zero": ["none"]}})",
                                         "plans.json");
  const sim::Node found = read_experiment(test_systems(), root)->run({}).summary;
  double best_shared = 1e9, plain = 0;
  for (const sim::Node& plan : found.find("training_plans")->items()) {
    CHECK(plan.find("context_parallel")->as_integer() == 2);
    if (plan.find("micro_batch")->as_integer() == 1 && plan.find("sequence_parallel")->as_boolean())
      best_shared = plan.find("iteration_s")->as_number();
  }
  // The same plan by itself, with and without gathers beside products: the planner's is the one with.
  const auto alone = [&](const char* async) {
    sim::Node one = root;
    one.set("system", sim::Node::string("training"));
    one.erase("plans");
    one.set(
        "plan", sim::parse_json(std::string(R"({"tensor_parallel": 2, "context_parallel": 2, "sequence_parallel": true,
      "async_tensor_parallel": )") + async +
                                    "}",
                                "plan.json"));
    return read_experiment(test_systems(), one)->run({}).summary.find("iteration_s")->as_number();
  };
  plain = alone("false");
  CHECK(best_shared == Approx(alone("true")).epsilon(1e-9));
  CHECK(best_shared < plain);
}

TEST_CASE("Launch flags say the plan and nothing else", "[golden]") {
  const LaunchedModel model{.global_batch = 64, .sequence = 2048, .layers = 96};
  Plan plan{.tensor = 8, .pipeline = 8, .micro_batch = 1, .chunks = 3, .sequence = true};
  plan.recompute = Recompute::selective;
  CHECK(megatron_flags(plan, model) ==
        std::vector<std::string>{"--tensor-model-parallel-size 8", "--pipeline-model-parallel-size 8",
                                 "--num-layers-per-virtual-pipeline-stage 4",  // 96 / 8 / 3
                                 "--micro-batch-size 1", "--global-batch-size 64", "--seq-length 2048",
                                 "--sequence-parallel", "--recompute-activations"});
  // Stages that differ: the layout, and the most that a stage runs again.
  Plan apart{.tensor = 1, .pipeline = 4, .micro_batch = 1};
  apart.recompute = Recompute::full;
  apart.stage_recompute_layers = {2, 0, 0, 0};
  CHECK(megatron_flags(apart, {.global_batch = 8, .sequence = 64, .layers = 32, .stage_layers = {8, 8, 9, 7}}) ==
        std::vector<std::string>{"--tensor-model-parallel-size 1", "--pipeline-model-parallel-size 4",
                                 "--pipeline-model-parallel-layout \"Et*8|t*8|t*9|t*7,L\"", "--micro-batch-size 1",
                                 "--global-batch-size 8", "--seq-length 64", "--recompute-granularity full",
                                 "--recompute-method block", "--recompute-num-layers 2"});
  Plan sharded{.tensor = 2, .context = 2, .data = 4, .micro_batch = 2};
  sharded.zero = Zero::weights;
  sharded.recompute = Recompute::full;
  CHECK(torchtitan_flags(sharded, model) ==
        std::vector<std::string>{"--training.local_batch_size 2", "--training.global_batch_size 64",
                                 "--training.seq_len 2048", "--parallelism.data_parallel_replicate_degree 1",
                                 "--parallelism.data_parallel_shard_degree 4", "--parallelism.tensor_parallel_degree 2",
                                 "--parallelism.context_parallel_degree 2", "--parallelism.pipeline_parallel_degree 1",
                                 "--parallelism.context_parallel_rotate_method alltoall",
                                 "--activation_checkpoint.mode full"});
  const std::vector<std::string> shared = megatron_flags(sharded, model);
  CHECK(std::find(shared.begin(), shared.end(), "--cp-comm-type p2p") != shared.end());
  CHECK(std::find(shared.begin(), shared.end(), "--data-parallel-sharding-strategy optim_grads_params") !=
        shared.end());
  CHECK(std::find(shared.begin(), shared.end(), "--overlap-grad-reduce") != shared.end());
}

}  // namespace test_training_plans
