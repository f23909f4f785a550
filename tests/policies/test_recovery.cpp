// What a training job does that lost nodes: each policy on grids small enough to reckon by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "policies/recovery/recovery.hpp"
#include "sim/base/random.hpp"

namespace test_recovery {

using namespace orrery;
using namespace orrery::policies;

namespace {

std::unique_ptr<Recovery> policy(const std::string& name, const std::string& params = "{}") {
  RecoveryRegistry registry("recovery");
  register_recoveries(registry);
  const sim::Node node = sim::parse_json(params, "params.json");
  sim::Faults faults;
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

/// Copies of a pipeline whose step is (M - 1) times its slowest stage and once each stage: GPipe without messages.
struct Grid {
  std::int64_t copies = 4, micro_batches = 8;
  std::vector<RecoveryStage> stages;
  std::int64_t lost_copies = 0;
  bool survives = true;

  double step(std::span<const double> slower, std::span<const std::int64_t> layers) const {
    double sum = 0, slowest = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const double own = slower[s] * (static_cast<double>(layers[s]) * stages[s].layer_s + stages[s].edge_s);
      sum += own;
      slowest = std::max(slowest, own);
    }
    return sum + static_cast<double>(micro_batches - 1) * slowest;
  }
  RecoveryDecision decide(const Recovery& recovery) const {
    const std::vector<double> as_fast(stages.size(), 1);
    std::vector<std::int64_t> layers;
    for (const RecoveryStage& stage : stages) layers.push_back(stage.layers);
    return recovery.decide({.copies = copies,
                            .micro_batches = micro_batches,
                            .step_s = step(as_fast, layers),
                            .stages = stages,
                            .lost_copies = lost_copies,
                            .state_survives = survives,
                            .step_with = [this](std::span<const double> slower, std::span<const std::int64_t> all) {
                              return step(slower, all);
                            }});
  }
};

/// Four stages of four layers, 1 s each; a step is 4 x 4 + 7 x 4 = 44 s.
Grid four() {
  return {.stages = std::vector<RecoveryStage>(4, {.layers = 4, .most_layers = 6, .layer_s = 1})};
}

}  // namespace

TEST_CASE("recovery: a restart waits until all is there and goes back to the checkpoint") {
  Grid grid = four();
  RecoveryDecision whole = grid.decide(*policy("restart"));
  CHECK(!whole.waits);
  CHECK(whole.rolls_back);
  CHECK(whole.step_s == Approx(44));
  CHECK(whole.communicators == Communicators::all);
  grid.stages[2].lost = 1;
  CHECK(grid.decide(*policy("restart")).waits);
}

TEST_CASE("recovery: migration keeps the step at hand where a spare stands in and peers hold the state") {
  Grid grid = four();
  const RecoveryDecision spared = grid.decide(*policy("migrate"));
  CHECK(!spared.rolls_back);
  CHECK(spared.communicators == Communicators::groups);
  grid.survives = false;  // no copy of a stage is left: the checkpoint is
  CHECK(grid.decide(*policy("migrate")).rolls_back);
  grid.survives = true;
  grid.stages[0].lost = 1;  // no spare
  CHECK(grid.decide(*policy("migrate")).waits);
}

TEST_CASE("recovery: a dropped replica takes its sequences with it") {
  Grid grid = four();
  grid.stages[1].lost = 1;
  grid.lost_copies = 1;
  const RecoveryDecision one = grid.decide(*policy("drop_replica"));
  CHECK(one.share == Approx(0.75));
  CHECK(one.step_s == Approx(44));
  CHECK(!one.rolls_back);
  grid.lost_copies = 4;
  CHECK(grid.decide(*policy("drop_replica")).waits);
  CHECK(policy("drop_replica", R"({"overhead": 0.3})")->step_overhead() == Approx(0.3));
}

TEST_CASE("recovery: ReCycle loses nothing while a stage's idle time holds what its peers take over") {
  // Of 4 copies one lacks stage 1: its 8 micro-batches fall to 3, ceil(32 / 3) = 11 each; 11 x 4 s fit 44 s exactly.
  Grid grid = four();
  grid.stages[1].lost = 1;
  CHECK(shared_micro_batches({.copies = 4, .micro_batches = 8}, grid.stages[1]) == 11);
  CHECK(grid.decide(*policy("recycle")).step_s == Approx(44));
  // Two lost: ceil(32 / 2) = 16 each, 64 s.
  grid.stages[1].lost = 2;
  CHECK(grid.decide(*policy("recycle")).step_s == Approx(64));
  // The optimizer's step comes after them.
  grid.stages[1].tail_s = 3;
  CHECK(grid.decide(*policy("recycle")).step_s == Approx(67));
  grid.stages[1].lost = 4;
  CHECK(grid.decide(*policy("recycle")).waits);
}

TEST_CASE("recovery: ElasWave moves layers off the stage that lost copies, as far as memory allows") {
  // Stage 1 has two of four copies left and takes twice as long a layer: cuts 5|2|5|4, 4|2|5|5, … have a slowest stage
  // of 5 s and move 4 layers; without moving it is 8 s.
  Grid grid = four();
  grid.stages[1].lost = 2;
  const RecoveryDecision moved = grid.decide(*policy("elastic"));
  CHECK(moved.layers[1] == 2);
  CHECK(std::ranges::max(moved.layers) == 5);
  CHECK(std::accumulate(moved.layers.begin(), moved.layers.end(), std::int64_t{0}) == 16);
  CHECK(moved.step_s == Approx(4 + 4 + 5 + 5 + 7 * 5));
  CHECK(moved.communicators == Communicators::edited);
  const RecoveryDecision stayed = grid.decide(*policy("elastic", R"({"reshard": false})"));
  CHECK(stayed.layers == std::vector<std::int64_t>{4, 4, 4, 4});
  CHECK(stayed.step_s == Approx(4 * 3 + 8 + 7 * 8));
  // No memory for more layers: they stay.
  for (RecoveryStage& stage : grid.stages) stage.most_layers = 4;
  CHECK(grid.decide(*policy("elastic")).layers == std::vector<std::int64_t>{4, 4, 4, 4});
  // Clocks: 8 s against 4 s wish for twice the clock and get 1.25.
  const RecoveryDecision faster = grid.decide(*policy("elastic", R"({"reshard": false, "boost": 1.25})"));
  CHECK(faster.clock == Approx(1.25));
  CHECK(faster.step_s == Approx(4 * 3 + 6.4 + 7 * 6.4));
}

TEST_CASE("recovery: the cut of layers is the best there is, by looking at all") {
  sim::RandomStream random(5, "cuts");
  const auto elastic = policy("elastic");
  for (int round = 0; round < 60; ++round) {
    Grid grid{.copies = 4, .micro_batches = 16};
    for (int s = 0; s < 3; ++s)
      grid.stages.push_back({.layers = random.integer(2, 5),
                             .most_layers = random.integer(5, 8),
                             .layer_s = random.uniform(0.5, 1.5),
                             .edge_s = random.uniform(0, 1),
                             .lost = random.integer(0, 2)});
    grid.stages[0].lost = 1;
    const RecoveryDecision found = grid.decide(*elastic);
    std::vector<double> slower;
    std::int64_t all = 0;
    for (const RecoveryStage& stage : grid.stages) {
      slower.push_back(static_cast<double>(shared_micro_batches({.copies = 4, .micro_batches = 16}, stage)) / 16);
      all += stage.layers;
    }
    const auto slowest = [&](const std::vector<std::int64_t>& layers) {
      double most = 0;
      for (std::size_t s = 0; s < 3; ++s)
        most = std::max(most,
                        slower[s] * (static_cast<double>(layers[s]) * grid.stages[s].layer_s + grid.stages[s].edge_s));
      return most;
    };
    double best = std::numeric_limits<double>::infinity();
    for (std::int64_t a = 1; a < all; ++a)
      for (std::int64_t b = 1; a + b < all; ++b) {
        const std::vector<std::int64_t> layers{a, b, all - a - b};
        bool fits = true;
        for (std::size_t s = 0; s < 3; ++s) fits = fits && layers[s] <= grid.stages[s].most_layers;
        if (fits) best = std::min(best, slowest(layers));
      }
    // Layers are kept where moving them does not shorten the step.
    std::vector<std::int64_t> planned;
    for (const RecoveryStage& stage : grid.stages) planned.push_back(stage.layers);
    if (found.layers != planned) CHECK(slowest(found.layers) == Approx(best));
    CHECK(slowest(found.layers) >= best * (1 - 1e-12));
    CHECK(found.step_s <= grid.step(slower, planned) * (1 + 1e-12));
  }
}

TEST_CASE("recovery: copies that are left share every micro-batch of a stage") {
  sim::RandomStream random(6, "shares");
  for (int round = 0; round < 200; ++round) {
    const std::int64_t copies = random.integer(2, 40), micro = random.integer(1, 64);
    const RecoveryStage stage{.lost = random.integer(0, copies - 1)};
    const std::int64_t own = shared_micro_batches({.copies = copies, .micro_batches = micro}, stage);
    CHECK(own * (copies - stage.lost) >= copies * micro);
    CHECK((own - 1) * (copies - stage.lost) < copies * micro);
  }
}

}  // namespace test_recovery
