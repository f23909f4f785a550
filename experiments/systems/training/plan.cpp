#include "experiments/systems/training/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace orrery::experiments::training {

void OffloadParams::set_host_shares(const std::vector<HostShares>& shares) {
  const auto set = [&](std::vector<double>& all, double HostShares::*of) {
    all.clear();
    if (std::ranges::none_of(shares, [of](const HostShares& own) { return own.*of > 0; })) return;
    for (const HostShares& own : shares) all.push_back(own.*of);
    if (std::ranges::all_of(all, [&](double share) { return share == all.front(); })) all.resize(1);
  };
  set(offload_weights, &HostShares::weights);
  set(offload_gradients, &HostShares::gradients);
  set(offload_optimizer, &HostShares::optimizer);
  set(offload_activations, &HostShares::activations);
}

const char* OffloadParams::listed() const {
  if (offload_weights.size() > 1) return "offload_weights";
  if (offload_gradients.size() > 1) return "offload_gradients";
  if (offload_optimizer.size() > 1) return "offload_optimizer";
  return offload_activations.size() > 1 ? "offload_activations" : nullptr;
}

Plan make_plan(const PlanParams& params, std::int64_t devices, std::int64_t global_batch,
               std::optional<std::string>& why) {
  Plan plan{.tensor = params.tensor_parallel,
            .context = params.context_parallel,
            .pipeline = params.pipeline_parallel,
            .experts = params.expert_parallel,
            .micro_batch = params.micro_batch,
            .chunks = params.interleave,
            .sequence = params.sequence_parallel && params.tensor_parallel > 1,
            .async_tensor = params.async_tensor_parallel && params.tensor_parallel > 1,
            .balanced = params.context_balanced || params.context_parallel == 1,
            .overlap_experts = params.overlap_experts && params.expert_parallel > 1,
            .exchange = params.context_exchange,
            .dispatch = params.expert_dispatch,
            .expert_nodes = params.expert_nodes,
            .zero = params.zero,
            .recompute = params.recompute,
            .recompute_layers = params.recompute_layers,
            .stage_recompute_layers = params.stage_recompute_layers};
  static_cast<GradientParams&>(plan) = params;
  static_cast<OffloadParams&>(plan) = params;
  const auto refuse = [&](std::string reason) {
    if (!why) why = std::move(reason);
  };
  const auto listed = [&](std::size_t entries, const char* what) {
    if (entries > 0 && static_cast<std::int64_t>(entries) != plan.pipeline)
      refuse(fmt::format("{} lists {} stages, the plan has {}", what, entries, plan.pipeline));
    return static_cast<std::int64_t>(entries) == plan.pipeline;
  };
  listed(plan.stage_recompute_layers.size(), "stage_recompute_layers");
  for (const auto& [shares, name] : {std::pair{&plan.offload_weights, "offload_weights"},
                                     {&plan.offload_gradients, "offload_gradients"},
                                     {&plan.offload_optimizer, "offload_optimizer"},
                                     {&plan.offload_activations, "offload_activations"}})
    if (shares->size() > 1) listed(shares->size(), name);
  if (listed(params.stage_tensor_parallel.size(), "stage_tensor_parallel")) {
    plan.stage_tensor = params.stage_tensor_parallel;
    plan.tensor = *std::max_element(plan.stage_tensor.begin(), plan.stage_tensor.end());
  }
  const std::int64_t copy = plan.ranks();
  plan.data = params.data_parallel.value_or(std::max<std::int64_t>(1, devices / copy));
  const std::string tensors =
      plan.stage_tensor.empty() ? fmt::format("{}", plan.tensor) : fmt::format("{}", fmt::join(plan.stage_tensor, "|"));
  const std::string context = plan.context > 1 ? fmt::format(" x context {}", plan.context) : "";
  if (plan.ranks() > devices)
    refuse(fmt::format("tensor {}{} x pipeline {} x data {} are {} ranks, the machine has {} devices", tensors, context,
                       plan.pipeline, plan.data, plan.ranks(), devices));
  else if (!params.data_parallel && plan.ranks() != devices)
    refuse(fmt::format("tensor {}{} x pipeline {} do not divide {} devices", tensors, context, plan.pipeline, devices));
  if (plan.async_tensor && !plan.sequence)
    refuse(
        "asynchronous tensor parallelism runs gathers and scatters of sequence parallelism beside products: the plan "
        "has none");
  if (plan.expert_nodes > 0 && plan.dispatch != ExpertDispatch::tokens)
    refuse("expert_nodes limits where tokens go: it needs expert_dispatch tokens");
  for (std::int64_t s = 0; s < plan.pipeline; ++s)
    if (const std::int64_t ranks = plan.of_stage(s).stage_ranks(); ranks % plan.experts != 0)
      refuse(
          fmt::format("{} ranks of expert parallelism do not divide the {} ranks of stage {}", plan.experts, ranks, s));
  const std::int64_t step = plan.data * plan.micro_batch;
  if (global_batch % step != 0)
    refuse(fmt::format("{} copies with micro-batches of {} do not divide a batch of {}", plan.data, plan.micro_batch,
                       global_batch));
  plan.micro_batches = std::max<std::int64_t>(1, global_batch / step);
  return plan;
}

}  // namespace orrery::experiments::training
