// Layers of stages that differ: the exact division equals an integer program, and trying every division.
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <tuple>

#include "experiments/systems/training/config.hpp"
#include "experiments/systems/training/run.hpp"
#include "experiments/systems/training/stage_division.hpp"
#include "sim/child_process.hpp"
#include "sim/milp.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_stages {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using namespace orrery::experiments::training;

namespace {

/// Twelve layers on eight A100 with so much memory, and a host behind PCIe 5.
TrainingConfig read(const std::string& memory) {
  const sim::Node root = sim::parse_json(R"({"system": "training",
    "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 8, "override": {"memory": ")" +
                                             memory + R"("}}], "host_link": "pcie5-x16"},
    "model": {"builder": {"policy": "gpt2", "gpt2": {"layers": 12, "hidden": 1024, "heads": 16, "intermediate": 4096,
              "vocab": 51200, "positions": 1024, "attention": "eager", "loss": true, "dropout": 0.1}}},
    "workload": {"sequence": 1024, "global_batch": 16}})",
                                         "stages.json");
  sim::Faults faults;
  TrainingConfig all = read_training_config(root, *test_systems().registries(), faults);
  faults.throw_if_any();
  return all;
}

/// A stage's passes and its update; 1e99 where it does not fit.
struct StageTimes {
  double passes_s = 1e99, update_s = 0;
};

/// With so many layers and those shares, over every number of layers that runs again.
StageTimes stage_times(CostTable& table, const TrainingConfig& all, const Plan& plan, std::int64_t s,
                       std::int64_t layers, const HostShares& shares = {}) {
  StageTimes best;
  for (std::int64_t again = 0; again <= layers; ++again) {
    Plan own = plan;
    own.recompute = again > 0 ? Recompute::full : Recompute::none;
    own.recompute_layers = again;
    own.set_host_shares({shares});
    const ModelCosts& model = table.costs(own.share());
    const StageCosts stage = stage_costs(model, all.machine, own, s, layers);
    const std::int64_t kept = std::min(plan.micro_batches, plan.pipeline - s) * stage.chunks.front().kept_bytes;
    if (stage_memory(model, stage, own, kept).total() > all.machine.device.memory_bytes) continue;
    const double passes = stage.chunks.front().forward_s() + stage.chunks.front().backward_s();
    if (passes < best.passes_s) best = {passes, stage.optimizer_s + stage.gathers_s};
  }
  return best;
}

/// Nothing in the host's memory, states there, and activations too.
const std::vector<HostShares> kShares{{}, {.optimizer = 0.5}, {.optimizer = 1, .activations = 0.5}};

}  // namespace

TEST_CASE("Stages are divided as Mist's integer program divides them", "[theory]") {
  if (!sim::find_program("cbc")) {
    WARN("skipped: CBC is not installed");
    return;
  }
  // Eight stages of 40 layers: 7^8 divisions, too many to try.
  constexpr std::int64_t kStages = 8, kLayers = 40, kReach = 3, kMicroBatches = 16;
  for (const char* memory : {"80 GiB", "5 GiB", "4200 MiB", "2600 MiB"}) {
    CAPTURE(memory);
    const TrainingConfig all = read(memory);
    CostTable table(all.machine, all.model);
    const Plan plan{.tensor = 1, .pipeline = kStages, .data = 1, .micro_batch = 1, .micro_batches = kMicroBatches};
    // Least (G - 1) T + sum of stage times + D, T no less than any of them and D no less than any update; one number of
    // layers a stage with one choice of shares, all layers placed.
    sim::Milp program;
    using Kind = sim::Milp::Kind;
    using Sense = sim::Milp::Sense;
    const auto longest = program.add_variable("longest"), update = program.add_variable("update");
    sim::Milp::Terms placed, objective{{longest, kMicroBatches - 1}, {update, 1}};
    for (std::int64_t s = 0; s < kStages; ++s) {
      sim::Milp::Terms one, time{{longest, -1}}, last{{update, -1}};
      for (std::int64_t layers = kLayers / kStages - kReach; layers <= kLayers / kStages + kReach; ++layers)
        for (const HostShares& shares : kShares) {
          const StageTimes own = stage_times(table, all, plan, s, layers, shares);
          if (own.passes_s == 1e99) continue;
          const auto chosen = program.add_variable("chosen", Kind::binary);
          one.emplace_back(chosen, 1);
          time.emplace_back(chosen, own.passes_s);
          last.emplace_back(chosen, own.update_s);
          objective.emplace_back(chosen, own.passes_s);
          placed.emplace_back(chosen, double(layers));
        }
      program.add_constraint("one", one, Sense::equal, 1);
      program.add_constraint("no longer", time, Sense::at_most, 0);
      program.add_constraint("no later", last, Sense::at_most, 0);
    }
    program.add_constraint("all layers", placed, Sense::equal, kLayers);
    program.minimise(objective);
    const auto solution = program.solve(60);
    const auto division =
        divide_stages(table, all.machine, plan, kLayers, kReach, StageAgain::fewest_that_fit, kShares);
    REQUIRE(division.has_value() == solution.solved());
    if (!division) continue;
    REQUIRE(solution.status == sim::Milp::Solution::Status::optimal);
    CHECK(division->objective_s == Approx(solution.objective).epsilon(1e-6));  // CBC's tolerance
  }
}

TEST_CASE("Stages are divided as trying every division divides them", "[theory]") {
  // Twelve layers on devices of little memory: stages differ, for the first keeps most micro-batches.
  for (const char* memory : {"80 GiB", "3400 MiB", "3000 MiB", "2000 MiB"}) {
    const TrainingConfig all = read(memory);
    CostTable table(all.machine, all.model);
    for (const std::int64_t stages : {2, 3, 4}) {
      CAPTURE(memory, stages);
      Plan plan{.tensor = 1, .pipeline = stages, .data = 1, .micro_batch = 1, .micro_batches = 16};
      const std::int64_t reach = 3;
      const auto division = divide_stages(table, all.machine, plan, 12, reach, StageAgain::fewest_that_fit, kShares);
      std::map<std::tuple<std::size_t, std::int64_t, std::size_t>, StageTimes> known;
      const auto times = [&](std::size_t s, std::int64_t own, std::size_t choice) {
        const auto [at, first] = known.try_emplace({s, own, choice});
        if (first) at->second = stage_times(table, all, plan, static_cast<std::int64_t>(s), own, kShares[choice]);
        return at->second;
      };
      double best = 1e99;
      std::vector<std::int64_t> layers(static_cast<std::size_t>(stages));
      const auto every = [&](auto&& self, std::size_t s, std::int64_t left, double longest, double sum,
                             double update) -> void {
        if (s == layers.size()) {
          if (left == 0) best = std::min(best, 15 * longest + sum + update);
          return;
        }
        for (std::int64_t count = std::max<std::int64_t>(1, 12 / stages - reach);
             count <= std::min(left, 12 / stages + reach); ++count)
          for (std::size_t choice = 0; choice < kShares.size(); ++choice)
            if (const StageTimes own = times(s, count, choice); own.passes_s < 1e99)
              self(self, s + 1, left - count, std::max(longest, own.passes_s), sum + own.passes_s,
                   std::max(update, own.update_s));
      };
      every(every, 0, 12, 0, 0, 0);
      REQUIRE(division.has_value() == (best < 1e99));
      if (!division) continue;
      CHECK(division->objective_s == Approx(best).epsilon(1e-12));
      CHECK(std::accumulate(division->layers.begin(), division->layers.end(), std::int64_t{0}) == 12);
    }
  }
}

}  // namespace test_training_stages
