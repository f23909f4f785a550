// Engine arguments from a command line, and from a file.
#include <fmt/format.h>

#include <array>

#include "experiments/import/vllm_args.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

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

/// Adds what an object holds; an argument that is there already stays unless `over`.
void add_members(const Node* object, EngineArguments& arguments, bool over) {
  if (object == nullptr || !object->is_object()) return;
  for (const auto& [name, value] : object->members()) {
    if (over && (value.is_null() || (value.is_object() && name != "speculative_config"))) continue;
    const auto [entry, fresh] = arguments.try_emplace(canonical(name), value);
    if (!fresh && over) entry->second = value;
  }
}

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
      arguments[canonical(name.substr(0, equals))] = argument_value(name.substr(equals + 1));
    } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      arguments[canonical(name)] = argument_value(words[++i]);
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
                                        "cache_dtype",
                                        "enable_expert_parallel",
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

}  // namespace orrery::experiments
