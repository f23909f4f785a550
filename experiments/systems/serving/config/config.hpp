// The config of a serving experiment: its sections as parameter structs, and what they become once read.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/built_graphs.hpp"
#include "experiments/base/catalog.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/experiment.hpp"
#include "experiments/base/platform_choice.hpp"
#include "experiments/base/router_source.hpp"
#include "experiments/systems/serving/config/cluster_config.hpp"
#include "experiments/systems/serving/config/expert_memory.hpp"
#include "experiments/systems/serving/config/fabric.hpp"
#include "experiments/systems/serving/config/kv_tiers.hpp"
#include "experiments/systems/serving/pricing/attention_memory.hpp"
#include "experiments/systems/serving/pricing/expert_exchange.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "experiments/systems/serving/pricing/host_weights.hpp"
#include "experiments/systems/serving/pricing/profile_iteration.hpp"
#include "experiments/systems/serving/pricing/rebalance.hpp"
#include "experiments/systems/serving/programs/program.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/number_formats.hpp"
#include "models/transformer/router.hpp"
#include "policies/admission/admission.hpp"
#include "policies/batching/batching.hpp"
#include "policies/expert_placement/expert_placement.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "policies/migration/migration.hpp"
#include "policies/partition/partition.hpp"
#include "policies/power/power.hpp"
#include "policies/routing/routing.hpp"
#include "policies/scaling/scaling.hpp"
#include "policies/speculation/speculation.hpp"
#include "sim/base/params.hpp"
#include "traces/file_trace.hpp"
#include "traces/generator.hpp"

namespace orrery::experiments {

/// Memory that does attention of decodes beside each device of a group.
struct AttentionMemoryParams {
  std::string part;
  sim::Node override_;
  AttentionSchedule schedule = AttentionSchedule::serial;

  static sim::FieldRows<AttentionMemoryParams> fields();
};

struct DeviceGroup {
  std::string part;
  std::int64_t count = 1;
  std::optional<double> clock_hz;
  std::vector<double> clocks_hz;
  std::optional<AttentionMemoryParams> attention;
  sim::Node override_;

  static sim::FieldRows<DeviceGroup> fields();
};

struct MachineParams {
  std::vector<DeviceGroup> devices;
  std::optional<PlatformChoice> platform;
  std::optional<network::NetworkSection> network;
  ProfileParams profile;
  hw::CostModelRegistry::Choice cost;

  static sim::FieldRows<MachineParams> fields();
};

struct ModelParams {
  std::string config;
  hw::DType dtype = hw::DType::fp16;
  std::optional<hw::WeightFormat> weight_format, expert_format;
  std::optional<hw::DType> kv_dtype;
  models::ActivationScales activation_scales = models::ActivationScales::fused;
  models::Sampler sampler = models::Sampler::greedy;
  models::RouterParams router;
  std::optional<models::BuilderRegistry::Choice> builder;
  std::optional<ImportParams> import_;

  static sim::FieldRows<ModelParams> fields();
};

struct PredictorParams {
  double sigma = 0.5;

  static sim::FieldRows<PredictorParams> fields();
};

/// Router choices beside requests.
struct ServedRouter : ReplayedRouter {
  std::int64_t walk = 0;
  static sim::FieldRows<ServedRouter> fields();
};

struct WorkloadParams {
  double rate_scale = 1;
  std::optional<std::int64_t> limit, clients;
  std::int64_t skip = 0;
  double think_time_s = 0;
  std::optional<PredictorParams> predictor;
  std::optional<traces::TraceParams> trace;                 ///< either this
  std::optional<traces::GeneratorParams> generator;         ///< or this
  std::optional<ProgramsParams> program;                    ///< or this
  std::optional<traces::ArrivalRegistry::Choice> arrivals;  ///< with a trace only
  std::optional<ServedRouter> router;

  static sim::FieldRows<WorkloadParams> fields();
};

struct ReplicaParams {
  std::optional<std::int64_t> tensor_parallel;
  std::int64_t expert_parallel = 1;
  double memory_margin = 0.1;
  std::optional<std::int64_t> max_context;
  std::optional<std::int64_t> kv_blocks;
  std::optional<HostWeightsParams> host_weights;
  std::optional<ExpertMemoryParams> expert_memory;
  std::optional<ExpertExchangeParams> expert_exchange;
  bool read_prefix_once = false;
  double iteration_overhead_s = 0;
  double sequence_overhead_s = 0;

  static sim::FieldRows<ReplicaParams> fields();
};

struct SloParams {
  std::optional<double> ttft_s, tbt_s;

  static sim::FieldRows<SloParams> fields();
};

struct TimelineParams {
  bool enabled = true;
  std::int64_t iterations = 20'000;
  std::int64_t operators = 16;
  double operators_begin_s = 0;
  double begin_s = 0;
  std::optional<double> end_s;
  double counter_interval_s = 0;
  std::int64_t limit_bytes = 64 << 20;

  static sim::FieldRows<TimelineParams> fields();
};

struct RunParams {
  std::int64_t seed = 1;
  double tick_s = 1e-12;
  double warmup_s = 0;
  std::optional<double> measure_until_s;
  std::optional<double> until_s;
  std::optional<std::int64_t> until_requests;
  std::int64_t replications = 1;
  double series_interval_s = 1;
  bool leap = true;
  TimelineParams timeline;

  static sim::FieldRows<RunParams> fields();
};

/// Names of policies that do nothing, by which checks tell whether somebody asked for more.
inline constexpr const char* kFixedScaling = "fixed";
inline constexpr const char* kHighestClock = "highest";

struct PoliciesParams {
  policies::BatchingRegistry::Choice batching;
  policies::KvCacheRegistry::Choice kvcache;
  policies::RouterRegistry::Choice routing;
  policies::AdmissionRegistry::Choice admission;
  policies::ScalingRegistry::Choice scaling;
  policies::ClockRegistry::Choice power;
  policies::ScalingRegistry::Choice decode_scaling;
  policies::SpeculationRegistry::Choice speculation;
  policies::RouterRegistry::Choice decode_routing;
  policies::MigrationRegistry::Choice migration;
  policies::PartitionRegistry::Choice partition;
  policies::ExpertPlacementRegistry::Choice placement;
  std::int64_t redundant = 0;
  std::optional<RebalanceParams> rebalance;
  sim::Node passes;  ///< read_passes: an order of several

  static sim::FieldRows<PoliciesParams> fields();
};

/// The sections of a serving config.
struct ServingParams {
  MachineParams machine;
  ModelParams model;
  WorkloadParams workload;
  PoliciesParams policies;
  ClusterParams cluster;
  ReplicaParams replica;
  MigrationParams migration;
  LayoutsParams layouts;
  KvTiersParams kv_tiers;
  HostRegistry::Choice host;
  network::WorkloadParams network_workload;
  SloParams slo;
  RunParams run;

  static constexpr auto fields() {
    using S = ServingParams;
    return sim::FieldTable{
        sim::required(sim::section("machine", &S::machine,
                                   "The hardware: devices, what connects them, and how operators are priced.")),
        sim::required(sim::section("model", &S::model, "The model that is served.")),
        sim::required(sim::section("workload", &S::workload,
                                   "The requests: a trace to replay, a generator, or programs that call the model.")),
        sim::section("policies", &S::policies,
                     "The policies that decide on batching, memory, routing, scaling and the like."),
        sim::section("cluster", &S::cluster, "The replicas: groups of them, transfers, failures and scaling."),
        sim::section("replica", &S::replica, "How the model is laid out on the machine."),
        sim::section("migration", &S::migration, "The link that running requests migrate over (policies.migration)."),
        sim::only_if_given(sim::section("layouts", &S::layouts,
                                        "Parallel layouts that a policy switches a replica between (Seesaw).")),
        sim::only_if_given(
            sim::section("kv_tiers", &S::kv_tiers, "Memory tiers beyond the device that KV is copied to.")),
        sim::choice("host", &S::host, "serial", "CPU work for an iteration, and how much of it the devices wait for."),
        sim::only_if_given(sim::section("network_workload", &S::network_workload,
                                        "Other traffic over machine.network during the run: jobs, flows, traffic and "
                                        "links that change, as in a network config.")),
        sim::section("slo", &S::slo, "Latency targets of a request."),
        sim::section("run", &S::run, "Seed, resolution and length of the run.")};
  }
};

/// A group of machine.devices: the part it stands for, overrides laid over it.
struct DevicePart {
  std::filesystem::path file;
  hw::Device device;
  std::vector<hw::Device> at_clocks;  ///< at each of its `clocks`
  std::filesystem::path attention_file;
  std::optional<hw::AttentionPimParams> attention;  ///< beside each of them
};

/// A validated config: its sections, what they refer to, and the same written out with all defaults.
struct ServingConfig : ServingParams {
  std::string file;                                   ///< the config's, for messages
  SharedRegistries registries;                        ///< that it was read with
  std::vector<DevicePart> parts;                      ///< one a group of machine.devices
  std::optional<LaunchCosts> launch_costs;            ///< of machine.platform, where there is one
  std::vector<std::filesystem::path> platform_files;  ///< its own first
  std::optional<FabricConfig> fabric;                 ///< machine.network and network_workload
  std::filesystem::path model_file;                   ///< what model.config stands for
  std::filesystem::path draft_file;                   ///< of the model that drafts, if there is one
  /// That iterations are priced by, before any pass; null: by the model's kernels.
  std::shared_ptr<const BuiltGraph> graph;
  std::string graph_key;  ///< all that it follows from, where it is the model's; empty: the config names it
  std::vector<ChosenPass> passes;
  std::vector<ReplicaGroup> groups;  ///< of replicas, at least one
  /// Of workload.router, drawn ones too; null: there are none. The first `planned_tokens` are not replayed.
  std::shared_ptr<const traces::RouterTrace> router_choices;
  std::int64_t planned_tokens = 0;
  std::int64_t expert_layers = 0;                   ///< of the model whose choices these are
  ExpertHome expert_home;                           ///< of replica.expert_memory, …
  std::vector<std::filesystem::path> expert_files;  ///< … and the parts that it names
  sim::Node resolved;
};

/// Reads a config document; every fault goes to `faults` and the result is then not to be used.
ServingConfig read_serving_config(const sim::Node& root, const SharedRegistries& registries, sim::Faults& faults);

}  // namespace orrery::experiments
