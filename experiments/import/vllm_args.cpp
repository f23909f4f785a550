#include "experiments/import/vllm_args.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "experiments/base/catalog.hpp"
#include "experiments/import/vllm_words.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

/// Lower case, the last part of a path, without what publishers add.
std::string short_name(std::string name) {
  while (!name.empty() && name.back() == '/') name.pop_back();
  name = name.substr(name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* word : {"meta-", "nvidia ", "geforce "})
    if (name.starts_with(word)) name.erase(0, std::string_view(word).size());
  for (const char* word : {"-instruct", "-chat", "-hf"})
    if (const auto at = name.find(word); at != std::string::npos && at + std::string_view(word).size() == name.size())
      name.erase(at);
  return name;
}

/// The catalog's name for a device as CUDA calls it: all parts of the catalog's name are in it, the longest one wins.
std::optional<std::string> part_named(const std::string& device) {
  std::string lower;
  for (const char c : device)
    if (std::isalnum(static_cast<unsigned char>(c))) lower += static_cast<char>(std::tolower(c));
  std::optional<std::string> best;
  for (const std::string& part : part_names()) {
    bool all = true;
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t end = std::min(part.find('-', at), part.size());
      all = all && lower.find(part.substr(at, end - at)) != std::string::npos;
      at = end + 1;
    }
    if (all && (!best || part.size() > best->size())) best = part;
  }
  return best;
}

class Importer : private ArgumentReader {
 public:
  Importer(const EngineArguments& arguments, const ImportOptions& options)
      : ArgumentReader(arguments), options_(options) {}

  ImportedConfig make() {
    Node root = Node::object();
    root.set("kind", Node::string("experiment"));
    root.set("version", Node::integer(1));
    root.set("system", Node::string("serving"));
    const std::int64_t tp = number("tensor_parallel_size", 1);
    const std::int64_t pp = number("pipeline_parallel_size", 1);
    const std::int64_t dp = number("data_parallel_size", 1);
    machine(root, tp * pp * dp);
    model(root);
    if (options_.trace) {
      Node& trace = root.set("workload", Node::object()).set("trace", Node::object());
      trace.set("path", Node::string(*options_.trace));
      trace.set("format", Node::string("vllm_log"));
    } else {
      note("no workload: add one, or give --trace LOG");
    }
    policies(root);
    cluster(root, tp, pp, dp);
    replica(root);
    offloading(root, tp);
    host(root);
    root.set("run", Node::object()).set("seed", Node::integer(number("seed", 1)));
    return finish(std::move(root));
  }

 private:
  void machine(Node& root, std::int64_t devices) {
    const std::string device = text("device_name");
    std::optional<std::string> part = options_.part;
    if (!part && !device.empty()) part = part_named(device);
    if (!part) {
      part = "h100-sxm5-80gb";
      note(fmt::format("the part is not known{}: h100-sxm5-80gb is assumed, --part names another",
                       device.empty() ? "" : " (" + device + ")"));
    }
    Node group = Node::object();
    group.set("part", Node::string(*part));
    group.set("count", Node::integer(devices));
    root.set("machine", Node::object()).set("devices", Node::array()).push(std::move(group));
  }

  void model(Node& root) {
    Node& node = root.set("model", Node::object());
    const std::string name = text("model");
    if (options_.model) {
      node.set("config", Node::string(*options_.model));
    } else {
      const std::string known = short_name(name);
      const std::vector<std::string> models = model_names();
      if (std::find(models.begin(), models.end(), known) != models.end()) {
        node.set("config", Node::string("catalog:" + known));
      } else {
        node.set("config", Node::string(name));
        note(fmt::format("model '{}' is not in the catalog: --model takes its config.json", name));
      }
    }
    const std::string dtype = text("dtype");
    const auto format = number_format(dtype);
    node.set("dtype", Node::string(std::string(format.value_or("bf16"))));
    if (!format) note("dtype auto: bf16 is assumed");
    if (!format && !dtype.empty() && dtype != "auto") ignore("dtype", dtype);
    if (const std::string cache = text("kv_cache_dtype"); !cache.empty() && cache != "auto") {
      const auto kv = number_format(cache);
      if (kv) {
        node.set("kv_dtype", Node::string(std::string(*kv)));
      } else {
        ignore("kv_cache_dtype", cache);
      }
    }
    quantisation(node);
  }

  void quantisation(Node& model) {
    const std::string method = text("quantization");
    if (method.empty()) return;
    if (method == "experts_int8") {
      model.set("expert_dtype", Node::string("int8"));
    } else if (const auto weights = weight_format(method)) {
      model.set("weight_dtype", Node::string(std::string(*weights)));
      if (method.starts_with("gptq")) note("quantization gptq: 4 bits are assumed, model.weight_dtype sets others");
    } else {
      ignore("quantization", method);
      note(
          fmt::format("quantization '{}': weights as the model's config.json says, or set model.weight_dtype", method));
    }
  }

  void policies(Node& root) {
    Node& policies = root.set("policies", Node::object());
    Node& batching = policies.set("batching", Node::object());
    if (find("max_num_batched_tokens") == nullptr) note("max_num_batched_tokens by default: 2048 (a server's)");
    const std::int64_t tokens = number("max_num_batched_tokens", 2048), sequences = number("max_num_seqs", 256);
    const std::int64_t threshold = number("long_prefill_token_threshold", 0);
    const bool chunked = flag("enable_chunked_prefill", true);
    const std::string order = text("scheduling_policy");
    const bool by_priority = order == "priority";
    if (!order.empty() && order != "fcfs" && !by_priority) ignore("scheduling_policy", order);
    batching.set("policy", Node::string(by_priority ? "priority" : "vllm_v1"));
    Node& params = batching.set(by_priority ? "priority" : "vllm_v1", Node::object());
    params.set(by_priority ? "token_budget" : "max_num_batched_tokens", Node::integer(tokens));
    params.set(by_priority ? "max_sequences" : "max_num_seqs", Node::integer(sequences));
    if (by_priority) {
      note("scheduling_policy priority: here a higher number goes first, in vLLM a lower one");
      if (threshold > 0) ignore("long_prefill_token_threshold", Node::integer(threshold));
      if (!chunked) ignore("enable_chunked_prefill", "false");
    } else {
      if (threshold > 0) params.set("long_prefill_token_threshold", Node::integer(threshold));
      params.set("chunked_prefill", Node::boolean(chunked));
    }
    const bool prefixes = flag("enable_prefix_caching", true);
    const char* cache = prefixes ? "block_hash" : "paged";
    Node& kv = policies.set("kvcache", Node::object());
    kv.set("policy", Node::string(cache));
    kv.set(cache, Node::object()).set("block_tokens", Node::integer(number("block_size", 16)));
    speculation(policies);
  }

  void speculation(Node& policies) {
    const Node* config = find("speculative_config");
    if (config == nullptr) return;
    if (!config->is_object()) return ignore("speculative_config", *config);
    for (const auto& [key, value] : config->members())
      if (key != "method" && key != "model" && key != "num_speculative_tokens")
        ignore("speculative_config." + key, value);
    const Node* method = config->find("method");
    const Node* model = config->find("model");
    std::string name = method != nullptr && method->is_string() ? method->as_string() : "draft_model";
    std::string policy = "draft_model";
    if (name == "ngram") policy = "n_gram";
    if (name.find("mtp") != std::string::npos || name.starts_with("eagle")) policy = "mtp";
    Node& block = policies.set("speculation", Node::object());
    block.set("policy", Node::string(policy));
    Node& params = block.set(policy, Node::object());
    if (policy == "draft_model" && model != nullptr && model->is_string())
      params.set("model", Node::string("catalog:" + short_name(model->as_string())));
    if (const Node* drafts = config->find("num_speculative_tokens"); drafts != nullptr && drafts->is_number())
      params.set("drafts", Node::integer(drafts->as_integer()));
    note(
        fmt::format("speculation '{}' as {}: how many tokens are kept is not in the arguments, set "
                    "policies.speculation.{}.acceptance",
                    name, policy, policy));
  }

  void cluster(Node& root, std::int64_t tp, std::int64_t pp, std::int64_t dp) {
    Node group = Node::object();
    // Ranks that share the experts out are one replica of several lanes; stages of a pipeline have theirs each.
    const bool experts = flag("enable_expert_parallel", false);
    const bool lanes = experts && pp == 1;
    group.set("count", Node::integer(lanes ? 1 : dp));
    group.set("tensor_parallel", Node::integer(tp));
    group.set("pipeline_parallel", Node::integer(pp));
    if (lanes) group.set("data_parallel", Node::integer(dp));
    if (experts) group.set("expert_parallel", Node::integer(lanes ? tp * dp : tp));
    root.set("cluster", Node::object()).set("replicas", Node::array()).push(std::move(group));
    if (dp > 1 && !lanes) note("data_parallel_size: replicas of their own behind the router of policies.routing");
  }

  /// KV blocks that the cache gives up go to host memory: a size in GiB over all ranks of a replica.
  void offloading(Node& root, std::int64_t tp) {
    const Node* size = find("kv_offloading_size");
    const std::string backend = text("kv_offloading_backend");
    if (size == nullptr || !size->is_number() || size->as_number() <= 0) {
      if (size != nullptr) ignore("kv_offloading_size", *size);
      if (!backend.empty()) ignore("kv_offloading_backend", backend);
      return;
    }
    if (!flag("enable_prefix_caching", true)) return ignore("kv_offloading_size", *size);
    Node host = Node::object();
    host.set("name", Node::string("host"));
    host.set("capacity", Node::string(fmt::format("{} GiB", size->as_number() / static_cast<double>(tp))));
    Node& tiers = root.set("kv_tiers", Node::object());
    tiers.set("tiers", Node::array()).push(std::move(host));
    tiers.set("prefixes", Node::boolean(true));
    tiers.set("overlap", Node::boolean(true));
    note(
        "kv_offloading_size: blocks are copied out when the cache gives them up, over 25 GB/s a device: set kv_tiers "
        "to "
        "your link");
    if (!backend.empty() && backend != "native") ignore("kv_offloading_backend", backend);
  }

  /// Whether an iteration is decided upon when the one before it begins.
  void host(Node& root) {
    if (find("async_scheduling") == nullptr && find("no_async_scheduling") == nullptr)
      return note("host time between iterations is 0: measure your engine's (docs/explain/serving.md)");
    Node& host = root.set("host", Node::object());
    host.set("policy", Node::string("vllm_v1"));
    host.set("vllm_v1", Node::object()).set("ahead", Node::boolean(flag("async_scheduling", true)));
    note("host time of vllm_v1: assumed figures (orrery describe vllm_v1), set yours under host");
  }

  void replica(Node& root) {
    Node& replica = root.set("replica", Node::object());
    const Node* share = find("gpu_memory_utilization");
    // To a whole 1e-6: 1 - 0.9 is no number one would write.
    const double used = share != nullptr && share->is_number() ? share->as_number() : 0.9;
    if (share != nullptr && !share->is_number()) ignore("gpu_memory_utilization", *share);
    replica.set("memory_margin",
                Node::real(static_cast<double>(static_cast<std::int64_t>((1 - used) * 1e6 + 0.5)) / 1e6));
    if (const std::int64_t length = number("max_model_len", 0); length > 0)
      replica.set("max_context", Node::integer(length));
    if (const std::int64_t blocks = number("num_gpu_blocks", 0); blocks > 0) {
      replica.set("kv_blocks", Node::integer(blocks));
    } else {
      note(
          "num_gpu_blocks is not among the arguments: the cache is what memory has room for; your engine's log has it");
    }
  }

  const ImportOptions& options_;
};

}  // namespace

ImportedConfig import_vllm(const EngineArguments& arguments, const ImportOptions& options) {
  return Importer(arguments, options).make();
}

}  // namespace orrery::experiments
