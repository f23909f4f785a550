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
                   "A step with every node at work; 0: as the training step takes that machine, model and plan say."),
        sim::field("nodes", &J::nodes, Unit::count, sim::between(0, 1 << 20), "Of a job without a machine: nodes."),
        sim::field("node_devices", &J::node_devices, Unit::count, sim::between(1, 4096),
                   "Of a job without a machine: devices of a node."),
        sim::field("copies", &J::copies, Unit::count, sim::between(1, 1 << 20),
                   "Of a job without a machine: data-parallel copies of the model."),
        sim::field("stages", &J::stages, Unit::count, sim::between(1, 4096),
                   "Of a job without a machine: equal pipeline stages of a copy."),
        sim::field("micro_batches", &J::micro_batches, Unit::count, sim::between(1, 1 << 20),
                   "Of a job without a machine: micro-batches of a copy in a step."),
        sim::field("state", &J::state_bytes, Unit::bytes, sim::between(0, std::int64_t{1} << 60),
                   "Bytes of a checkpoint; 0: the model's weights and optimizer states, none without a model."),
        sim::field("duration", &J::duration_s, Unit::seconds, sim::between(1, 1e10),
                   "Longest time that is looked at, from the first step on."),
        sim::field("steps", &J::steps, Unit::count, sim::between(0, std::int64_t{1} << 40),
                   "Steps after which the job is done; 0: it runs for the whole duration."),
        sim::field("spares", &J::spares, Unit::count, sim::between(0, 1 << 20), "Nodes that stand by."),
        sim::field("histories", &J::histories, Unit::count, sim::between(0, 10'000),
                   "Histories that are drawn; figures are means over them. 0: one; for `goodput`, as many as give some "
                   "1,000 failures, at most 1,000.")};
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
        sim::required(sim::field("name", &C::name, "What fails.")),
        sim::required(sim::field("per_1000_node_days", &C::per_1000_node_days, Unit::none, sim::between(1e-9, 1e9),
                                 "Failures of it that interrupt the job, per 1,000 days of a node.")),
        sim::field("repair", &C::repair_s, Unit::seconds, sim::between(0, 1e9),
                   "How long its node is away; null: failures.repair.")};
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
                   "Failures of a node that interrupt the job, per 1,000 days, where no components are listed. The "
                   "default is that of Llama 3's pre-training: 419 in 54 days on 2,048 nodes."),
        sim::field("per_job_day", &F::per_job_day, Unit::none, sim::between(0, 1e6),
                   "Failures a day of the job itself, however many nodes it has; they take all processes down."),
        sim::field("components", &F::components, "What fails, how often; none: nodes as a whole."),
        sim::field("repair", &F::repair_s, Unit::seconds, sim::between(0, 1e9),
                   "How long a node that failed is away; 0: another one is there at once."),
        sim::field("trace", &F::trace, Unit::path, sim::any_value(),
                   "CSV of failures in order, in place of drawn ones: time_s, and node, component, repair_s where they "
                   "are known; empty: they are drawn.")};
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
                   "Whether the job stands until a checkpoint is written, or only until it is copied."),
        sim::field("interval", &C::interval_s, Unit::seconds, sim::between(1e-3, 1e9),
                   "Time of training between two checkpoints, in whole steps, at least one."),
        sim::field("storage", &C::storage_bytes_per_s, Unit::bytes_per_s, kRate,
                   "Of the storage, for the whole job, to write and to read; 0: takes no time."),
        sim::field(
            "host", &C::host_bytes_per_s, Unit::bytes_per_s, kRate,
            "Of a node's devices to its host together, for asynchronous and in-memory copies; 0: takes no time."),
        sim::field("write", &C::write_s, Unit::seconds, sim::between(0, 1e9),
                   "What writing takes; null: the state over `storage`."),
        sim::field("pause", &C::pause_s, Unit::seconds, sim::between(0, 1e9),
                   "What a copy to the hosts takes; null: a node's state over `host`."),
        sim::field("in_memory_steps", &C::in_memory_steps, Unit::count, sim::between(0, 1 << 30),
                   "Steps between copies into the memory of a node and its neighbour, which outlive one of the two; 0: "
                   "none.")};
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
        sim::field("detect", &R::detect_s, Unit::seconds, kTime, "From a failure to the begin of recovery."),
        sim::field("restart", &R::restart_s, Unit::seconds, kTime,
                   "Of all processes, to the first step, beside reading the checkpoint over checkpoint.storage."),
        sim::field("swap", &R::swap_s, Unit::seconds, kTime, "What bringing in a spare adds."),
        sim::field("peer", &R::peer_bytes_per_s, Unit::bytes_per_s, sim::between(0, 1e18),
                   "Of a node, to copy state from its peers; 0: takes no time."),
        sim::field("communicator", &R::communicator_s, Unit::seconds, kTime, "Of making communicators anew."),
        sim::field("communicator_rank", &R::communicator_rank_s, Unit::seconds, kTime,
                   "The same for each rank that takes part: all; those of the lost ranks' groups; the lost ranks.")};
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
        sim::field("machine", &S::machine, "Devices, nodes, host; null: job says nodes and step."),
        sim::field("model", &S::model,
                   "The forward graph, of one layer after the other; null: job says what a step takes."),
        sim::section("workload", &S::workload, "Sequences, and how many a step."),
        sim::section("plan", &S::plan, "How ranks share the work."),
        sim::section("policies", &S::policies, "Schedule, partition, passes, recovery."),
        sim::section("job", &S::job, "How long, with how many spares, drawn how often."),
        sim::section("failures", &S::failures, "What fails, how often."),
        sim::section("checkpoint", &S::checkpoint, "How often, and what it takes."),
        sim::section("recovery", &S::recovery, "What recovery takes."),
        sim::section("run", &S::run, "Seed and resolution of the run.")};
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
