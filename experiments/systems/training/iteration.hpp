// One training step: closed form, and event by event.
//
// Both are made of the same stage times. A stage runs its chunks' passes in the order of the schedule; activations and
// their gradients travel to the stage that reads them; when a stage has run its last backward pass, its gradients are
// summed over the copies (while the pass goes on, where the plan overlaps them), and the optimizer's step ends it.
// Copies are alike and start together, so one stands for all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/systems/training/part_costs.hpp"
#include "policies/partition/partition.hpp"
#include "policies/schedule/schedule.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments::training {

/// What a pass brings over the link from the host's memory and sends there, a micro-batch.
struct HostTraffic {
  double in_s = 0, out_s = 0;  ///< by direction, beside what runs
  double first_s = 0;          ///< of in_s: nothing runs before it
  double last_s = 0;           ///< of out_s: nothing runs beside it
  /// A pass whose kernels take `kernels_s`, and what copies of the model exchange beside it `collective_s`.
  double pass_s(const Overlap& overlap, double kernels_s, double collective_s) const {
    return first_s + overlap.together_s({kernels_s, collective_s, in_s - first_s, out_s - last_s}) + last_s;
  }
};

/// A chunk of a stage: so many layers, and the edges it has.
struct ChunkCosts {
  std::int64_t layers = 0;
  bool first = false, last = false;
  PassCost forward, again;  ///< again: of the forward pass, in the backward pass
  PassCost backward_input, backward_weight;
  std::int64_t kept_bytes = 0;  ///< of a micro-batch, from its forward to its backward pass
  /// Where copies share out weights or gradients: gathering weights beside every pass, summing gradients beside the
  /// pass that makes those of weights; and what of it nothing hides, the first layer's weights of a forward pass and
  /// the last layer's gradients.
  double gathers_beside_s = 0, scatters_beside_s = 0;
  double gathers_exposed_s = 0, scatters_exposed_s = 0;
  double shared_j = 0;          ///< of sending them, a micro-batch
  std::int64_t host_bytes = 0;  ///< activations of a micro-batch in the host's memory
  HostTraffic forward_host, backward_host;
  Overlap overlap;  ///< of kernels, gathers and sums beside them, and what goes to the host and back
  double forward_s() const;
  double backward_s() const;
  /// The halves of a backward pass that is split: each gathers the weights that it reads or whose gradients it makes.
  double backward_input_s() const;
  double backward_weight_s() const;
  /// Of the backward pass: kernels wait for what goes on beside them; that they are slowed is no waiting.
  double backward_waits_s() const;
  /// Of both passes: kernels wait for what is on its way to the host or back, as fast as it is alone.
  double host_waits_s() const;
  /// Of both passes, run whole: what runs at once slows down.
  double interference_s() const;
  /// The same without that.
  ChunkCosts unslowed() const;
  /// What a micro-batch takes in collectives of tensor parallelism, and in running its forward pass again (without
  /// the collectives of that).
  double collective_s() const;
  double recompute_s() const;
};

/// A stage, for one rank.
struct StageCosts {
  std::vector<ChunkCosts> chunks;
  double gradients_s = 0;            ///< of summing them over the copies
  double host_gradients_s = 0;       ///< of bringing gradients to a host that updates
  bool host_gradients_wait = false;  ///< the backward pass waits for it; else it goes beside
  double gathers_s = 0;              ///< of the weights that the copies share out, after the step
  double shared_s = 0;               ///< of summing a table's gradients over first and last stage
  double optimizer_s = 0;
  double network_j = 0;  ///< of what a rank sends for all this, once a step
  PassCost optimizer;
  std::int64_t parameters = 0;
  std::int64_t weight_bytes = 0, gradient_bytes = 0, state_bytes = 0;
  std::int64_t buffer_bytes = 0;  ///< buckets of gradients, and what is taken before any tensor
  std::int64_t host_weight_bytes = 0, host_gradient_bytes = 0, host_state_bytes = 0;  ///< in the host's memory
  /// What the update holds beside weights and states: gradients, in fp32 where it casts them, and the one at hand.
  std::int64_t update_gradient_bytes = 0, update_working_bytes = 0;
  /// A micro-batch through all chunks; backward with what runs again.
  double forward_s() const;
  double backward_s() const;
  /// Of the backward pass: kernels wait for what goes on beside them.
  double backward_waits_s() const;
  /// In the host's memory, with so many of activations.
  std::int64_t host_bytes(std::int64_t activations) const {
    return host_weight_bytes + host_gradient_bytes + host_state_bytes + activations;
  }
};

/// A pass of the stage, and work that begins or is wanted layer by layer beside it: one layer's pass, one layer's work
/// without a pass beside it, and between them the other layers' passes and work at once. `beside_s`: of all layers,
/// alone.
double beside_pass_s(const StageCosts& stage, const hw::PerActivity& beside_s, double pass_s);
/// A stage whose passes take so many times as long.
StageCosts slowed(StageCosts stage, double slower);

/// Joules that a rank of the stage spends on a step beside what its device draws anyway: kernels, and what it sends but
/// for the messages between stages.
double stage_energy(const StageCosts& stage, std::int64_t micro_batches);

/// Messages of activations between stages, of a rank.
struct StageMessages {
  hw::GroupCost next;               ///< from a stage to the next, where all hops are alike
  std::vector<hw::GroupCost> hops;  ///< from stage s to s + 1; empty: all are `next`
  hw::GroupCost wrap;               ///< from the last to the first, where stages have several chunks

  const hw::GroupCost& hop(std::int64_t s) const { return hops.empty() ? next : hops[static_cast<std::size_t>(s)]; }
  const hw::GroupCost& between(std::int64_t a, std::int64_t b) const {
    if (a + 1 == b || b + 1 == a) return hop(std::min(a, b));
    return wrap;
  }
  /// Of all hops of a pipeline, one after the other; of the longest.
  hw::GroupCost through(std::int64_t stages) const;
  double longest_s() const;
};

/// Everything that decides a step, beside the schedule.
struct StepCosts {
  Plan plan;
  std::vector<StageCosts> stages;
  StageMessages messages;
};

/// Whether anybody else holds parameters of this rank.
bool has_copies(const ModelCosts& model, const Plan& plan);
/// Stage `s` of the plan, with so many layers.
StageCosts stage_costs(const ModelCosts& model, const TrainingMachine& machine, const Plan& plan, std::int64_t s,
                       std::int64_t layers);
StageMessages stage_messages(const ModelCosts& model, const TrainingMachine& machine, const Plan& plan);
StepCosts step_costs(CostTable& table, const TrainingMachine& machine, const Plan& plan,
                     const std::vector<std::int64_t>& layers);

/// Where a step's time goes, s; of the stage that ends last. Parts add up to `time`.
struct StepTimes {
  double time_s = 0;
  double compute_s = 0;  ///< kernels, and the host where they wait for it
  double recompute_s = 0;
  double collective_s = 0;  ///< of tensor parallelism
  double bubble_s = 0;      ///< of the pipeline: the stage waits
  double gradients_s = 0;   ///< exposed
  double optimizer_s = 0;
};

/// The closed form of 1F1B: what the stage that ends last does and waits. No schedule that keeps so few activations is
/// faster; the run is slower where stages hold each other up.
StepTimes closed_form(const StepCosts& costs);
/// The same for stages that may be one object: a planner has three kinds, whatever the pipeline's length.
StepTimes closed_form(const Plan& plan, const StageMessages& messages, std::span<const StageCosts* const> stages);

/// What an event run adds.
struct PassRun {
  std::int32_t stage = 0;
  policies::StagePass pass;
  sim::Time start, end;
};
struct MessageRun {
  std::int32_t from = 0, to = 0, micro_batch = 0;
  bool forward = true;
  sim::Time start, end;
};
struct StepRun {
  StepTimes times;
  std::vector<PassRun> passes;
  std::vector<MessageRun> messages;
  std::vector<sim::Time> passes_end, gradients_end, end;  ///< by stage
  std::vector<std::int64_t> peak_kept_bytes;              ///< activations of a stage at their most
  std::vector<std::int64_t> peak_host_bytes;              ///< those in the host's memory likewise
  std::vector<double> busy_s;
  std::uint64_t events = 0;
};

/// Activations that a stage holds from a moment on.
struct KeptBytes {
  sim::Time at;
  std::int64_t bytes = 0;
};
/// Of each stage, every change in order; `of`: the device's or the host's.
std::vector<std::vector<KeptBytes>> kept_over_time(const StepCosts& costs, const std::vector<PassRun>& passes,
                                                   std::int64_t ChunkCosts::*of = &ChunkCosts::kept_bytes);

/// Most passes of stages that a run takes on: beyond, memory and time are no longer those of an answer.
inline constexpr std::int64_t kMostPasses = 4'000'000;
/// Passes of a plan's step, halves of backward passes counted.
constexpr std::int64_t pass_count(const Plan& plan) {
  return 3 * plan.pipeline * plan.micro_batches * plan.chunks;
}

/// Runs the step; the order must be sound (policies::check_order).
StepRun run_step(const StepCosts& costs, const policies::PipelineSchedule& schedule, sim::TickScale scale);

}  // namespace orrery::experiments::training
