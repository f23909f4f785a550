// Recovery: what a training job does when it has lost nodes, and when they are back.
//
// Asked at every change of what the job has, before it goes on. Contract: a pure function of the view. A policy says
// whether the job goes on, with which step and from which state; the job (experiments/job) says what detecting,
// rebuilding communicators and moving state take.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

/// A stage of the pipeline. Seconds are those of a micro-batch on one copy, forward and backward.
struct RecoveryStage {
  std::int64_t layers = 1;
  std::int64_t most_layers = 1;  ///< that its ranks have memory for
  double layer_s = 0;            ///< one layer
  double edge_s = 0;             ///< what it has beside its layers: embedding, head
  double tail_s = 0;             ///< once a step, after its last backward pass
  std::int64_t lost = 0;         ///< copies that lack ranks of this stage
  double pass_s() const { return static_cast<double>(layers) * layer_s + edge_s; }
};

/// The job after a change. Spares that stand in for lost nodes are counted in: only what nobody replaces is lost.
struct RecoveryView {
  std::int64_t copies = 1, micro_batches = 1;  ///< micro-batches of a copy in a step
  double step_s = 0;                           ///< with nothing lost
  std::span<const RecoveryStage> stages;
  std::int64_t lost_copies = 0;  ///< that lack ranks of some stage
  bool state_survives = true;    ///< each stage's state was on a node that is still there
  /// A step in which stage s has layers[s] and takes slower[s] times as long for them.
  std::function<double(std::span<const double> slower, std::span<const std::int64_t> layers)> step_with;
};

/// Which communicators are made anew: those of every rank; those of the groups that the lost ranks were in; none, the
/// lost ranks' links are taken out of them.
enum class Communicators : std::uint8_t { all, groups, edited };

struct RecoveryDecision {
  bool waits = false;       ///< the job stands until what is lost is back, and is then asked again
  bool rolls_back = false;  ///< to the last checkpoint, by a restart of all processes; else the step at hand is lost
  double step_s = 0;        ///< of a step from now on
  double share = 1;         ///< of its sequences that are trained on
  Communicators communicators = Communicators::all;
  std::vector<std::int64_t> layers{};  ///< of each stage
  double clock = 1;                    ///< of the stage whose clock is raised most, over the usual one
};

class Recovery {
 public:
  virtual ~Recovery() = default;
  virtual RecoveryDecision decide(const RecoveryView& view) const = 0;
  /// Of every step, what being ready for failures adds to it.
  virtual double step_overhead() const { return 0; }
};

using RecoveryRegistry = sim::Registry<Recovery>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_recoveries(RecoveryRegistry& registry);

/// The step as it was planned, every process started anew from the last checkpoint; waits for what is lost.
RecoveryDecision started_anew(const RecoveryView& view);
/// The planned layers of each stage.
std::vector<std::int64_t> planned_layers(const RecoveryView& view);
/// Micro-batches that each copy of a stage which is left runs, so that none is left out: ceil(M d / (d - lost)). There
/// must be one left.
std::int64_t shared_micro_batches(const RecoveryView& view, const RecoveryStage& stage);

}  // namespace orrery::policies
