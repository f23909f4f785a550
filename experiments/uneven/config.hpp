// The config of `uneven_batches`: costs, stated or priced on a machine of training; lengths; how sequences share
// devices.
#pragma once

#include <optional>
#include <vector>

#include "experiments/systems/training/config.hpp"
#include "policies/sequence_groups/sequence_groups.hpp"
#include "traces/generator.hpp"

namespace orrery::experiments::uneven {

/// Constants that somebody has profiled (FlexSP's solver has these).
struct StatedCostParams {
  std::int64_t devices = 64, memory_bytes = std::int64_t{30} << 30;
  std::vector<double> exchange;
  double parameters = 0, token_bytes = 0, square_s = 0, linear_s = 0, fixed_s = 0, state_bytes = 16;
  std::int64_t layers = 1, hidden = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using C = StatedCostParams;
    constexpr sim::Range kTime = sim::between(0, 1e3);
    return sim::FieldTable{
        sim::field("devices", &C::devices, Unit::count, sim::between(1, 1 << 16), "Number of devices, a power of two."),
        sim::field("memory", &C::memory_bytes, Unit::bytes, sim::between(1, std::int64_t{1} << 50),
                   "Memory of a device for model states and activations."),
        sim::required(sim::field("exchange", &C::exchange, Unit::bytes_per_s, sim::between(1, 1e18),
                                 "All-to-all bandwidth per device in groups of 2, 4, 8 … devices, up to all of them.")),
        sim::required(
            sim::field("parameters", &C::parameters, Unit::none, sim::between(1, 1e15), "Parameters of the model.")),
        sim::required(sim::field("layers", &C::layers, Unit::count, sim::between(1, 1 << 16), "Layers of the model.")),
        sim::required(sim::field("hidden", &C::hidden, Unit::count, sim::between(1, 1 << 24), "Width of the model.")),
        sim::required(sim::field("token_bytes", &C::token_bytes, Unit::bytes, sim::between(1, 1e12),
                                 "Bytes of activations per token.")),
        sim::field(
            "state_bytes", &C::state_bytes, Unit::bytes, sim::between(0, 1e3),
            "Bytes per parameter for weights, gradients and optimizer, which are divided among all devices (ZeRO-3)."),
        sim::field("square", &C::square_s, Unit::seconds, kTime, "Time per token times token (attention)."),
        sim::required(sim::field("linear", &C::linear_s, Unit::seconds, kTime, "Time per token.")),
        sim::field("fixed", &C::fixed_s, Unit::seconds, kTime,
                   "Fixed time per micro-batch: gathers and reductions of parameters.")};
  }
};

/// What is free in a plan whose groups are sequence parallelism and whose devices share out weights, gradients and
/// states (ZeRO-3).
struct PlanParams {
  training::ContextExchange exchange = training::ContextExchange::all_to_all;
  training::Recompute recompute = training::Recompute::none;
  bool gradients_fp32 = false, overlap = true;
  static constexpr auto fields() {
    using P = PlanParams;
    return sim::FieldTable{
        sim::field("context_exchange", &P::exchange,
                   "How ranks of a group bring keys and values to all queries: all_to_all or all_gather."),
        sim::field("recompute", &P::recompute, "What the backward pass recomputes in place of reading it from memory."),
        sim::field("gradients_fp32", &P::gradients_fp32,
                   "Whether gradients are kept and reduced in fp32; if not, in the number format of the weights."),
        sim::field(
            "overlap", &P::overlap,
            "Whether weight gathers and gradient reduction overlap with kernels; if not, kernels wait for them.")};
  }
};

/// What becomes of a sequence beyond the longest that is trained on.
enum class BeyondLongest : std::uint8_t { redraw, cut, chunk };
constexpr auto enum_names(BeyondLongest) {
  using enum BeyondLongest;
  return sim::names<BeyondLongest>({{"redraw", redraw}, {"cut", cut}, {"chunk", chunk}});
}

struct WorkloadParams {
  traces::LengthRegistry::Choice lengths;
  BeyondLongest beyond = BeyondLongest::redraw;
  std::int64_t longest = 1 << 17, batch = 512, batches = 40;
  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::choice("lengths", &W::lengths, "log_normal",
                    "Distribution of sequence lengths: its draws for prompts are used."),
        sim::field("longest", &W::longest, Unit::tokens, sim::between(1, 1 << 30),
                   "Longest sequence that is trained on."),
        sim::field(
            "beyond", &W::beyond,
            "What becomes of longer ones. `redraw`: another is drawn. `cut`: what is beyond is left out. `chunk`: "
            "they are cut into sequences of this length and a rest, each of which counts in the batch."),
        sim::field("batch", &W::batch, Unit::count, sim::between(1, 1 << 16), "Sequences in a batch."),
        sim::field("batches", &W::batches, Unit::count, sim::between(1, 1 << 16), "Number of batches drawn.")};
  }
};

struct PoliciesParams {
  policies::SequenceGroupingRegistry::Choice groups;
  sim::Node passes;
  static constexpr auto fields() {
    return sim::FieldTable{sim::choice("groups", &PoliciesParams::groups, "flexsp",
                                       "How the sequences of a batch are divided among devices."),
                           passes_field(&PoliciesParams::passes)};
  }
};

struct Sections {
  std::optional<StatedCostParams> costs;
  std::optional<training::MachineParams> machine;
  std::optional<training::ModelParams> model;
  PlanParams plan;
  WorkloadParams workload;
  PoliciesParams policies;
  PlainRunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{
        sim::field("costs", &S::costs, "Profiled costs of sequences; null: they are priced from machine and model."),
        sim::field("machine", &S::machine, "Devices, nodes and host; null: costs are stated."),
        sim::field("model", &S::model,
                   "The model as a forward graph of one layer after the other; null: costs are stated."),
        sim::section("plan", &S::plan, "Further choices of the plan beside the groups, used if costs are priced."),
        sim::section("workload", &S::workload, "Sequence lengths and batches."),
        sim::section("policies", &S::policies, "How sequences are divided among devices."),
        sim::section("run", &S::run, "Seed of the run.")};
  }
};

/// A validated config.
struct UnevenConfig {
  std::string file;
  Sections params;
  std::optional<training::TrainingConfig> training;  ///< none: costs are stated
  std::int64_t devices = 1;
  sim::Node resolved;
};

UnevenConfig read_uneven_config(const sim::Node& root, const sim::RegistrySet& registries, sim::Faults& faults);

}  // namespace orrery::experiments::uneven
