// A plan: how ranks share the work of a training step.
//
// Ranks are numbered as Megatron-LM does: tensor parallelism innermost, then context, then data, the pipeline
// outermost; so groups of tensor parallelism lie in a node as long as they fit one. Experts are shared out over ranks
// of a stage that follow one another, across all three.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::training {

/// What is run again in the backward pass in place of kept: nothing; what lies between the products of attention
/// (Korthikanti et al., 2022); everything but attention in one kernel, every other product with a weight and sums over
/// ranks (torchtitan's selection by op); everything of a layer but its input.
enum class Recompute : std::uint8_t { none, selective, by_op, full };
constexpr auto enum_names(Recompute) {
  using enum Recompute;
  return sim::names<Recompute>({{"none", none}, {"selective", selective}, {"by_op", by_op}, {"full", full}});
}

/// Which states data-parallel ranks share out (Rajbhandari et al., 2020): none; those of the optimizer; gradients too;
/// weights too.
enum class Zero : std::uint8_t { none, optimizer, gradients, weights };
constexpr auto enum_names(Zero) {
  using enum Zero;
  return sim::names<Zero>({{"none", none}, {"optimizer", optimizer}, {"gradients", gradients}, {"weights", weights}});
}

/// How ranks that share a sequence's tokens bring keys and values to all queries: passed round a ring beside the
/// attention of the block before (Liu et al., 2023), gathered before it (Llama 3, 2024), or exchanged for heads
/// (Jacobs et al., 2023).
enum class ContextExchange : std::uint8_t { ring, all_gather, all_to_all };
constexpr auto enum_names(ContextExchange) {
  using enum ContextExchange;
  return sim::names<ContextExchange>({{"ring", ring}, {"all_gather", all_gather}, {"all_to_all", all_to_all}});
}

/// How rows reach the ranks of their experts: each by itself, or a token once to each rank and node that wants it
/// (DeepEP, DeepSeek-AI 2025).
enum class ExpertDispatch : std::uint8_t { rows, tokens };
constexpr auto enum_names(ExpertDispatch) {
  using enum ExpertDispatch;
  return sim::names<ExpertDispatch>({{"rows", rows}, {"tokens", tokens}});
}

/// What a plan is to be best at.
enum class PlanRank : std::uint8_t { time, memory, energy, cost };
constexpr auto enum_names(PlanRank) {
  using enum PlanRank;
  return sim::names<PlanRank>({{"time", time}, {"memory", memory}, {"energy", energy}, {"cost", cost}});
}

/// What becomes of gradients: a part of every plan, searched over by none.
struct GradientParams {
  bool overlap_gradients = true, overlap_gathers = false, gradients_fp32 = false, gradient_buckets = false;
  bool update_apart = false, gradients_anew = false;

  static constexpr auto fields() {
    using G = GradientParams;
    return sim::FieldTable{
        sim::field("overlap_gradients", &G::overlap_gradients,
                   "Whether gradient reduction over data-parallel copies overlaps with the backward pass."),
        sim::field("overlap_gathers", &G::overlap_gathers,
                   "Whether the weight all-gather of ZeRO after a step overlaps with the first forward pass of the "
                   "next step."),
        sim::field("gradients_fp32", &G::gradients_fp32,
                   "Whether gradients are kept and reduced in fp32; if not, in the number format of the weights."),
        sim::field("gradient_buckets", &G::gradient_buckets,
                   "Whether gradients are copied into buckets for reduction, and the buckets are kept (default of "
                   "PyTorch's DDP)."),
        sim::field("update_apart", &G::update_apart,
                   "Whether the optimizer keeps fp32 copies of 16-bit weights. Separate kernels then cast gradients to "
                   "fp32 before its update and weights back after it."),
        sim::field("gradients_anew", &G::gradients_anew,
                   "Whether gradients are allocated during the backward pass and freed after the step, as in PyTorch "
                   "(set_to_none); if not, they keep their memory.")};
  }
};

/// Shares of what a stage's rank has that lie in its host's memory.
struct HostShares {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  bool any() const { return weights > 0 || gradients > 0 || optimizer > 0 || activations > 0; }
  friend bool operator==(const HostShares&, const HostShares&) = default;
};

/// What of a plan lies in the host's memory: shares by stage, or one for all; empty: 0.
struct OffloadParams {
  std::vector<double> offload_weights, offload_gradients, offload_optimizer, offload_activations;

  HostShares host_shares(std::int64_t s) const {
    const auto of = [s](const std::vector<double>& shares) {
      return shares.empty() ? 0.0 : shares[std::min(static_cast<std::size_t>(s), shares.size() - 1)];
    };
    return {of(offload_weights), of(offload_gradients), of(offload_optimizer), of(offload_activations)};
  }
  /// Sets the shares of all stages, `shares` in their order.
  void set_host_shares(const std::vector<HostShares>& shares);
  /// A field that has shares by stage; none: there is none.
  const char* listed() const;
  bool by_stage() const { return listed() != nullptr; }

  static constexpr auto fields() {
    using sim::Unit;
    using O = OffloadParams;
    return sim::FieldTable{
        sim::field("offload_weights", &O::offload_weights, Unit::ratio, sim::between(0, 1),
                   "Share of a rank's weights that is kept in host memory and comes over machine.host_link for each "
                   "pass: one value per stage, or one for all. Empty: 0."),
        sim::field("offload_gradients", &O::offload_gradients, Unit::ratio, sim::between(0, 1),
                   "Share of a rank's gradients that is kept in host memory: their sums come over machine.host_link "
                   "for each backward pass and return. One value per stage, or one for all. Empty: 0."),
        sim::field("offload_optimizer", &O::offload_optimizer, Unit::ratio, sim::between(0, 1),
                   "Share of the optimizer states that is kept in host memory and crosses machine.host_link in "
                   "each step: one value per stage, or one for all. Empty: 0."),
        sim::field("offload_activations", &O::offload_activations, Unit::ratio, sim::between(0, 1),
                   "Share of layer activations that is copied to host memory over machine.host_link during the "
                   "forward pass, and back during the backward pass: one value per stage, or one for all. Empty: 0.")};
  }
};

/// The four of them, as fields and texts name them.
struct OffloadField {
  char letter = 'a';
  const char* name = "";
  std::vector<double> OffloadParams::*of = nullptr;
};
constexpr OffloadField kOffloadFields[] = {{'a', "offload_activations", &OffloadParams::offload_activations},
                                           {'o', "offload_optimizer", &OffloadParams::offload_optimizer},
                                           {'g', "offload_gradients", &OffloadParams::offload_gradients},
                                           {'w', "offload_weights", &OffloadParams::offload_weights}};
/// Whether any share is above 0.
inline bool any_share(const std::vector<double>& shares) {
  return std::ranges::any_of(shares, [](double share) { return share > 0; });
}

struct PlanParams : GradientParams, OffloadParams {
  std::int64_t tensor_parallel = 1, context_parallel = 1, pipeline_parallel = 1, expert_parallel = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  ExpertDispatch expert_dispatch = ExpertDispatch::rows;
  std::int64_t expert_nodes = 0;
  bool context_balanced = true, overlap_experts = false;
  std::optional<std::int64_t> data_parallel;
  std::int64_t micro_batch = 1, interleave = 1;
  bool sequence_parallel = false, async_tensor_parallel = false;
  Zero zero = Zero::none;
  Recompute recompute = Recompute::none;
  std::optional<std::int64_t> recompute_layers;
  std::vector<std::int64_t> stage_recompute_layers, stage_tensor_parallel;
  std::optional<PlanRank> best_by;

  static constexpr auto fields() {
    using sim::Unit;
    using P = PlanParams;
    constexpr sim::Range kRanks = sim::between(1, 1 << 14), kCopies = sim::between(1, 1 << 20);  // products fit 63 bits
    return sim::joined(
        sim::FieldTable{
            sim::field("tensor_parallel", &P::tensor_parallel, Unit::count, kRanks,
                       "Ranks that split each layer (tensor parallelism)."),
            sim::field("stage_tensor_parallel", &P::stage_tensor_parallel, Unit::count, kRanks,
                       "Tensor parallelism of each stage, from the first stage on; empty: tensor_parallel for all."),
            sim::field("context_parallel", &P::context_parallel, Unit::count, kRanks,
                       "Ranks that divide the tokens of each sequence, attention included (context parallelism)."),
            sim::field("context_exchange", &P::context_exchange,
                       "How context-parallel ranks bring keys and values to all queries."),
            sim::field("context_balanced", &P::context_balanced,
                       "Whether a rank holds a piece from both ends of the sequence, which balances causal attention. "
                       "If not, pieces are consecutive, and all wait for the last."),
            sim::field("expert_parallel", &P::expert_parallel, Unit::count, kRanks,
                       "Ranks of a stage that divide the experts of each layer, each expert whole on one rank."),
            sim::field("expert_dispatch", &P::expert_dispatch,
                       "How rows reach the ranks of their experts. `rows`: each by itself. `tokens`: a token once to "
                       "each rank and node that needs it."),
            sim::field("expert_nodes", &P::expert_nodes, Unit::count, sim::between(0, 1 << 20),
                       "With expert_dispatch `tokens`: most nodes that the experts of a token may lie on (DeepSeek-V3: "
                       "4); 0: any number."),
            sim::field("overlap_experts", &P::overlap_experts,
                       "Whether the exchange of expert rows overlaps with kernels of another micro-batch "
                       "(Megatron-LM's overlap_moe_expert_parallel_comm, DualPipe)."),
            sim::field("pipeline_parallel", &P::pipeline_parallel, Unit::count, kRanks,
                       "Pipeline stages that divide the layers."),
            sim::field("data_parallel", &P::data_parallel, Unit::count, kCopies,
                       "Data-parallel copies of the model; null: as many as the devices allow."),
            sim::field("micro_batch", &P::micro_batch, Unit::count, sim::between(1, 1 << 20),
                       "Sequences of a micro-batch in each data-parallel copy."),
            sim::field("interleave", &P::interleave, Unit::count, sim::between(1, 4096),
                       "Chunks of the model per stage (interleaved schedules)."),
            sim::field("sequence_parallel", &P::sequence_parallel,
                       "Whether tensor-parallel ranks divide the tokens between the products of a layer (sequence "
                       "parallelism)."),
            sim::field("async_tensor_parallel", &P::async_tensor_parallel,
                       "Whether gathers and scatters of sequence parallelism overlap, piece by piece, with the "
                       "products that read or make their data."),
            sim::field("zero", &P::zero,
                       "States that data-parallel copies divide among them (ZeRO) in place of each holding all."),
            sim::field("recompute", &P::recompute,
                       "What the backward pass recomputes in place of reading it from memory."),
            sim::field("recompute_layers", &P::recompute_layers, Unit::layers, sim::at_least(0),
                       "Layers of a stage with recomputation, the first ones; null: all."),
            sim::field(
                "stage_recompute_layers", &P::stage_recompute_layers, Unit::layers, sim::between(0, 4096),
                "Layers with recomputation in each stage, from the first stage on; empty: recompute_layers for all."),
            sim::field("best_by", &P::best_by,
                       "Use the best plan, by this measure, of those that `orrery plans` considers, in place of the "
                       "searched fields here. null: the plan as written.")},
        sim::inherited<P>(OffloadParams::fields()), sim::inherited<P>(GradientParams::fields()));
  }
};

/// How ranks share a layer: what decides the kernels of one and its collectives.
struct LayerShare {
  std::int64_t tensor = 1, context = 1, experts = 1, micro_batch = 1;
  bool sequence = false, async_tensor = false, balanced = true;
  ContextExchange exchange = ContextExchange::ring;
  ExpertDispatch dispatch = ExpertDispatch::rows;
  std::int64_t expert_nodes = 0;  ///< that a token's experts lie on; 0: any
  std::int64_t step_casts = 0;    ///< kernels of their own in an optimizer's step (models::AutodiffOptions)
  friend auto operator<=>(const LayerShare&, const LayerShare&) = default;
};

/// A plan for a batch, checked.
struct Plan : GradientParams, OffloadParams {
  std::int64_t tensor = 1, context = 1, pipeline = 1, data = 1, experts = 1;
  std::int64_t micro_batch = 1, micro_batches = 1, chunks = 1;
  bool sequence = false, async_tensor = false, balanced = true, overlap_experts = false;
  ContextExchange exchange = ContextExchange::ring;
  ExpertDispatch dispatch = ExpertDispatch::rows;
  std::int64_t expert_nodes = 0;
  Zero zero = Zero::none;
  Recompute recompute = Recompute::none;
  std::optional<std::int64_t> recompute_layers;
  std::vector<std::int64_t> stage_recompute_layers;  ///< by stage; empty: recompute_layers
  std::vector<std::int64_t> stage_tensor;            ///< by stage; empty: tensor
  std::optional<std::int64_t> head_stage;            ///< that has the head; none: the last
  std::int64_t head() const { return head_stage.value_or(pipeline - 1); }
  /// Of all stages.
  std::int64_t ranks() const {
    if (stage_tensor.empty()) return stage_ranks() * pipeline;
    std::int64_t sum = 0;
    for (const std::int64_t tensors : stage_tensor) sum += tensors * copies();
    return sum;
  }
  /// As stage `s` has it.
  Plan of_stage(std::int64_t s) const {
    Plan own = *this;
    if (!stage_tensor.empty()) own.tensor = stage_tensor[static_cast<std::size_t>(s)];
    return own;
  }
  std::int64_t stage_ranks() const { return tensor * context * data; }
  /// Ranks that hold the same weights: gradients are summed over them, ZeRO shares states out over them.
  std::int64_t copies() const { return context * data; }
  /// The same of an expert's weights.
  std::int64_t expert_copies() const { return stage_ranks() / experts; }
  /// Layers of stage `s` that run again, of `layers`.
  std::int64_t again(std::int64_t s, std::int64_t layers) const {
    if (recompute == Recompute::none) return 0;
    const auto own = static_cast<std::size_t>(s);
    if (own < stage_recompute_layers.size()) return std::min(layers, stage_recompute_layers[own]);
    return std::min(layers, recompute_layers.value_or(layers));
  }
  LayerShare share() const {
    return {tensor,
            context,
            experts,
            micro_batch,
            sequence,
            async_tensor,
            balanced,
            exchange,
            dispatch,
            expert_nodes,
            update_apart ? (gradients_fp32 ? 1 : 2) : 0};
  }
};

/// Layers of stage `s` where they are divided evenly.
constexpr std::int64_t even_layers(std::int64_t layers, std::int64_t stages, std::int64_t s) {
  return layers * (s + 1) / stages - layers * s / stages;
}

/// The plan of `params` on so many devices; `why` says what does not divide, and the plan is then not to be used.
Plan make_plan(const PlanParams& params, std::int64_t devices, std::int64_t global_batch,
               std::optional<std::string>& why);

}  // namespace orrery::experiments::training
