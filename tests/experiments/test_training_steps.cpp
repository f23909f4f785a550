// Steps of stages made by hand: schedules in closed form, orders of passes, what gradients and collectives take.
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "experiments/systems/training/run.hpp"
#include "sim/base/random.hpp"
#include "tests/systems.hpp"

namespace test_training_steps {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using training::ChunkCosts;
using training::Plan;
using training::StageCosts;
using training::StepCosts;

namespace {

/// Stages that all take f forward and b backward, and nothing else.
StepCosts uniform(std::int64_t stages, std::int64_t micro_batches, double f, double b, double transfer = 0) {
  StepCosts costs;
  costs.plan = Plan{.pipeline = stages, .micro_batches = micro_batches};
  costs.messages.next.time_s = costs.messages.wrap.time_s = transfer;
  for (std::int64_t s = 0; s < stages; ++s) {
    ChunkCosts chunk;
    chunk.layers = 1;
    chunk.forward.kernel_s = f;
    chunk.backward_input.kernel_s = b;
    chunk.kept_bytes = 1;
    StageCosts stage;
    stage.chunks.push_back(chunk);
    costs.stages.push_back(stage);
  }
  return costs;
}

std::unique_ptr<policies::PipelineSchedule> schedule(const std::string& name) {
  return test_systems()
      .registry<policies::ScheduleRegistry>()
      .prepare(name, nullptr, {}, *std::make_unique<sim::Faults>())
      .make();
}

}  // namespace

TEST_CASE("Uniform stages of 1F1B and GPipe take (m + P - 1)(F + B)", "[unit][theory]") {
  for (const std::string name : {"1f1b", "gpipe"})
    for (const std::int64_t stages : {1, 2, 4, 7})
      for (const std::int64_t micro : {1, 3, 8}) {
        CAPTURE(name, stages, micro);
        const auto step = training::run_step(uniform(stages, micro, 2, 3), *schedule(name), sim::TickScale(1));
        CHECK(step.times.time_s == Approx(5.0 * static_cast<double>(micro + stages - 1)));
        CHECK(step.times.bubble_s == Approx(5.0 * static_cast<double>(stages - 1)));
        CHECK(step.times.compute_s + step.times.bubble_s == Approx(step.times.time_s));
        // What a stage keeps at its most: 1F1B P - s micro-batches, GPipe all.
        for (std::int64_t s = 0; s < stages; ++s)
          CHECK(step.peak_kept_bytes[static_cast<std::size_t>(s)] ==
                (name == "gpipe" ? micro : std::min(micro, stages - s)));
      }
}

TEST_CASE("Chunks divide the bubble of interleaved stages", "[theory]") {
  // (P - 1)(F + B) / C with F + B = 5 a device, P = 4, m = 8.
  for (const std::int64_t chunks : {1, 2, 4}) {
    StepCosts costs = uniform(4, 8, 2, 3);
    costs.plan.chunks = chunks;
    for (StageCosts& stage : costs.stages) {
      ChunkCosts chunk = stage.chunks.front();
      chunk.forward.kernel_s /= static_cast<double>(chunks);
      chunk.backward_input.kernel_s /= static_cast<double>(chunks);
      stage.chunks.assign(static_cast<std::size_t>(chunks), chunk);
    }
    const auto step = training::run_step(costs, *schedule("interleaved"), sim::TickScale(1));
    CHECK(step.times.bubble_s == Approx(15.0 / static_cast<double>(chunks)));
  }
}

TEST_CASE("Every micro-batch passes every stage once each way, and messages arrive before they are read", "[prop]") {
  sim::RandomStream random(5, "training");
  for (int i = 0; i < 30; ++i) {
    const auto stages = random.integer(1, 6), micro = random.integer(1, 9);
    StepCosts costs = uniform(stages, micro, 1, 1, 0.25);
    for (StageCosts& stage : costs.stages) {
      stage.chunks.front().forward.kernel_s = static_cast<double>(random.integer(1, 20));
      stage.chunks.front().backward_input.kernel_s = static_cast<double>(random.integer(1, 20));
    }
    const auto step = training::run_step(costs, *schedule("1f1b"), sim::TickScale(1));
    std::map<std::pair<std::int32_t, std::int32_t>, sim::Time> forward_end;
    std::map<std::int32_t, std::int64_t> passes;
    for (const auto& pass : step.passes) {
      ++passes[pass.stage];
      if (pass.pass.kind == policies::PassKind::forward) forward_end[{pass.stage, pass.pass.micro_batch}] = pass.end;
    }
    for (std::int32_t s = 0; s < stages; ++s) CHECK(passes[s] == 2 * micro);
    for (const auto& pass : step.passes)
      if (pass.pass.kind == policies::PassKind::forward && pass.stage > 0)
        CHECK(pass.start >= forward_end.at({pass.stage - 1, pass.pass.micro_batch}));
    CHECK(std::ssize(step.messages) == 2 * micro * (stages - 1));
    // No step is shorter than its slowest stage, or than one micro-batch there and back.
    double slowest = 0, through = 0;
    for (const StageCosts& stage : costs.stages) {
      const double own = stage.chunks.front().forward_s() + stage.chunks.front().backward_s();
      slowest = std::max(slowest, own);
      through += own;
    }
    CHECK(step.times.time_s >= Approx(static_cast<double>(micro) * slowest));
    CHECK(step.times.time_s >= Approx(through + 0.5 * static_cast<double>(stages - 1)));
    // The closed form leaves out that stages hold each other up: it is never above, and seldom far below.
    const double closed = training::closed_form(costs).time_s;
    CHECK(closed <= step.times.time_s * (1 + 1e-9));
    CHECK(closed >= 0.75 * step.times.time_s);
  }
}

TEST_CASE("A stage longer than the others is what all wait for", "[unit]") {
  // Two stages, the second 3 + 3, four micro-batches: 1 + 4 (3 + 3) + 1.
  StepCosts costs = uniform(2, 4, 1, 1);
  costs.stages[1].chunks.front().forward.kernel_s = 3;
  costs.stages[1].chunks.front().backward_input.kernel_s = 3;
  CHECK(training::run_step(costs, *schedule("1f1b"), sim::TickScale(1)).times.time_s == Approx(26));
  CHECK(training::closed_form(costs).time_s == Approx(26));
}

TEST_CASE("Gradients are summed behind the backward pass, or beside it", "[unit]") {
  StepCosts costs = uniform(1, 2, 1, 4);
  costs.plan.data = 2;
  costs.stages[0].chunks.front().layers = 4;
  costs.stages[0].gradients_s = 2;
  costs.plan.overlap_gradients = false;
  const auto time = [&] { return training::run_step(costs, *schedule("1f1b"), sim::TickScale(1)).times.time_s; };
  CHECK(time() == Approx(12));  // 2 (1 + 4) + 2
  costs.plan.overlap_gradients = true;
  CHECK(time() == Approx(10.5));  // a layer's quarter is left
  costs.stages[0].gradients_s = 6;
  CHECK(time() == Approx(13));  // begins after the first of four layers: 6 + 1 + 6
}

TEST_CASE("Split backward passes gather weights and sum gradients as whole ones do", "[unit]") {
  ChunkCosts chunk;
  chunk.forward.kernel_s = 2;
  chunk.backward_input.kernel_s = 2;
  chunk.backward_weight.kernel_s = 2;
  chunk.gathers_beside_s = 3;
  chunk.scatters_beside_s = 5;
  chunk.gathers_exposed_s = 0.5;
  chunk.scatters_exposed_s = 0.25;
  CHECK(chunk.forward_s() == 3.5);           // max(2, 3) + 0.5
  CHECK(chunk.backward_s() == 8.25);         // max(4, 3 + 5) + 0.25
  CHECK(chunk.backward_input_s() == 3);      // max(2, 3): weights are read
  CHECK(chunk.backward_weight_s() == 8.25);  // max(2, 3 + 5) + 0.25: read once more, and gradients are made
  // In a run: one stage, one micro-batch, halves one after the other.
  StepCosts costs = uniform(1, 1, 2, 2);
  costs.stages.front().chunks.front() = chunk;
  CHECK(training::run_step(costs, *schedule("zb_h1"), sim::TickScale(1000)).times.time_s == Approx(3.5 + 3 + 8.25));
}

TEST_CASE("Collectives of a forward pass that runs again count once", "[unit]") {
  StepCosts costs = uniform(1, 4, 2, 3);
  ChunkCosts& chunk = costs.stages.front().chunks.front();
  chunk.forward.collective_s = 0.5;
  chunk.again = chunk.forward;
  // A micro-batch: forward 2 + 0.5, again 2 + 0.5, backward 3.
  for (const training::StepTimes& times :
       {training::run_step(costs, *schedule("1f1b"), sim::TickScale(1000)).times, training::closed_form(costs)}) {
    CHECK(times.recompute_s == Approx(8));   // 4 x 2
    CHECK(times.collective_s == Approx(4));  // 4 x (0.5 + 0.5)
    CHECK(times.compute_s == Approx(20));    // 4 x (2 + 3)
    CHECK(times.time_s == Approx(32));
  }
}

}  // namespace test_training_steps
