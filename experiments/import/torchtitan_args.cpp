// torchtitan's arguments as a training config.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/import/training_args.hpp"
#include "experiments/import/training_parts.hpp"

namespace orrery::experiments {
namespace torchtitan_args {

using sim::Node;

class Importer : private ArgumentReader {
 public:
  Importer(const EngineArguments& arguments, const TrainingImport& options)
      : ArgumentReader(arguments), options_(options) {}

  ImportedConfig make() {
    const std::int64_t tensor = degree("tensor_parallel_degree"), context = degree("context_parallel_degree");
    const std::int64_t stages = degree("pipeline_parallel_degree"), replicas = degree("data_parallel_replicate_degree");
    const std::int64_t told = number("parallelism.data_parallel_shard_degree", -1);  // -1: all that are left
    const std::int64_t shares = tensor * context * stages;
    const std::int64_t world = number("nproc_per_node", 1) * number("nnodes", 1);
    const std::int64_t devices = options_.devices.value_or(
        told > 0 ? std::min<std::int64_t>(told, 1 << 14) * replicas * shares : std::max(world, shares));
    if (!options_.devices && told < 1 && world <= shares)
      note(fmt::format("the number of devices is not among the arguments: {}; --devices N", devices));
    Node root = training_root(*this, options_, devices);
    model(root);
    const std::int64_t copies = std::max<std::int64_t>(1, devices / shares);
    const std::int64_t local = std::clamp<std::int64_t>(number("training.local_batch_size", 8), 1, 1 << 20);
    Node& workload = root.set("workload", Node::object());
    workload.set("sequence", Node::integer(number("training.seq_len", 2048)));
    const std::int64_t global = number("training.global_batch_size", -1);
    workload.set("global_batch", Node::integer(global > 0 ? global : local * copies));
    Node& plan = root.set("plan", Node::object());
    plan.set("tensor_parallel", Node::integer(tensor));
    plan.set("sequence_parallel", Node::boolean(tensor > 1));
    if (flag("parallelism.enable_async_tensor_parallel", false)) plan.set("async_tensor_parallel", Node::boolean(true));
    if (const std::int64_t experts = degree("expert_parallel_degree"); experts > 1)
      plan.set("expert_parallel", Node::integer(experts));
    if (const std::int64_t within = degree("expert_tensor_parallel_degree"); within > 1) {
      ignore("parallelism.expert_tensor_parallel_degree", Node::integer(within));
      note(fmt::format("experts divided over {} ranks of tensor parallelism: each is whole on its rank here", within));
    }
    if (context > 1) {
      plan.set("context_parallel", Node::integer(context));
      const std::string rotate = text("parallelism.context_parallel_rotate_method");
      plan.set("context_exchange", Node::string(rotate == "alltoall" ? "ring" : "all_gather"));
    }
    plan.set("pipeline_parallel", Node::integer(stages));
    plan.set(
        "micro_batch",
        Node::integer(stages > 1 ? std::max<std::int64_t>(1, number("parallelism.pipeline_parallel_microbatch_size", 1))
                                 : local));
    if (stages > 1) schedule(root, plan);
    zero(plan, told > 0 ? told : std::max<std::int64_t>(1, copies / replicas), replicas);
    recompute(plan);
    if (flag("training.enable_cpu_offload", false)) {  // FSDP's CPUOffloadPolicy: all states, updated there
      for (const char* name : {"offload_weights", "offload_gradients", "offload_optimizer"})
        plan.set(name, Node::array()).push(Node::real(1));
      note(set_host_updates(root));
    }
    skip({"job.config_file", "training.steps", "training.dataset", "training.dataset_path", "training.max_norm", "seed",
          "optimizer.name", "optimizer.lr", "lr_scheduler.warmup_steps", "metrics.log_freq",
          "profiling.enable_profiling", "checkpoint.enable_checkpoint", "rdzv_backend", "rdzv_endpoint",
          "local_ranks_filter", "role", "tee"});
    return finish(std::move(root));
  }

 private:
  std::int64_t degree(const std::string& name) {
    return std::clamp<std::int64_t>(number("parallelism." + name, 1), 1, 1 << 14);
  }

  void model(Node& root) {
    const std::string name = text("model.name"), flavor = text("model.flavor");
    const bool compiled = flag("compile.enable", flag("training.compile", false));
    std::string config = options_.model.value_or("");
    if (config.empty()) {
      std::string size = flavor;
      std::transform(size.begin(), size.end(), size.begin(), [](unsigned char c) { return std::tolower(c); });
      const bool llama = (name == "llama3" || name.empty()) && (size == "8b" || size == "70b" || size == "405b");
      const bool oss = name == "gpt_oss" && (size == "20b" || size == "120b");
      if (!llama && !oss)
        sim::throw_fault({"arguments", ""},
                         fmt::format("expected model llama3 of flavor 8B, 70B or 405B, or gpt_oss of 20B or 120B, got "
                                     "'{}' '{}'",
                                     name, flavor),
                         "or --model-config of a catalog model");
      config = (llama ? "catalog:llama-3.1-" : "catalog:gpt-oss-") + size;
    }
    set_builder(root, "decoder", pytorch_decoder(config, compiled));
    set_passes(root, compiled);
  }

  void schedule(Node& root, Node& plan) {
    const std::string name = text("parallelism.pipeline_parallel_schedule");
    const auto is = [&](const char* word) { return name == word; };
    const char* known = name.empty() || is("1F1B") ? "1f1b"
                        : is("GPipe")              ? "gpipe"
                        : is("Interleaved1F1B")    ? "interleaved"
                        : is("ZBVZeroBubble")      ? "zb_v"
                        : is("DualPipeV")          ? "dualpipe_v"
                                                   : nullptr;
    if (known == nullptr) return ignore("parallelism.pipeline_parallel_schedule", name);
    (void)set_policy(root, "schedule", known);
    if (is("Interleaved1F1B")) plan.set("interleave", Node::integer(2));
  }

  /// Its FSDP shares out all states, and gathers weights again for the backward pass unless told never to, or where a
  /// pipeline would do so for every micro-batch.
  void zero(Node& plan, std::int64_t shards, std::int64_t replicas) {
    const std::string reshard = text("parallelism.fsdp_reshard_after_forward");
    const bool piped = number("parallelism.pipeline_parallel_degree", 1) > 1;
    const bool keeps = reshard == "never" || ((reshard.empty() || reshard == "default") && piped);
    plan.set("zero", Node::string(shards <= 1 ? "none" : keeps ? "gradients" : "weights"));
    if (shards > 1 && replicas > 1) note("replicas of shards: states are shared out over all copies here");
  }

  void recompute(Node& plan) {
    const std::string mode = text("activation_checkpoint.mode");
    const Node* option = find("activation_checkpoint.selective_ac_option");
    if (mode == "full") {
      plan.set("recompute", Node::string("full"));
    } else if (mode.empty() || mode == "selective") {  // its default
      plan.set("recompute", Node::string("by_op"));
      if (option != nullptr && !(option->is_string() && option->as_string() == "op"))
        ignore("activation_checkpoint.selective_ac_option", *option);
    } else if (mode != "none") {
      ignore("activation_checkpoint.mode", mode);
    }
  }

  const TrainingImport& options_;
};

}  // namespace torchtitan_args

ImportedConfig import_torchtitan(const EngineArguments& arguments, const TrainingImport& options) {
  return torchtitan_args::Importer(arguments, options).make();
}

}  // namespace orrery::experiments
