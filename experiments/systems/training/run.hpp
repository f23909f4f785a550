// One training run: the plan checked, its step run event by event, its memory and energy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/systems/training/config.hpp"
#include "experiments/systems/training/iteration.hpp"
#include "experiments/systems/training/reserved.hpp"

namespace orrery::experiments::training {

/// When a rank holds most: in its passes, when most activations are kept; when its last gradients are made; in the
/// optimizer's update.
enum class MemoryMoment : std::uint8_t { passes, last_gradients, update };
constexpr auto enum_names(MemoryMoment) {
  using enum MemoryMoment;
  return sim::names<MemoryMoment>({{"passes", passes}, {"last_gradients", last_gradients}, {"update", update}});
}

/// What a rank of a stage holds at its fullest, bytes.
struct StageMemory {
  std::int64_t weights = 0, gradients = 0, optimizer = 0;
  std::int64_t activations = 0;  ///< kept between passes, when most are
  std::int64_t working = 0;      ///< of the pass that needs most beside them
  std::int64_t buffers = 0;      ///< buckets of gradients, and what is taken before any tensor
  MemoryMoment moment = MemoryMoment::passes;
  std::int64_t total() const { return weights + gradients + optimizer + activations + working + buffers; }
};

struct TrainingResult {
  std::string status = "ok", reason;  ///< "infeasible" where the plan does not fit; the rest is then empty, …
  bool timed = false;                 ///< … unless it is memory alone that does not suffice
  Plan plan;
  std::int64_t global_batch = 1;     ///< sequences of the step
  std::vector<std::int64_t> layers;  ///< by stage
  StepCosts costs;
  StepRun run;
  StepTimes closed;
  std::vector<StageMemory> memory;                ///< by stage
  std::vector<std::optional<Reserved>> reserved;  ///< by stage, by the machine's allocator; empty: it has none
  std::size_t fullest = 0;                        ///< stage whose devices have the largest share of their memory full
  std::int64_t available_bytes = 0;               ///< of a device of that stage
  std::int64_t host_bytes = 0;                    ///< in the memory of the fullest node's host
  std::optional<double> busiest;    ///< rows of the busiest rank's experts over the mean; none: no router was given
  double model_flops = 0;           ///< of a step, all ranks, nothing run again
  double energy_j = 0, idle_j = 0;  ///< of a step, all devices
};

/// Layers of each stage by the partition policy; nothing, with the reason, where it cannot be. `speeds`: of the stages'
/// machines; none: they are alike.
std::optional<std::vector<std::int64_t>> stage_layers(const policies::PartitionRegistry::Choice& partition,
                                                      const ModelCosts& model, const Plan& plan, std::string& why,
                                                      std::span<const double> speeds = {});

/// Steps per second of the config's plan, were all nodes as those of a stage and layers divided as for alike ones, by
/// stage; none where nodes are alike or the partition does not ask.
std::vector<double> stage_speeds(const TrainingConfig& config, const Plan& plan);

StageMemory stage_memory(const ModelCosts& model, const StageCosts& stage, const Plan& plan, std::int64_t kept_bytes);

/// Why the config's machine cannot hold what a plan leaves to the host; nothing if it can.
std::optional<std::string> offload_obstacle(const TrainingConfig& config, const PlanParams& plan);
/// Why a host has no room for so many bytes; nothing if it has.
std::optional<std::string> host_obstacle(const TrainingMachine& machine, std::int64_t host_bytes);

TrainingResult train(const TrainingConfig& config);
/// The same for whoever has a user: what only pricing finds wrong (a kernel that the part cannot run, a graph that
/// cannot be differentiated, work beyond 64 bits) is a sim::ConfigError at its place in the config.
TrainingResult train_or_fault(const TrainingConfig& config);
/// Whatever else prices a config: the same faults.
void priced_or_fault(const std::string& file, const std::function<void()>& act);

}  // namespace orrery::experiments::training
