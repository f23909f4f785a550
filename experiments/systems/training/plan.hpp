// A plan: how ranks share the work of a training step.
//
// Ranks are numbered as Megatron-LM does: tensor parallelism innermost, then data, the pipeline outermost; so groups of
// tensor parallelism lie in a node as long as they fit one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/base/enum_names.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::training {

/// What is run again in the backward pass in place of kept: nothing; what lies between the products of attention
/// (Korthikanti et al., 2022); everything of a layer but its input.
enum class Recompute : std::uint8_t { none, selective, full };
constexpr auto enum_names(Recompute) {
  using enum Recompute;
  return sim::names<Recompute>({{"none", none}, {"selective", selective}, {"full", full}});
}

/// Which states data-parallel ranks share out (Rajbhandari et al., 2020): none; those of the optimizer; gradients too;
/// weights too.
enum class Zero : std::uint8_t { none, optimizer, gradients, weights };
constexpr auto enum_names(Zero) {
  using enum Zero;
  return sim::names<Zero>({{"none", none}, {"optimizer", optimizer}, {"gradients", gradients}, {"weights", weights}});
}

struct PlanParams {
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  std::optional<std::int64_t> data_parallel;
  std::int64_t micro_batch = 1, interleave = 1;
  bool sequence_parallel = false;
  Zero zero = Zero::none;
  Recompute recompute = Recompute::none;
  std::optional<std::int64_t> recompute_layers;
  bool overlap_gradients = true, gradients_fp32 = false;

  static constexpr auto fields() {
    using sim::Unit;
    using P = PlanParams;
    constexpr sim::Range kRanks = sim::between(1, 1 << 20);
    return sim::FieldTable{
        sim::field("tensor_parallel", &P::tensor_parallel, Unit::count, kRanks, "Ranks that share each layer."),
        sim::field("pipeline_parallel", &P::pipeline_parallel, Unit::count, kRanks, "Stages that share the layers."),
        sim::field("data_parallel", &P::data_parallel, Unit::count, kRanks,
                   "Copies of all this; null: as many as the devices allow."),
        sim::field("micro_batch", &P::micro_batch, Unit::count, sim::between(1, 1 << 20),
                   "Sequences that a copy runs at a time."),
        sim::field("interleave", &P::interleave, Unit::count, sim::between(1, 4096), "Chunks of the model a stage."),
        sim::field("sequence_parallel", &P::sequence_parallel,
                   "Whether ranks of tensor parallelism share tokens between the products of a layer."),
        sim::field("zero", &P::zero, "States that the copies share out in place of each holding all."),
        sim::field("recompute", &P::recompute, "What the backward pass runs again in place of reading it."),
        sim::field("recompute_layers", &P::recompute_layers, Unit::layers, sim::at_least(0),
                   "Layers of a stage that do so, the first ones; null: all."),
        sim::field("overlap_gradients", &P::overlap_gradients,
                   "Whether gradients are summed over the copies while the backward pass goes on."),
        sim::field("gradients_fp32", &P::gradients_fp32,
                   "Whether gradients are kept and summed in fp32; else in the weights' type."),
    };
  }
};

/// A plan for a batch, checked.
struct Plan {
  std::int64_t tensor = 1, pipeline = 1, data = 1;
  std::int64_t micro_batch = 1, micro_batches = 1, chunks = 1;
  bool sequence = false, overlap_gradients = true, gradients_fp32 = false;
  Zero zero = Zero::none;
  Recompute recompute = Recompute::none;
  std::optional<std::int64_t> recompute_layers;
  std::optional<std::int64_t> head_stage;  ///< that has the head; none: the last
  std::int64_t head() const { return head_stage.value_or(pipeline - 1); }
  std::int64_t ranks() const { return tensor * pipeline * data; }
};

/// The plan of `params` on so many devices; `why` says what does not divide, and the plan is then not to be used.
Plan make_plan(const PlanParams& params, std::int64_t devices, std::int64_t global_batch,
               std::optional<std::string>& why);

}  // namespace orrery::experiments::training
