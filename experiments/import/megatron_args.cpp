// Megatron-LM's arguments (pretrain_gpt.py) as a training config.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "experiments/import/training_args.hpp"
#include "experiments/import/training_parts.hpp"

namespace orrery::experiments {
namespace megatron_args {

using sim::Node;

/// Transformer layers of each stage from "Et*3|t*4,L": counts of t, with a star or one by one. Empty for what is none.
std::vector<std::int64_t> stage_layers(const std::string& layout) {
  std::vector<std::int64_t> layers(1, 0);
  for (std::size_t at = 0; at < layout.size(); ++at) {
    const char c = layout[at];
    if (c == '|') {
      layers.push_back(0);
    } else if (c == 't') {
      std::int64_t count = 1;
      if (at + 1 < layout.size() && layout[at + 1] == '*') {
        count = 0;
        for (at += 2; at < layout.size() && layout[at] >= '0' && layout[at] <= '9' && count < 4096; ++at)
          count = 10 * count + (layout[at] - '0');
        --at;
      }
      layers.back() += count;
    } else if (c != 'E' && c != 'L' && c != ',' && c != '"' && c != ' ') {
      return {};
    }
  }
  return layers;
}

class Importer : private ArgumentReader {
 public:
  Importer(const EngineArguments& arguments, const TrainingImport& options)
      : ArgumentReader(arguments), options_(options) {}

  ImportedConfig make() {
    const std::int64_t shares = positive("tensor_model_parallel_size") * positive("pipeline_model_parallel_size") *
                                positive("context_parallel_size");
    const std::int64_t world = number("nproc_per_node", 1) * number("nnodes", 1);
    const std::int64_t devices = options_.devices.value_or(std::max(world, shares));
    if (!options_.devices && world < shares)
      note(fmt::format("the number of devices is not among the arguments: {}, one copy of the plan; --devices N",
                       shares));
    Node root = training_root(*this, options_, devices);
    model(root);
    Node& workload = root.set("workload", Node::object());
    const std::int64_t micro = positive("micro_batch_size");
    workload.set("sequence", Node::integer(number("seq_length", 2048)));
    workload.set("global_batch",
                 Node::integer(number("global_batch_size", micro * std::max<std::int64_t>(1, devices / shares))));
    plan(root, micro);
    // Of the run, not of a step.
    skip({"use_precision_aware_optimizer",
          "train_iters",
          "train_samples",
          "lr",
          "min_lr",
          "lr_decay_style",
          "lr_decay_iters",
          "lr_warmup_iters",
          "lr_warmup_fraction",
          "weight_decay",
          "clip_grad",
          "adam_beta1",
          "adam_beta2",
          "init_method_std",
          "log_interval",
          "save_interval",
          "eval_interval",
          "eval_iters",
          "save",
          "load",
          "data_path",
          "split",
          "vocab_file",
          "merge_file",
          "tokenizer_type",
          "tokenizer_model",
          "distributed_backend",
          "seed",
          "ckpt_format",
          "node_rank",
          "master_addr",
          "master_port",
          "tensorboard_dir",
          "use_mcore_models",
          "transformer_impl",
          "log_throughput",
          "mock_data",
          "moe_grouped_gemm",
          "moe_token_dispatcher_type",
          "moe_router_load_balancing_type",
          "moe_router_dtype",
          "moe_aux_loss_coeff",
          "moe_permute_fusion"});
    return finish(std::move(root));
  }

 private:
  std::int64_t positive(const std::string& name) { return std::clamp<std::int64_t>(number(name, 1), 1, 1 << 14); }

  void model(Node& root) {
    const char* dtype = flag("fp16", false) ? "fp16" : "bf16";
    (void)flag("bf16", true);
    if (options_.model) {
      Node params = Node::object();
      params.set("config", Node::string(*options_.model));
      params.set("dtype", Node::string(dtype));
      return decoder(root, std::move(params));
    }
    const std::int64_t hidden = number("hidden_size", 0), layers = number("num_layers", 0);
    const std::int64_t heads = number("num_attention_heads", 0);
    if (hidden < 1 || layers < 1 || heads < 1)
      sim::throw_fault({"arguments", ""}, "expected --num-layers, --hidden-size and --num-attention-heads",
                       "or --model-config of a catalog model");
    const bool gated = flag("swiglu", false);
    // Two thirds of four times the width for a gated feed-forward, in steps of 64.
    const std::int64_t wide = number("ffn_hidden_size", gated ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden);
    Node params = Node::object();
    const auto set = [&](const char* name, std::int64_t value) { params.set(name, Node::integer(value)); };
    set("layers", layers);
    set("hidden", hidden);
    set("heads", heads);
    set("intermediate", wide);
    set("vocab", vocabulary());
    params.set("dtype", Node::string(dtype));
    const bool grouped = flag("group_query_attention", false),
               untied = flag("untie_embeddings_and_output_weights", false);
    const std::int64_t groups = number("num_query_groups", 1);
    const std::string norm = text("normalization"), positions = text("position_embedding_type");
    const std::int64_t experts = number("num_experts", 0);
    if (experts > 0) {
      set("experts", experts);
      set("experts_per_token", number("moe_router_topk", 2));
      set("expert_intermediate", number("moe_ffn_hidden_size", wide));
      if (const std::int64_t shared = number("moe_shared_expert_intermediate_size", 0); shared > 0)
        set("shared_intermediate", shared);
      if (const Node* every = find("moe_layer_freq"); every != nullptr && every->dump() != "1") {
        ignore("moe_layer_freq", *every);
        note("layers without experts among those that have them: all have them here");
      }
    }
    if (gated || norm == "RMSNorm" || positions == "rope" || grouped || experts > 0) {
      set("kv_heads", grouped ? groups : heads);
      set("head_dim", number("kv_channels", hidden / heads));
      params.set("tied", Node::boolean(!untied));
      if (flag("qk_layernorm", false)) params.set("qk_norm", Node::boolean(true));
      windows(params);
      if (!gated) note("a decoder whose feed-forward is not gated: its three products stand for two");
      (void)flag("disable_bias_linear", true);
      dropouts(params, false);
      return decoder(root, std::move(params));
    }
    set("positions", number("max_position_embeddings", number("seq_length", 2048)));
    const std::string backend = text("attention_backend");
    const bool eager = backend == "unfused" || backend == "local";
    (void)flag("use_flash_attn", true);
    params.set("attention", Node::string(eager ? "eager" : "sdpa"));
    params.set("wide_loss", Node::boolean(true));
    dropouts(params, eager);
    if (untied) note("gpt2 has one table for embedding and head: the head's own is left out");
    set_builder(root, "gpt2", std::move(params));
    set_passes(root, true);  // bias and GELU, dropout and residual are one kernel each
  }

  void decoder(Node& root, Node params) {
    params.set("merged", Node::boolean(true));
    params.set("wide_loss", Node::boolean(true));
    set_builder(root, "decoder", std::move(params));
  }

  /// "128,0": a token looks back on 128 before it. Every N-th layer attends to all (--window-attn-skip-freq N).
  void windows(Node& params) {
    const std::string size = text("window_size"), softmax = text("softmax_type");
    if (softmax == "learnable")
      params.set("sinks", Node::boolean(true));
    else if (!softmax.empty() && softmax != "vanilla")
      ignore("softmax_type", softmax);
    const Node* skip = find("window_attn_skip_freq");
    std::size_t at = size.find_first_of("0123456789");
    std::int64_t before = 0;
    for (; at < size.size() && size[at] >= '0' && size[at] <= '9' && before < (1 << 30); ++at)
      before = 10 * before + (size[at] - '0');
    const bool every = skip == nullptr || (skip->kind() == Node::Kind::integer && skip->as_integer() >= 1);
    if (size.empty() || before == 0 || size.find("-1") == 0 || size.find("(-1") == 0 || !every) {
      if (!size.empty()) ignore("window_size", size);
      if (skip != nullptr) ignore("window_attn_skip_freq", *skip);
      return;
    }
    params.set("window", Node::integer(before + 1));  // its own token too
    if (skip != nullptr) params.set("full_every", *skip);
  }

  void dropouts(Node& params, bool eager) {
    const Node* hidden = find("hidden_dropout");
    const Node* attention = find("attention_dropout");
    const double share = hidden != nullptr && hidden->is_number() ? hidden->as_number() : 0.1;
    if (eager) {
      params.set("dropout", Node::real(share));
    } else if (share > 0 || (attention != nullptr && attention->is_number() && attention->as_number() > 0)) {
      note("dropout is left out beside attention in one kernel");
    }
  }

  /// As Megatron-LM pads it: so that every rank of tensor parallelism has a multiple of 128.
  std::int64_t vocabulary() {
    if (const std::int64_t padded = number("padded_vocab_size", 0); padded > 0) return padded;
    std::int64_t words = number("vocab_size", 0);
    if (words < 1) {
      words = 50257;
      note("the vocabulary is not among the arguments: GPT-2's 50257 tokens, padded; --vocab-size N");
    }
    const std::int64_t step =
        std::max<std::int64_t>(1, number("make_vocab_size_divisible_by", 128)) * positive("tensor_model_parallel_size");
    return (words + step - 1) / step * step;
  }

  void plan(Node& root, std::int64_t micro) {
    Node& plan = root.set("plan", Node::object());
    const auto set = [&](const char* name, std::int64_t value) { plan.set(name, Node::integer(value)); };
    const auto on = [&](const char* name, bool value) { plan.set(name, Node::boolean(value)); };
    const std::int64_t stages = positive("pipeline_model_parallel_size");
    set("tensor_parallel", positive("tensor_model_parallel_size"));
    set("pipeline_parallel", stages);
    set("micro_batch", micro);
    if (const std::int64_t context = positive("context_parallel_size"); context > 1) {
      set("context_parallel", context);
      plan.set("context_exchange", Node::string(exchange()));
    }
    if (number("num_experts", 0) > 0 || find("expert_model_parallel_size") != nullptr) experts(set);
    const std::int64_t chunks = interleave(stages);
    if (chunks > 1) {
      set("interleave", chunks);
      (void)set_policy(root, "schedule", "interleaved");
    }
    partition(root, stages);
    on("sequence_parallel", flag("sequence_parallel", false));
    if (flag("tp_comm_overlap", false)) on("async_tensor_parallel", true);
    if (flag("overlap_moe_expert_parallel_comm", false)) on("overlap_experts", true);
    plan.set("zero", Node::string(zero()));
    on("overlap_gradients", flag("overlap_grad_reduce", false));
    if (flag("overlap_param_gather", false)) on("overlap_gathers", true);
    on("gradients_fp32", flag("accumulate_allreduce_grads_in_fp32", false) || find("bf16") != nullptr);
    recompute(plan, chunks);
    offload(root, plan);
  }

  /// Ranks that share experts out.
  template <class Set>
  void experts(const Set& set) {
    const std::int64_t tensor = positive("tensor_model_parallel_size");
    if (const std::int64_t ranks = positive("expert_model_parallel_size"); ranks > 1) set("expert_parallel", ranks);
    const std::int64_t within = number("expert_tensor_parallel_size", tensor);
    if (within < 2) return;
    if (find("expert_tensor_parallel_size") != nullptr) ignore("expert_tensor_parallel_size", Node::integer(within));
    note(fmt::format("experts divided over {} ranks of tensor parallelism: each is whole on its rank here", within));
  }

  const char* exchange() {
    const std::string kind = text("cp_comm_type");
    if (kind == "all_gather") return "all_gather";
    if (kind.starts_with("a2a")) return "all_to_all";
    if (!kind.empty() && kind != "p2p") ignore("cp_comm_type", kind);
    return "ring";
  }

  std::int64_t interleave(std::int64_t stages) {
    const std::int64_t chunks = number("num_virtual_stages_per_pipeline_rank", 0);
    const std::int64_t layers = number("num_layers_per_virtual_pipeline_stage", 0);
    if (chunks > 0) return std::min<std::int64_t>(chunks, 4096);
    if (layers > 0) return std::clamp<std::int64_t>(number("num_layers", 0) / stages / layers, 1, 4096);
    return 1;
  }

  void partition(Node& root, std::int64_t stages) {
    const std::string layout = text("pipeline_model_parallel_layout");
    if (layout.empty()) return;
    const std::vector<std::int64_t> layers = stage_layers(layout);
    if (std::ssize(layers) != stages) return ignore("pipeline_model_parallel_layout", layout);
    Node& list = set_policy(root, "partition", "listed").set("layers", Node::array());
    for (const std::int64_t count : layers) list.push(Node::integer(count));
  }

  const char* zero() {
    const bool sharded = flag("use_megatron_fsdp", false) || flag("use_custom_fsdp", false);
    const std::string strategy = text("data_parallel_sharding_strategy");
    const bool optimizer = flag("use_distributed_optimizer", false);
    if (flag("use_torch_fsdp2", false)) return "weights";
    if (sharded) {
      if (strategy == "optim_grads_params") return "weights";
      if (strategy == "optim_grads") return "gradients";
      if (strategy == "optim") return "optimizer";
      return "none";
    }
    if (!strategy.empty()) ignore("data_parallel_sharding_strategy", strategy);
    return optimizer ? "optimizer" : "none";
  }

  /// States in the host's memory, which updates them.
  void offload(Node& root, Node& plan) {
    const Node* share = find("optimizer_offload_fraction");
    if (!flag("optimizer_cpu_offload", false)) {
      if (share != nullptr) ignore("optimizer_offload_fraction", *share);
      return;
    }
    const double fraction = share != nullptr && share->is_number() ? std::clamp(share->as_number(), 0.0, 1.0) : 1;
    plan.set("offload_optimizer", Node::array()).push(Node::real(fraction));
    note(set_host_updates(root));
  }

  void recompute(Node& plan, std::int64_t chunks) {
    const std::string granularity = text("recompute_granularity"), method = text("recompute_method");
    const std::int64_t layers = number("recompute_num_layers", 0);
    const bool selective = flag("recompute_activations", false) || granularity == "selective";
    if (granularity == "full") {
      plan.set("recompute", Node::string("full"));
      // Of a chunk, the first so many layers; `uniform` runs all again, from a checkpoint every so many.
      if (method == "block")
        plan.set("recompute_layers", Node::integer(std::clamp<std::int64_t>(layers * chunks, 0, 4096)));
      if (method == "uniform" && layers > 1) note("--recompute-method uniform: a checkpoint a layer is assumed");
    } else if (selective) {
      plan.set("recompute", Node::string("selective"));
      if (const std::string modules = text("recompute_modules"); !modules.empty() && modules != "core_attn")
        ignore("recompute_modules", modules);
    } else if (!granularity.empty()) {
      ignore("recompute_granularity", granularity);
    }
  }

  const TrainingImport& options_;
};

}  // namespace megatron_args

ImportedConfig import_megatron(const EngineArguments& arguments, const TrainingImport& options) {
  return megatron_args::Importer(arguments, options).make();
}

}  // namespace orrery::experiments
