// The config of a training job: a step, priced by the training system or stated, and the weeks around it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/systems/training/config.hpp"
#include "policies/recovery/recovery.hpp"

namespace orrery::experiments::job {

struct JobParams {
  double step_s = 0, duration_s = 30 * 86400.0;
  std::int64_t nodes = 0, node_devices = 8, copies = 1, stages = 1, micro_batches = 1;
  std::int64_t state_bytes = 0, steps = 0, spares = 0, histories = 0;
  static constexpr auto fields() {
    using sim::Unit;
    using J = JobParams;
    return sim::FieldTable{
        sim::field("step", &J::step_s, Unit::seconds, sim::between(0, 1e7),
                   "Time of a step with every node at work; 0: as simulated from machine, model and plan."),
        sim::field("nodes", &J::nodes, Unit::count, sim::between(0, 1 << 20),
                   "For a job without a machine: number of nodes."),
        sim::field("node_devices", &J::node_devices, Unit::count, sim::between(1, 4096),
                   "For a job without a machine: devices per node."),
        sim::field("copies", &J::copies, Unit::count, sim::between(1, 1 << 20),
                   "For a job without a machine: data-parallel copies of the model."),
        sim::field("stages", &J::stages, Unit::count, sim::between(1, 4096),
                   "For a job without a machine: equal pipeline stages of a copy."),
        sim::field("micro_batches", &J::micro_batches, Unit::count, sim::between(1, 1 << 20),
                   "For a job without a machine: micro-batches of a copy per step."),
        sim::field(
            "state", &J::state_bytes, Unit::bytes, sim::between(0, std::int64_t{1} << 60),
            "Bytes of a checkpoint; 0: those of the model's weights and optimizer states, or none without a model."),
        sim::field("duration", &J::duration_s, Unit::seconds, sim::between(1, 1e10),
                   "Longest time to simulate, from the first step on."),
        sim::field("steps", &J::steps, Unit::count, sim::between(0, std::int64_t{1} << 40),
                   "Steps after which the job is done; 0: it runs for the whole duration."),
        sim::field("spares", &J::spares, Unit::count, sim::between(0, 1 << 20), "Number of spare nodes."),
        sim::field("histories", &J::histories, Unit::count, sim::between(0, 10'000),
                   "Number of random failure histories; figures are means over them. 0: one, or for `goodput` as many "
                   "as give about 1,000 failures, at most 1,000.")};
  }
};

struct ComponentParams {
  std::string name;
  double per_1000_node_days = 0;
  std::optional<double> repair_s;
  static constexpr auto fields() {
    using sim::Unit;
    using C = ComponentParams;
    return sim::FieldTable{
        sim::required(sim::field("name", &C::name, "Name of the component that fails.")),
        sim::required(sim::field("per_1000_node_days", &C::per_1000_node_days, Unit::none, sim::between(1e-9, 1e9),
                                 "Failures of the component that interrupt the job, per node and 1,000 days.")),
        sim::field("repair", &C::repair_s, Unit::seconds, sim::between(0, 1e9),
                   "How long the node is down after such a failure; null: failures.repair.")};
  }
};

struct FailuresParams {
  double per_1000_node_days = 3.79, per_job_day = 0, repair_s = 0;
  std::vector<ComponentParams> components;
  std::string trace;
  static constexpr auto fields() {
    using sim::Unit;
    using F = FailuresParams;
    return sim::FieldTable{
        sim::field("per_1000_node_days", &F::per_1000_node_days, Unit::none, sim::between(1e-9, 1e9),
                   "Failures that interrupt the job, per node and 1,000 days, if no components are listed. The default "
                   "is that of Llama 3's pre-training: 419 in 54 days on 2,048 nodes."),
        sim::field("per_job_day", &F::per_job_day, Unit::none, sim::between(0, 1e6),
                   "Failures of the job itself per day, for any number of nodes; they stop all processes."),
        sim::field("components", &F::components, "Components that fail, each with its rate; empty: nodes as a whole."),
        sim::field("repair", &F::repair_s, Unit::seconds, sim::between(0, 1e9),
                   "How long a failed node is down; 0: another one is available at once."),
        sim::field("trace", &F::trace, Unit::path, sim::any_value(),
                   "CSV file of failures in order, in place of drawn ones: time_s, and node, component, repair_s where "
                   "known; empty: failures are drawn.")};
  }
};

/// synchronous: all ranks stand until the checkpoint is written. asynchronous: they stand for the copy to the hosts'
/// memory, and a checkpoint counts when it is written.
enum class CheckpointKind : std::uint8_t { synchronous, asynchronous };
constexpr auto enum_names(CheckpointKind) {
  using enum CheckpointKind;
  return sim::names<CheckpointKind>({{"synchronous", synchronous}, {"asynchronous", asynchronous}});
}

struct CheckpointParams {
  CheckpointKind kind = CheckpointKind::synchronous;
  double interval_s = 3600, storage_bytes_per_s = 0, host_bytes_per_s = 0;
  std::optional<double> write_s, pause_s;
  std::int64_t in_memory_steps = 0;
  static constexpr auto fields() {
    using sim::Unit;
    using C = CheckpointParams;
    constexpr sim::Range kRate = sim::between(0, 1e18);
    return sim::FieldTable{
        sim::field("kind", &C::kind,
                   "Whether the job waits until a checkpoint is written, or only until it is copied to host memory."),
        sim::field("interval", &C::interval_s, Unit::seconds, sim::between(1e-3, 1e9),
                   "Training time between two checkpoints, rounded to whole steps, at least one."),
        sim::field("storage", &C::storage_bytes_per_s, Unit::bytes_per_s, kRate,
                   "Bandwidth of the storage for the whole job, to write and to read; 0: takes no time."),
        sim::field("host", &C::host_bytes_per_s, Unit::bytes_per_s, kRate,
                   "Bandwidth from all devices of a node to its host, for asynchronous and in-memory copies; 0: takes "
                   "no time."),
        sim::field("write", &C::write_s, Unit::seconds, sim::between(0, 1e9),
                   "Time to write a checkpoint; null: its bytes over `storage`."),
        sim::field("pause", &C::pause_s, Unit::seconds, sim::between(0, 1e9),
                   "Time to copy the state to the hosts; null: the bytes of a node over `host`."),
        sim::field("in_memory_steps", &C::in_memory_steps, Unit::count, sim::between(0, 1 << 30),
                   "Steps between copies into the memory of a node and its neighbour, which survive if one of the two "
                   "fails; 0: no such copies.")};
  }
};

struct RecoveryParams {
  double detect_s = 0, restart_s = 300, swap_s = 0, peer_bytes_per_s = 0;
  double communicator_s = 0, communicator_rank_s = 0;
  static constexpr auto fields() {
    using sim::Unit;
    using R = RecoveryParams;
    constexpr sim::Range kTime = sim::between(0, 1e9);
    return sim::FieldTable{
        sim::field("detect", &R::detect_s, Unit::seconds, kTime, "Time from a failure to the start of recovery."),
        sim::field("restart", &R::restart_s, Unit::seconds, kTime,
                   "Time to restart all processes up to the first step, without reading the checkpoint over "
                   "checkpoint.storage."),
        sim::field("swap", &R::swap_s, Unit::seconds, kTime, "Time that bringing in a spare node adds."),
        sim::field("peer", &R::peer_bytes_per_s, Unit::bytes_per_s, sim::between(0, 1e18),
                   "Bandwidth at which a node copies state from its peers; 0: takes no time."),
        sim::field("communicator", &R::communicator_s, Unit::seconds, kTime, "Fixed time to rebuild communicators."),
        sim::field("communicator_rank", &R::communicator_rank_s, Unit::seconds, kTime,
                   "Time per rank that takes part in rebuilding communicators: all ranks, those of the lost ranks' "
                   "groups, or the lost ranks.")};
  }
};

struct JobPoliciesParams : training::PoliciesParams {
  policies::RecoveryRegistry::Choice recovery;
  static constexpr auto fields() {
    return sim::joined(sim::inherited<JobPoliciesParams>(training::PoliciesParams::fields()),
                       sim::FieldTable{sim::choice("recovery", &JobPoliciesParams::recovery, "restart",
                                                   "What the job does when it loses nodes.")});
  }
};

/// The sections of a job; `Policies` are a job's, or those of a system that is built on one.
template <class Policies>
struct JobSectionsWith {
  std::optional<training::MachineParams> machine;
  std::optional<training::ModelParams> model;
  training::WorkloadParams workload;
  training::PlanParams plan;
  Policies policies;
  JobParams job;
  FailuresParams failures;
  CheckpointParams checkpoint;
  RecoveryParams recovery;
  PlainRunParams run;
  static constexpr auto fields() {
    using S = JobSectionsWith;
    return sim::FieldTable{
        sim::field("machine", &S::machine, "Devices, nodes and host; null: `job` gives nodes and step time."),
        sim::field("model", &S::model,
                   "The model as a forward graph of one layer after the other; null: `job` gives the step time."),
        sim::section("workload", &S::workload, "Sequences, and how many are in a step."),
        sim::section("plan", &S::plan, "The parallel plan: how ranks share the work."),
        sim::section("policies", &S::policies, "Pipeline schedule, partition of layers, graph passes, recovery."),
        sim::section("job", &S::job, "Length of the job, spare nodes, number of histories."),
        sim::section("failures", &S::failures, "What fails, and how often."),
        sim::section("checkpoint", &S::checkpoint, "How often checkpoints are taken, and what they cost."),
        sim::section("recovery", &S::recovery, "Times that recovery takes."),
        sim::section("run", &S::run, "Seed and time resolution of the run.")};
  }
};

using JobSections = JobSectionsWith<JobPoliciesParams>;

/// A failure of a trace.
struct TracedFailure {
  double time_s = 0;
  std::int64_t node = -1;       ///< that failed; -1: drawn
  std::int64_t component = -1;  ///< of Failures::names; -1: none
  std::optional<double> repair_s;
};

/// What fails, as read.
struct Failures {
  std::vector<std::string> names;  ///< of components
  std::vector<double> per_node_s;  ///< rate of each, 1/s
  std::vector<double> repair_s;    ///< of each
  double per_job_s = 0;            ///< 1/s
  bool traced = false;
  std::vector<TracedFailure> trace;
  double per_node() const;  ///< of all components, 1/s
};

/// A validated config.
struct JobConfig {
  std::string file;
  JobSections params;
  std::optional<training::TrainingConfig> training;  ///< none: the step is stated
  Failures failures;
  std::vector<std::filesystem::path> inputs;
  std::vector<std::string> notes;
  sim::Node resolved;
};

/// Reads the sections of JobSections; `system` names the one that reads, for the resolved config.
JobConfig read_job_config(const sim::Node& root, std::string_view system, const sim::RegistrySet& registries,
                          sim::Faults& faults);

}  // namespace orrery::experiments::job
