// Plans to train: what is scored equals what is run, the best is the best of all, and what does not fit is counted.
#include <catch2/catch.hpp>
#include <numeric>

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
  const TrainingConfig all = read();
  CostTable table(all.machine, all.model);
  const auto& schedules = test_systems().registry<policies::ScheduleRegistry>();
  sim::Faults faults;
  const auto plain = schedules.prepare("1f1b", nullptr, {}, faults).make();
  const auto chunked = schedules.prepare("interleaved", nullptr, {}, faults).make();
  std::size_t number = 0;
  for (const Plan& plan : every_plan(all)) {
    if (number++ % 7 != 0) continue;
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
  }
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

}  // namespace test_training_plans
