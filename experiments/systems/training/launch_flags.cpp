#include "experiments/systems/training/launch_flags.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::experiments::training {
namespace {

/// Megatron-LM's words for layers by stage: an embedding, so many transformer layers a stage, a loss.
std::string layout(const std::vector<std::int64_t>& layers) {
  std::string text = "E";
  for (const std::int64_t count : layers) text += fmt::format("{}t*{}", text.size() > 1 ? "|" : "", count);
  return fmt::format("--pipeline-model-parallel-layout \"{},L\"", text);
}

/// Of a chunk, the most that any stage runs again.
std::int64_t repeated_layers(const Plan& plan, const LaunchedModel& model) {
  std::int64_t most = 0;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const std::int64_t own = model.stage_layers.empty() ? even_layers(model.layers, plan.pipeline, s)
                                                        : model.stage_layers[static_cast<std::size_t>(s)];
    most = std::max(most, plan.again(s, own));
  }
  return (most + plan.chunks - 1) / plan.chunks;
}

/// The share that all stages have; nothing where they differ.
std::optional<double> one_share(const std::vector<double>& shares) {
  if (shares.empty()) return 0;
  if (std::ranges::any_of(shares, [&](double share) { return share != shares.front(); })) return std::nullopt;
  return shares.front();
}

}  // namespace

std::vector<std::string> megatron_flags(const Plan& plan, const LaunchedModel& model) {
  std::vector<std::string> flags{fmt::format("--tensor-model-parallel-size {}", plan.tensor),
                                 fmt::format("--pipeline-model-parallel-size {}", plan.pipeline)};
  if (plan.context > 1) {
    flags.push_back(fmt::format("--context-parallel-size {}", plan.context));
    const char* exchange = plan.exchange == ContextExchange::ring         ? "p2p"
                           : plan.exchange == ContextExchange::all_gather ? "all_gather"
                                                                          : "a2a";
    flags.push_back(fmt::format("--cp-comm-type {}", exchange));
  }
  if (plan.experts > 1) {
    flags.push_back(fmt::format("--expert-model-parallel-size {}", plan.experts));
    flags.emplace_back("--expert-tensor-parallel-size 1");
  }
  if (!model.stage_layers.empty()) flags.push_back(layout(model.stage_layers));
  if (plan.chunks > 1)
    flags.push_back(fmt::format("--num-layers-per-virtual-pipeline-stage {}",
                                std::max<std::int64_t>(1, model.layers / plan.pipeline / plan.chunks)));
  flags.push_back(fmt::format("--micro-batch-size {}", plan.micro_batch));
  flags.push_back(fmt::format("--global-batch-size {}", model.global_batch));
  flags.push_back(fmt::format("--seq-length {}", model.sequence));
  if (plan.sequence) flags.emplace_back("--sequence-parallel");
  if (plan.async_tensor) flags.emplace_back("--tp-comm-overlap");
  if (plan.overlap_experts) flags.emplace_back("--overlap-moe-expert-parallel-comm");
  if (plan.zero != Zero::none) flags.emplace_back("--use-distributed-optimizer");
  if (plan.zero >= Zero::gradients) {
    flags.emplace_back("--use-megatron-fsdp");
    flags.emplace_back(plan.zero == Zero::weights ? "--data-parallel-sharding-strategy optim_grads_params"
                                                  : "--data-parallel-sharding-strategy optim_grads");
    flags.emplace_back("--ckpt-format fsdp_dtensor");
  }
  if (plan.overlap_gathers && plan.zero != Zero::none && plan.copies() > 1)
    flags.emplace_back("--overlap-param-gather");
  if (plan.overlap_gradients && plan.copies() > 1) flags.emplace_back("--overlap-grad-reduce");
  // Its distributed optimizer alone can leave states to the host.
  if (const auto share = one_share(plan.offload_optimizer).value_or(0); share > 0 && plan.zero != Zero::none) {
    flags.emplace_back("--optimizer-cpu-offload");
    flags.push_back(fmt::format("--optimizer-offload-fraction {:g}", share));
    flags.emplace_back("--use-precision-aware-optimizer");
  }
  if (plan.recompute == Recompute::selective) flags.emplace_back("--recompute-activations");
  if (plan.recompute == Recompute::full) {
    flags.emplace_back("--recompute-granularity full");
    flags.emplace_back("--recompute-method block");
    flags.push_back(fmt::format("--recompute-num-layers {}", repeated_layers(plan, model)));
  }
  return flags;
}

std::vector<std::string> torchtitan_flags(const Plan& plan, const LaunchedModel& model) {
  const bool shards = plan.zero >= Zero::gradients;
  std::vector<std::string> flags{fmt::format("--training.local_batch_size {}",
                                             plan.pipeline > 1 ? model.global_batch / plan.data : plan.micro_batch),
                                 fmt::format("--training.global_batch_size {}", model.global_batch),
                                 fmt::format("--training.seq_len {}", model.sequence),
                                 fmt::format("--parallelism.data_parallel_replicate_degree {}", shards ? 1 : plan.data),
                                 fmt::format("--parallelism.data_parallel_shard_degree {}", shards ? plan.data : 1),
                                 fmt::format("--parallelism.tensor_parallel_degree {}", plan.tensor),
                                 fmt::format("--parallelism.context_parallel_degree {}", plan.context),
                                 fmt::format("--parallelism.pipeline_parallel_degree {}", plan.pipeline)};
  if (plan.experts > 1) {
    flags.push_back(fmt::format("--parallelism.expert_parallel_degree {}", plan.experts));
    if (plan.tensor > 1) flags.emplace_back("--parallelism.expert_tensor_parallel_degree 1");
  }
  if (plan.context > 1)
    flags.push_back(fmt::format("--parallelism.context_parallel_rotate_method {}",
                                plan.exchange == ContextExchange::ring ? "alltoall" : "allgather"));
  if (plan.zero == Zero::gradients) flags.emplace_back("--parallelism.fsdp_reshard_after_forward never");
  if (plan.zero == Zero::weights && plan.pipeline > 1)  // by default it keeps them gathered there
    flags.emplace_back("--parallelism.fsdp_reshard_after_forward always");
  if (plan.async_tensor) flags.emplace_back("--parallelism.enable_async_tensor_parallel");
  if (plan.pipeline > 1) {
    flags.push_back(
        fmt::format("--parallelism.pipeline_parallel_schedule {}", plan.chunks > 1 ? "Interleaved1F1B" : "1F1B"));
    flags.push_back(fmt::format("--parallelism.pipeline_parallel_microbatch_size {}", plan.micro_batch));
  }
  if (shards && one_share(plan.offload_weights) == 1.0 && one_share(plan.offload_gradients) == 1.0 &&
      one_share(plan.offload_optimizer) == 1.0)
    flags.emplace_back("--training.enable_cpu_offload");
  flags.push_back(fmt::format("--activation_checkpoint.mode {}", plan.recompute == Recompute::none   ? "none"
                                                                 : plan.recompute == Recompute::full ? "full"
                                                                                                     : "selective"));
  return flags;
}

}  // namespace orrery::experiments::training
