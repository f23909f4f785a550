// DeepSpeed's config file as a training config; the model is a catalog's or a config.json's.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/import/training_args.hpp"
#include "experiments/import/training_parts.hpp"

namespace orrery::experiments {
namespace deepspeed_args {

using sim::Node;

class Importer : private ArgumentReader {
 public:
  Importer(const EngineArguments& arguments, const TrainingImport& options)
      : ArgumentReader(arguments), options_(options) {}

  ImportedConfig make() {
    if (!options_.model)
      sim::throw_fault({"arguments", ""}, "expected a model: DeepSpeed's config names none",
                       "--model-config catalog:NAME, or a config.json");
    const std::int64_t tensor = std::clamp<std::int64_t>(number("tensor_parallel.autotp_size", 1), 1, 1 << 14);
    const std::int64_t batch = size("train_batch_size"), micro = size("train_micro_batch_size_per_gpu");
    const std::int64_t steps = size("gradient_accumulation_steps");
    // Of batch = micro x steps x copies one may be left out.
    const std::int64_t world = number("num_gpus", 8) * number("num_nodes", 1);
    std::int64_t copies = batch > 0 && micro > 0 && steps > 0 ? batch / std::max<std::int64_t>(1, micro * steps) : 0;
    if (options_.devices) copies = *options_.devices / tensor;
    if (copies < 1) {
      copies = std::max<std::int64_t>(1, world / tensor);
      note(fmt::format("the number of devices is not in the config: {}; --devices N", copies * tensor));
    }
    const std::int64_t own = micro > 0 ? micro
                             : batch > 0
                                 ? std::max<std::int64_t>(1, batch / (copies * std::max<std::int64_t>(1, steps)))
                                 : 1;
    Node root = training_root(*this, options_, copies * tensor);
    set_builder(root, "decoder", pytorch_decoder(*options_.model, false));
    precision(root);
    Node& workload = root.set("workload", Node::object());
    workload.set("sequence", Node::integer(number("seq_length", 2048)));
    if (find("seq_length") == nullptr) note("the sequence is not in the config: 2048 tokens; --seq-length N after --");
    workload.set("global_batch", Node::integer(batch > 0 ? batch : own * std::max<std::int64_t>(1, steps) * copies));
    Node& plan = root.set("plan", Node::object());
    if (tensor > 1) plan.set("tensor_parallel", Node::integer(tensor));
    plan.set("micro_batch", Node::integer(own));
    zero(root, plan);
    const std::string type = text("data_types.grad_accum_dtype");
    plan.set("gradients_fp32", Node::boolean(type == "fp32"));
    if (flag("gradient_checkpointing", false)) plan.set("recompute", Node::string("full"));
    skip({"steps_per_print", "wall_clock_breakdown", "gradient_clipping", "optimizer.type", "optimizer.params.lr",
          "optimizer.params.betas", "optimizer.params.eps", "optimizer.params.weight_decay", "scheduler.type",
          "zero_optimization.contiguous_gradients", "zero_optimization.round_robin_gradients", "deepspeed"});
    return finish(std::move(root));
  }

 private:
  /// "auto" is left to the program that hands the config over.
  std::int64_t size(const std::string& name) {
    const Node* node = find(name);
    if (node != nullptr && node->is_string() && node->as_string() == "auto") return 0;
    return std::clamp<std::int64_t>(number(name, 0), 0, 1 << 24);
  }

  void precision(Node& root) {
    const bool half = flag("fp16.enabled", false), brain = flag("bf16.enabled", false);
    if (half || brain)
      root.find("model")->find("builder")->find("decoder")->set("dtype", Node::string(half ? "fp16" : "bf16"));
  }

  void zero(Node& root, Node& plan) {
    static constexpr const char* kStages[] = {"none", "optimizer", "gradients", "weights"};
    const std::int64_t stage = number("zero_optimization.stage", 0);
    if (stage < 0 || stage > 3) ignore("zero_optimization.stage", Node::integer(stage));
    plan.set("zero", Node::string(kStages[std::clamp<std::int64_t>(stage, 0, 3)]));
    plan.set("overlap_gradients", Node::boolean(flag("zero_optimization.overlap_comm", stage == 3)));
    const std::string device = text("zero_optimization.offload_optimizer.device");
    if (device == "cpu") {
      const Node* share = find("zero_optimization.offload_optimizer.ratio");
      plan.set("offload_optimizer", Node::array())
          .push(Node::real(share != nullptr && share->is_number() ? std::clamp(share->as_number(), 0.0, 1.0) : 1));
      note(set_host_updates(root));
    } else if (!device.empty() && device != "none") {
      ignore("zero_optimization.offload_optimizer.device", device);
    }
    const std::string weights = text("zero_optimization.offload_param.device");
    if (weights == "cpu" && stage == 3) {
      plan.set("offload_weights", Node::array()).push(Node::real(1));
      set_host_link(root);
      note("weights come from the host over PCIe 5.0 x16: set machine.host_link to yours");
    } else if (!weights.empty() && weights != "none") {
      ignore("zero_optimization.offload_param.device", weights);
    }
  }

  const TrainingImport& options_;
};

}  // namespace deepspeed_args

ImportedConfig import_deepspeed(const EngineArguments& arguments, const TrainingImport& options) {
  return deepspeed_args::Importer(arguments, options).make();
}

}  // namespace orrery::experiments
