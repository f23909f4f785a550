// The config of a launch experiment: platforms, models, batches; and what they become once read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/platform_choice.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/coupling/platform.hpp"
#include "models/eager_model.hpp"
#include "models/transformer/hf_config.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::launch {

struct MachineParams {
  std::vector<PlatformChoice> platforms;
  hw::CostModelRegistry::Choice cost;

  static constexpr auto fields() {
    return sim::FieldTable{sim::required(sim::field("platforms", &MachineParams::platforms,
                                                    "Platforms to run on; the summary compares each with the last.")),
                           sim::choice("cost", &MachineParams::cost, "by_kind", "Cost model of the devices.")};
  }
};

/// Fusion by proximity score (policies/fusion/proximity.hpp).
struct ProximityParams {
  std::vector<std::int64_t> lengths{2, 4, 8, 16, 32, 64, 128, 256};
  double threshold = 1;

  static constexpr auto fields() {
    using sim::Unit;
    using P = ProximityParams;
    return sim::FieldTable{
        sim::field("lengths", &P::lengths, Unit::count, sim::between(2, 1 << 20),
                   "Numbers of kernels in a chain, in rising order; each length is tried by itself."),
        sim::field(
            "threshold", &P::threshold, Unit::ratio, sim::Range{.min = 0, .max = 1, .open_min = true},
            "Lowest proximity score of a chain to be fused; 1: what follows its first kernel is always the same."),
    };
  }
};

struct WorkloadParams {
  std::vector<std::string> models;
  models::EagerAttention attention = models::EagerAttention::eager;
  hw::DType dtype = hw::DType::fp16;
  std::int64_t tokens = 512;
  std::vector<std::int64_t> batches;
  std::int64_t chain = 16;
  ProximityParams proximity;

  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::required(
            sim::field("models", &W::models, Unit::text, sim::any_value(), "Models, entries of models/catalog/eager.")),
        sim::field("attention", &W::attention, "Attention as one kernel (sdpa), or as products and passes (eager)."),
        sim::field("dtype", &W::dtype, "Number format of weights and activations."),
        sim::field("tokens", &W::tokens, Unit::tokens, sim::between(1, 1 << 20), "Tokens of each prompt."),
        sim::required(sim::field("batches", &W::batches, Unit::sequences, sim::between(1, 1 << 20),
                                 "Numbers of prompts in a forward pass, in rising order.")),
        sim::field("chain", &W::chain, Unit::count, sim::between(1, 1 << 20),
                   "Number of kernels that idealised fusion turns into one launch."),
        sim::field("proximity", &W::proximity,
                   "Fusion of kernel chains by proximity: chains whose kernels nearly always follow each other."),
    };
  }
};

struct TimelineParams {
  bool enabled = true;
  std::int64_t batch = 1;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("enabled", &TimelineParams::enabled, "Whether timeline.pftrace is written."),
                           sim::field("batch", &TimelineParams::batch, sim::Unit::sequences, sim::at_least(1),
                                      "Batch that the timeline shows, for the first model; one of workload.batches.")};
  }
};

struct RunParams {
  std::int64_t seed = 1;
  double tick_s = 1e-12;
  TimelineParams timeline;

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{sim::field("seed", &RunParams::seed, Unit::none, sim::at_least(0),
                                      "Not used, as nothing is random; recorded in the manifest."),
                           sim::field("tick", &RunParams::tick_s, Unit::seconds, sim::between(1e-12, 1e-3),
                                      "Resolution of time, a whole number of ps."),
                           sim::field("timeline", &RunParams::timeline, "What timeline.pftrace shows.")};
  }
};

struct NamedModel {
  std::string name;
  models::EagerModel shape;
};

/// The sections of a launch config.
struct LaunchParams {
  MachineParams machine;
  WorkloadParams workload;
  RunParams run;

  static constexpr auto fields() {
    using L = LaunchParams;
    return sim::FieldTable{
        sim::required(sim::section("machine", &L::machine, "The platforms.")),
        sim::required(sim::section("workload", &L::workload, "Forward passes of models for several batch sizes.")),
        sim::section("run", &L::run, "Time resolution, and the timeline.")};
  }
};

/// A config ready to run.
struct LaunchConfig : LaunchParams {
  std::string file;
  std::vector<hw::Platform> platforms;
  std::vector<hw::Device> devices;  ///< the platforms' own, in their order
  std::vector<NamedModel> models;
  std::vector<std::filesystem::path> inputs;
  sim::Node resolved;
};

LaunchConfig read_launch_config(const sim::Node& root, const sim::RegistrySet& registries, sim::Faults& faults);

}  // namespace orrery::experiments::launch
