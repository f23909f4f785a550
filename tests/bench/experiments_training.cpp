// Plans of GPT-3 175B on 4,096 A100 by closed form, plans a second; and one step of 1,024 and 16,384 of them as events.
#include <benchmark/benchmark.h>

#include "experiments/all/systems.hpp"
#include "experiments/systems/training/planner.hpp"

namespace {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::training;

TrainingConfig gpt3(const Systems& systems, std::int64_t devices) {
  sim::Node root = sim::read_config(ORRERY_SOURCE_DIR "/experiments/studies/training_gpt3.json");
  sim::Faults faults;
  TrainingConfig config = read_training_config(root, *systems.registries(), faults);
  faults.throw_if_any();
  config.machine.devices = devices;
  if (!config.machine.nics) config.machine.nics = NodeNics{};
  return config;
}

/// Time, memory and whether it fits, of every plan with tensor parallelism 1 to 8 and pipelines of 1 to 96.
void BM_score_plans(benchmark::State& state) {
  const Systems systems = all_systems();
  const TrainingConfig config = gpt3(systems, 4096);
  CostTable table(config.machine, config.model);
  std::vector<Plan> plans;
  for (const std::int64_t tensor : {1, 2, 4, 8})
    for (const std::int64_t pipeline : {1, 2, 4, 8, 16, 32, 64})
      for (const std::int64_t micro : {1, 2, 4})
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
          for (const Zero zero : {Zero::none, Zero::optimizer, Zero::weights})
            plans.push_back({.tensor = tensor,
                             .pipeline = pipeline,
                             .data = 4096 / tensor / pipeline,
                             .micro_batch = micro,
                             .micro_batches = 64,
                             .zero = zero,
                             .recompute = recompute});
  for (const Plan& plan : plans) benchmark::DoNotOptimize(score(table, config.machine, plan, 96).closed_s);
  for (auto _ : state)
    for (const Plan& plan : plans) benchmark::DoNotOptimize(score(table, config.machine, plan, 96).closed_s);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(plans.size()));
}
BENCHMARK(BM_score_plans);

/// TP8 PP16, 64 micro-batches: data parallelism 8 (1,024 devices) and 128 (16,384); copies are alike.
void BM_step_events(benchmark::State& state) {
  const Systems systems = all_systems();
  const TrainingConfig config = gpt3(systems, 128 * state.range(0));
  CostTable table(config.machine, config.model);
  const Plan plan{.tensor = 8, .pipeline = 16, .data = state.range(0), .micro_batches = 64, .sequence = true};
  const StepCosts costs = step_costs(table, config.machine, plan, std::vector<std::int64_t>(16, 6));
  sim::Faults faults;
  const auto schedule = systems.registry<policies::ScheduleRegistry>().prepare("1f1b", nullptr, {}, faults).make();
  for (auto _ : state) benchmark::DoNotOptimize(run_step(costs, *schedule, sim::TickScale(1)).times.time_s);
}
BENCHMARK(BM_step_events)->Arg(8)->Arg(128)->Unit(benchmark::kMillisecond);

}  // namespace
