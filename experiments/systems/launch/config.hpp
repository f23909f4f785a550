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
                                                    "What is compared; the summary compares each with the last.")),
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
                   "Kernels in a chain; each length is tried by itself; in rising order."),
        sim::field("threshold", &P::threshold, Unit::ratio, sim::Range{.min = 0, .max = 1, .open_min = true},
                   "Least proximity score of a chain that is fused; 1: its first kernel is never followed otherwise."),
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
            sim::field("models", &W::models, Unit::text, sim::any_value(), "Entries of models/catalog/eager.")),
        sim::field("attention", &W::attention, "One kernel (sdpa) or products and passes (eager)."),
        sim::field("dtype", &W::dtype, "Of weights and activations."),
        sim::field("tokens", &W::tokens, Unit::tokens, sim::between(1, 1 << 20), "Of each prompt."),
        sim::required(sim::field("batches", &W::batches, Unit::sequences, sim::between(1, 1 << 20),
                                 "Prompts in a forward pass; in rising order.")),
        sim::field("chain", &W::chain, Unit::count, sim::between(1, 1 << 20),
                   "Kernels that idealised fusion makes one launch."),
        sim::field("proximity", &W::proximity, "Chains that always follow each other, fused."),
    };
  }
};

struct TimelineParams {
  bool enabled = true;
  std::int64_t batch = 1;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("enabled", &TimelineParams::enabled, "Whether timeline.pftrace is written."),
                           sim::field("batch", &TimelineParams::batch, sim::Unit::sequences, sim::at_least(1),
                                      "The batch that it shows, of the first model; one of workload.batches.")};
  }
};

struct RunParams {
  std::int64_t seed = 1;
  double tick_s = 1e-12;
  TimelineParams timeline;

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("seed", &RunParams::seed, Unit::none, sim::at_least(0), "Nothing is random: for the manifest."),
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
        sim::required(sim::section("workload", &L::workload, "Forward passes of models over batches.")),
        sim::section("run", &L::run, "Resolution of time, timeline.")};
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
