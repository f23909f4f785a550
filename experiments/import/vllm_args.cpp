#include "experiments/import/vllm_args.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <set>

#include "experiments/catalog.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Short names and old ones.
std::string canonical(std::string name) {
  static const std::map<std::string, std::string> kSame{{"tp", "tensor_parallel_size"},
                                                        {"pp", "pipeline_parallel_size"},
                                                        {"dp", "data_parallel_size"},
                                                        {"ep", "enable_expert_parallel"},
                                                        {"q", "quantization"},
                                                        {"num_gpu_blocks_override", "num_gpu_blocks"},
                                                        {"cache_dtype", "kv_cache_dtype"},
                                                        {"policy", "scheduling_policy"}};
  name = with_underscores(std::move(name));
  const auto same = kSame.find(name);
  return same == kSame.end() ? name : same->second;
}

/// A word as JSON where it is some, else as text.
Node value_of(const std::string& word) {
  if (word == "True" || word == "true") return Node::boolean(true);
  if (word == "False" || word == "false") return Node::boolean(false);
  if (!word.empty() && (word.front() == '{' || word.find_first_not_of("0123456789.eE+-") == std::string::npos)) {
    try {
      return sim::parse_json(word, "arguments");
    } catch (const sim::ConfigError&) {
      return Node::string(word);
    }
  }
  return Node::string(word);
}

/// A whole number, as the engine's command line has it: 32k is 32,000, 32K is 32,768. Nothing for anything else.
std::optional<std::int64_t> count_of(const Node& node) {
  constexpr double kMost = 9e15;  // what a double counts exactly
  if (node.is_number()) {
    const double number = node.as_number();
    if (!(number >= -kMost && number <= kMost)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (!node.is_string()) return std::nullopt;
  static const std::map<char, double> kUnits{{'k', 1e3},  {'m', 1e6},    {'g', 1e9},
                                             {'K', 1024}, {'M', 0x1p20}, {'G', 0x1p30}};
  const std::string& text = node.as_string();
  const auto unit = text.empty() ? kUnits.end() : kUnits.find(text.back());
  const std::string digits = text.substr(0, text.empty() ? 0 : text.size() - 1);
  if (unit == kUnits.end() || digits.empty() || digits.size() > 12 ||
      digits.find_first_not_of("0123456789.") != std::string::npos)
    return std::nullopt;
  const double count = std::strtod(digits.c_str(), nullptr) * unit->second;
  return count <= kMost ? std::optional(static_cast<std::int64_t>(count)) : std::nullopt;
}

/// Adds what an object holds; an argument that is there already stays unless `over`.
void add_members(const Node* object, EngineArguments& arguments, bool over) {
  if (object == nullptr || !object->is_object()) return;
  for (const auto& [name, value] : object->members()) {
    if (over && (value.is_null() || (value.is_object() && name != "speculative_config"))) continue;
    const auto [entry, fresh] = arguments.try_emplace(canonical(name), value);
    if (!fresh && over) entry->second = value;
  }
}

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

class Importer {
 public:
  Importer(const EngineArguments& arguments, const ImportOptions& options) : arguments_(arguments), options_(options) {}

  ImportedConfig make() {
    Node& root = out_.config;
    root = Node::object();
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
    root.set("run", Node::object()).set("seed", Node::integer(number("seed", 1)));
    for (const auto& [name, value] : arguments_)
      if (!used_.contains(name)) out_.ignored.push_back(name + "=" + value.dump());
    return std::move(out_);
  }

 private:
  const Node* find(const std::string& name) {
    used_.insert(name);
    const auto entry = arguments_.find(name);
    return entry == arguments_.end() || entry->second.is_null() ? nullptr : &entry->second;
  }
  std::int64_t number(const std::string& name, std::int64_t fallback) {
    const Node* node = find(name);
    if (node == nullptr) return fallback;
    const std::optional<std::int64_t> count = count_of(*node);
    if (!count) out_.ignored.push_back(name + "=" + node->dump());
    return count.value_or(fallback);
  }
  bool flag(const std::string& name, bool fallback) {
    const Node* node = find(name);
    if (const Node* no = find("no_" + name); no != nullptr) return false;
    return node != nullptr && node->kind() == Node::Kind::boolean ? node->as_boolean() : fallback;
  }
  std::string text(const std::string& name) {
    const Node* node = find(name);
    return node != nullptr && node->is_string() ? node->as_string() : "";
  }
  void note(std::string text) { out_.notes.push_back(std::move(text)); }

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
    std::string dtype = text("dtype");
    if (dtype.starts_with("torch.")) dtype.erase(0, 6);
    const std::map<std::string, const char*> formats{{"bfloat16", "bf16"}, {"float16", "fp16"}, {"half", "fp16"},
                                                     {"float32", "fp32"},  {"float", "fp32"},   {"fp8", "fp8"}};
    const auto format = formats.find(dtype);
    node.set("dtype", Node::string(format != formats.end() ? format->second : "bf16"));
    if (format == formats.end()) note("dtype auto: bf16 is assumed");
    const std::string cache = text("kv_cache_dtype");
    if (!cache.empty() && cache != "auto") out_.ignored.push_back("kv_cache_dtype=" + cache);
  }

  void policies(Node& root) {
    Node& policies = root.set("policies", Node::object());
    Node& batching = policies.set("batching", Node::object());
    batching.set("policy", Node::string("vllm_v1"));
    Node& v1 = batching.set("vllm_v1", Node::object());
    if (find("max_num_batched_tokens") == nullptr) note("max_num_batched_tokens by default: 2048 (a server's)");
    v1.set("max_num_batched_tokens", Node::integer(number("max_num_batched_tokens", 2048)));
    v1.set("max_num_seqs", Node::integer(number("max_num_seqs", 256)));
    if (const std::int64_t threshold = number("long_prefill_token_threshold", 0); threshold > 0)
      v1.set("long_prefill_token_threshold", Node::integer(threshold));
    v1.set("chunked_prefill", Node::boolean(flag("enable_chunked_prefill", true)));
    if (const std::string order = text("scheduling_policy"); !order.empty() && order != "fcfs")
      out_.ignored.push_back("scheduling_policy=" + order);
    const bool prefixes = flag("enable_prefix_caching", true);
    const char* cache = prefixes ? "block_hash" : "paged";
    Node& kv = policies.set("kvcache", Node::object());
    kv.set("policy", Node::string(cache));
    kv.set(cache, Node::object()).set("block_tokens", Node::integer(number("block_size", 16)));
    speculation(policies);
  }

  void speculation(Node& policies) {
    const Node* config = find("speculative_config");
    if (config == nullptr || !config->is_object()) return;
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
    group.set("count", Node::integer(dp));
    group.set("tensor_parallel", Node::integer(tp));
    group.set("pipeline_parallel", Node::integer(pp));
    root.set("cluster", Node::object()).set("replicas", Node::array()).push(std::move(group));
    if (dp > 1) note("data_parallel_size: replicas of their own behind the router of policies.routing");
    if (flag("enable_expert_parallel", false)) out_.ignored.push_back("enable_expert_parallel=true");
  }

  void replica(Node& root) {
    Node& replica = root.set("replica", Node::object());
    const Node* share = find("gpu_memory_utilization");
    // To a whole 1e-6: 1 - 0.9 is no number one would write.
    const double used = share != nullptr && share->is_number() ? share->as_number() : 0.9;
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
    note("host time between iterations is 0: measure your engine's (docs/serving.md)");
  }

  const EngineArguments& arguments_;
  const ImportOptions& options_;
  ImportedConfig out_;
  std::set<std::string> used_;
};

}  // namespace

EngineArguments engine_arguments(const std::vector<std::string>& words) {
  EngineArguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("-")) {
      // `vllm serve MODEL` names the model by its place.
      if (word == "vllm" || word == "serve") continue;
      if (arguments.contains("model"))
        sim::throw_fault({"arguments", ""}, fmt::format("expected --NAME VALUE, got '{}'", word));
      arguments["model"] = Node::string(word);
      continue;
    }
    std::string name = word.substr(word.find_first_not_of('-') == std::string::npos ? 0 : word.find_first_not_of('-'));
    if (const std::size_t equals = name.find('='); equals != std::string::npos) {
      arguments[canonical(name.substr(0, equals))] = value_of(name.substr(equals + 1));
    } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      arguments[canonical(name)] = value_of(words[++i]);
    } else {
      arguments[canonical(name)] = Node::boolean(true);
    }
  }
  return arguments;
}

EngineArguments engine_arguments(const std::filesystem::path& file) {
  const Node root = sim::read_json(file);
  if (!root.is_object()) sim::throw_fault({file.string(), ""}, "expected an object of engine arguments");
  EngineArguments arguments;
  const Node* resolved = root.find("resolved_config");
  if (root.find("engine_kwargs") == nullptr && resolved == nullptr) {
    add_members(&root, arguments, false);
    return arguments;
  }
  add_members(root.find("engine_kwargs"), arguments, false);
  // Of what an engine resolved, only what one may set and something here stands for.
  static constexpr std::array kResolved{"dtype",
                                        "max_model_len",
                                        "block_size",
                                        "num_gpu_blocks",
                                        "gpu_memory_utilization",
                                        "enable_prefix_caching",
                                        "max_num_batched_tokens",
                                        "max_num_seqs",
                                        "enable_chunked_prefill",
                                        "long_prefill_token_threshold",
                                        "speculative_config",
                                        "quantization",
                                        "tensor_parallel_size",
                                        "pipeline_parallel_size"};
  if (resolved != nullptr) {
    for (const auto& [section, values] : resolved->members()) {
      for (const char* name : kResolved) {
        const Node* value = section == name ? &values : values.find(name);
        if (value != nullptr && !value->is_null()) arguments[canonical(name)] = *value;
      }
    }
  }
  if (const Node* cache = root.find("kv_cache"); cache != nullptr && cache->is_object())
    for (const char* name : {"num_gpu_blocks", "block_size", "gpu_memory_utilization", "enable_prefix_caching"})
      if (const Node* value = cache->find(name); value != nullptr && !value->is_null()) arguments[name] = *value;
  if (const Node* name = root.at("hardware.device_name")) arguments["device_name"] = *name;
  return arguments;
}

ImportedConfig import_vllm(const EngineArguments& arguments, const ImportOptions& options) {
  return Importer(arguments, options).make();
}

}  // namespace orrery::experiments
