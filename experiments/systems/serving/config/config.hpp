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
#include "experiments/systems/serving/config/cluster_config.hpp"
#include "experiments/systems/serving/config/fabric.hpp"
#include "experiments/systems/serving/config/kv_tiers.hpp"
#include "experiments/systems/serving/pricing/attention_memory.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "experiments/systems/serving/pricing/profile_iteration.hpp"
#include "experiments/systems/serving/programs/program.hpp"
#include "hw/cost/cost_model.hpp"
#include "models/transformer/router.hpp"
#include "policies/admission/admission.hpp"
#include "policies/batching/batching.hpp"
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

  static constexpr auto fields() {
    using P = AttentionMemoryParams;
    return sim::FieldTable{
        names_part(sim::required(sim::field("part", &P::part, sim::Unit::reference, sim::any_value(),
                                            "A part of kind attention_pim, which keeps the KV cache."))),
        sim::annotated(sim::field("override", &P::override_, "Fields of the part to change."),
                       [](sim::FieldInfo& info, const sim::RegistrySet*) {
                         info.nested = sim::describe_params<hw::AttentionPimParams>();
                       }),
        sim::field("schedule", &P::schedule,
                   "serial: products, then attention; interleaved: two halves of the decodes take turns; fastest: "
                   "whichever is, batch by batch.")};
  }
};

struct DeviceGroup {
  std::string part;
  std::int64_t count = 1;
  std::optional<double> clock_hz;
  std::vector<double> clocks_hz;
  std::optional<AttentionMemoryParams> attention;
  sim::Node override_;

  static constexpr auto fields() {
    return sim::FieldTable{
        names_part(sim::required(sim::field("part", &DeviceGroup::part, sim::Unit::reference, sim::any_value(),
                                            "Part from the catalog (its name, with or without \"catalog:\"), or a "
                                            "JSON file like the catalog's."))),
        sim::field("count", &DeviceGroup::count, sim::Unit::count, sim::between(1, 4096), "How many of them."),
        sim::field("clock", &DeviceGroup::clock_hz, sim::Unit::hertz, sim::positive(),
                   "Run at this clock, with the voltage that goes with it; null: the highest."),
        sim::field("clocks", &DeviceGroup::clocks_hz, sim::Unit::hertz, sim::positive(),
                   "Clocks that policies.power may choose from, the highest first; none: the one above, always."),
        sim::only_if_given(sim::field("attention", &DeviceGroup::attention,
                                      "Memory beside each device that does the attention of decodes.")),
        sim::annotated(
            sim::field("override", &DeviceGroup::override_,
                       "Fields of the part to change, e.g. {\"memory_bandwidth\": \"3 TB/s\"}."),
            [](sim::FieldInfo& info, const sim::RegistrySet*) { info.nested = hw::computing_part_fields(); })};
  }
};

struct MachineParams {
  std::vector<DeviceGroup> devices;
  std::optional<PlatformChoice> platform;
  std::optional<network::NetworkSection> network;
  ProfileParams profile;
  hw::CostModelRegistry::Choice cost;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::field("devices", &MachineParams::devices, "Groups of equal devices, all in one node.")),
        sim::only_if_given(sim::field("platform", &MachineParams::platform,
                                      "What launches on the devices: a CPU coupled to GPUs of their part. `host` then "
                                      "counts launches by its costs.")),
        sim::only_if_given(sim::field("network", &MachineParams::network,
                                      "What connects the devices, each of which is a host; null: each replica has "
                                      "links of its own, as its part has them.")),
        sim::field("profile", &MachineParams::profile, "Measured operator tables in place of the cost model's times."),
        sim::choice("cost", &MachineParams::cost, "by_kind", "Cost model of the devices.")};
  }
};

struct ModelParams {
  std::string config;
  hw::DType dtype = hw::DType::fp16;
  std::optional<hw::WeightFormat> weight_format, expert_format;
  std::optional<hw::DType> kv_dtype;
  models::RouterParams router;
  std::optional<models::BuilderRegistry::Choice> builder;
  std::optional<ImportParams> import_;

  static constexpr auto fields() {
    return sim::joined(
        sim::FieldTable{
            names_model(sim::required(sim::field("config", &ModelParams::config, sim::Unit::reference, sim::any_value(),
                                                 "A Hugging Face config.json, or \"catalog:NAME\"."))),
            sim::field("dtype", &ModelParams::dtype,
                       "Number format of activations; of weights and KV cache too, where they have none of their own."),
            sim::field(
                "weight_dtype", &ModelParams::weight_format,
                "Format of the weights of attention and feed-forward; null: as published (quantization_config)."),
            sim::field("expert_dtype", &ModelParams::expert_format,
                       "Format of the weights of experts; null: weight_dtype, or as published."),
            sim::field("kv_dtype", &ModelParams::kv_dtype, "Format of cached keys and values; null: dtype."),
            sim::field("router", &ModelParams::router, "How tokens choose experts (models with experts).")},
        graph_source_fields<ModelParams>());
  }
};

struct PredictorParams {
  double sigma = 0.5;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("sigma", &PredictorParams::sigma, sim::Unit::none, sim::between(0, 10),
                                      "Deviation of the logarithm of predicted over true length; 0: always right.")};
  }
};

struct WorkloadParams {
  double rate_scale = 1;
  std::optional<std::int64_t> limit, clients;
  double think_time_s = 0;
  std::optional<PredictorParams> predictor;
  std::optional<traces::TraceParams> trace;                 ///< either this
  std::optional<traces::GeneratorParams> generator;         ///< or this
  std::optional<ProgramsParams> program;                    ///< or this
  std::optional<traces::ArrivalRegistry::Choice> arrivals;  ///< with a trace only

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("rate_scale", &WorkloadParams::rate_scale, sim::Unit::ratio, sim::positive(),
                   "Arrival times are divided by this: 2 doubles the request rate."),
        sim::field("limit", &WorkloadParams::limit, sim::Unit::requests, sim::at_least(1),
                   "Use only the first requests (or instances of a program); null: all."),
        sim::field(
            "clients", &WorkloadParams::clients, sim::Unit::count, sim::between(1, 1e7),
            "Closed loop: requests come one after the other from this many clients, whatever their arrivals; null: "
            "at their arrivals."),
        sim::field("think_time", &WorkloadParams::think_time_s, sim::Unit::seconds, sim::between(0, 1e9),
                   "Of a client between an answer and its next request."),
        sim::field("predictor", &WorkloadParams::predictor,
                   "Predicts the length of answers for policies that look at it; null: none, or the trace's."),
        sim::only_if_given(sim::field("trace", &WorkloadParams::trace, "Replay a trace file.")),
        sim::only_if_given(sim::field("generator", &WorkloadParams::generator, "Or draw requests at random.")),
        sim::only_if_given(sim::field("program", &WorkloadParams::program, "Or run programs that call the model.")),
        sim::only_if_given(
            sim::choice("arrivals", &WorkloadParams::arrivals, "poisson",
                        "Arrival times drawn at random in place of the trace's (and for traces that have none)."))};
  }
};

struct ReplicaParams {
  std::optional<std::int64_t> tensor_parallel;
  std::int64_t expert_parallel = 1;
  double memory_margin = 0.1;
  std::optional<std::int64_t> max_context;
  std::optional<std::int64_t> kv_blocks;
  double iteration_overhead_s = 0;
  double sequence_overhead_s = 0;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("tensor_parallel", &ReplicaParams::tensor_parallel, sim::Unit::count, sim::at_least(1),
                   "Devices that share every layer; null: all of the machine's."),
        sim::field("expert_parallel", &ReplicaParams::expert_parallel, sim::Unit::count, sim::at_least(1),
                   "Groups of those devices that share out the experts; 1: every device has a slice of every expert."),
        sim::field("memory_margin", &ReplicaParams::memory_margin, sim::Unit::ratio, sim::between(0, 0.99),
                   "Share of device memory kept from weights and KV cache (activations, workspace, fragmentation)."),
        sim::field("max_context", &ReplicaParams::max_context, sim::Unit::tokens, sim::between(2, 2e9),
                   "Most tokens of a request, prompt and output; null: the model's limit."),
        sim::field("kv_blocks", &ReplicaParams::kv_blocks, sim::Unit::blocks, sim::between(1, 1e9),
                   "Blocks of the KV cache, as your engine reports them; null: what memory has room for."),
        sim::field("iteration_overhead", &ReplicaParams::iteration_overhead_s, sim::Unit::seconds, sim::between(0, 60),
                   "CPU time between two iterations (scheduling, sampling, detokenising) that the devices wait for."),
        sim::field("sequence_overhead", &ReplicaParams::sequence_overhead_s, sim::Unit::seconds, sim::between(0, 1),
                   "The part of it that every sequence in the batch adds.")};
  }
};

struct SloParams {
  std::optional<double> ttft_s, tbt_s;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("ttft", &SloParams::ttft_s, sim::Unit::seconds, sim::positive(),
                                      "Target for the time to first token; null: none."),
                           sim::field("tbt", &SloParams::tbt_s, sim::Unit::seconds, sim::positive(),
                                      "Target for the P99 of a request's times between tokens; null: none.")};
  }
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

  static constexpr auto fields() {
    return sim::joined(
        sim::FieldTable{
            sim::field("enabled", &TimelineParams::enabled, "Whether timeline.pftrace is written."),
            sim::field("iterations", &TimelineParams::iterations, sim::Unit::iterations, sim::at_least(0),
                       "Iterations (from `begin` on) that timeline.pftrace shows; later ones are left out."),
            sim::field("operators", &TimelineParams::operators, sim::Unit::iterations, sim::at_least(0),
                       "Iterations of each replica of which it shows every operator of every layer."),
            sim::field("operators_begin", &TimelineParams::operators_begin_s, sim::Unit::seconds, sim::at_least(0),
                       "They are the first that begin from here on.")},
        timeline_window_fields<TimelineParams>());
  }
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

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("seed", &RunParams::seed, sim::Unit::none, sim::at_least(0), "Seed of all random streams."),
        sim::field("tick", &RunParams::tick_s, sim::Unit::seconds, sim::between(1e-12, 1e-3),
                   "Resolution of time, a whole number of ps; 1 ps reaches 106 days, 1 ns 292 years."),
        sim::field("warmup", &RunParams::warmup_s, sim::Unit::seconds, sim::at_least(0),
                   "Requests that arrive earlier count in totals but not in latencies."),
        sim::field("measure_until", &RunParams::measure_until_s, sim::Unit::seconds, sim::positive(),
                   "Requests that arrive later (the cool-down) likewise; null: none."),
        sim::field("until", &RunParams::until_s, sim::Unit::seconds, sim::positive(),
                   "End of the run; null: when all requests are done."),
        sim::field("until_requests", &RunParams::until_requests, sim::Unit::requests, sim::at_least(1),
                   "End of the run once so many requests are done or rejected; null: no such end."),
        sim::field(
            "replications", &RunParams::replications, sim::Unit::count, sim::between(1, 10'000),
            "Runs with seeds seed, seed + 1, …; the files are of the first, the summary adds means and intervals."),
        sim::field("series_interval", &RunParams::series_interval_s, sim::Unit::seconds, sim::at_least(1e-3),
                   "Spacing of series.csv."),
        sim::field("leap", &RunParams::leap,
                   "Whether iterations that differ in nothing but context are advanced together; off is slower and "
                   "gives the same."),
        sim::field("timeline", &RunParams::timeline, "What timeline.pftrace shows.")};
  }
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
  sim::Node passes;  ///< read_passes: an order of several

  static constexpr auto fields() {
    using P = PoliciesParams;
    return sim::FieldTable{
        sim::choice("batching", &P::batching, "sarathi", "Which sequences advance in an iteration."),
        sim::choice("kvcache", &P::kvcache, "paged", "How the KV cache is handed out."),
        sim::choice("routing", &P::routing, "round_robin", "Which replica a request goes to."),
        sim::choice("admission", &P::admission, "all", "Whether a request may come in."),
        sim::choice("scaling", &P::scaling, kFixedScaling, "How many replicas are up."),
        sim::choice("power", &P::power, kHighestClock, "At which of its clocks a device runs."),
        sim::choice("decode_scaling", &P::decode_scaling, kFixedScaling, "How many replicas of role decode are up."),
        sim::choice("speculation", &P::speculation, "none", "Who proposes tokens for decodes, and how many."),
        sim::choice("decode_routing", &P::decode_routing, "least_loaded",
                    "Which replica of role decode a prefilled request goes to."),
        sim::choice("migration", &P::migration, "none", "Which running requests move to another replica."),
        sim::choice("partition", &P::partition, "even", "Which layers each stage of a pipelined replica has."),
        sim::only_if_given(passes_field(&P::passes))};
  }
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
        sim::required(sim::section("machine", &S::machine, "The hardware.")),
        sim::required(sim::section("model", &S::model, "The model that is served.")),
        sim::required(sim::section("workload", &S::workload, "The requests: a trace to replay or a generator.")),
        sim::section("policies", &S::policies, "Who decides what."),
        sim::section("cluster", &S::cluster, "Which replicas there are."),
        sim::section("replica", &S::replica, "How the model is laid out on the machine."),
        sim::section("migration", &S::migration, "The link that running requests migrate over (policies.migration)."),
        sim::only_if_given(sim::section("layouts", &S::layouts,
                                        "Parallel layouts that a policy switches a replica between (Seesaw).")),
        sim::only_if_given(sim::section("kv_tiers", &S::kv_tiers, "Memories behind a device that KV is copied to.")),
        sim::choice("host", &S::host, "serial", "What the CPU does for an iteration."),
        sim::only_if_given(sim::section("network_workload", &S::network_workload,
                                        "What else goes over machine.network on the same clock: jobs, flows, traffic, "
                                        "and links that change, as in the workload of a network config.")),
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
  sim::Node resolved;
};

/// Reads a config document; every fault goes to `faults` and the result is then not to be used.
ServingConfig read_serving_config(const sim::Node& root, const SharedRegistries& registries, sim::Faults& faults);

}  // namespace orrery::experiments
