#include "models/transformer/hf_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "models/transformer/hf_families.hpp"
#include "sim/base/name_match.hpp"

namespace orrery::models {
namespace {

/// When a `sliding_window` is in use.
enum class Window : std::uint8_t {
  none,            ///< never: the library's model has no windows
  if_given,        ///< when it is not null
  unless_null,     ///< also when absent: then the library's default holds
  if_switched_on,  ///< when use_sliding_window is true
  by_layer,        ///< in the layers that say so
};

/// What an architecture does without being told by a key, and which keys it reads (modeling_*.py of transformers).
struct Architecture {
  std::string_view name, model_type;
  Window window;
  bool kv_heads_default_to_heads;
  std::int64_t head_dim;  ///< default; 0: hidden_size / num_attention_heads
  bool qkv_bias, qk_norm;
  bool reads_attention_bias, reads_mlp_bias;
  Family family = Family::plain;
};

constexpr std::array<Architecture, kArchitectures.size()> kTraits = {{
    {"LlamaForCausalLM", "llama", Window::none, true, 0, false, false, true, true},
    {"MistralForCausalLM", "mistral", Window::unless_null, false, 0, false, false, false, false},
    {"Qwen2ForCausalLM", "qwen2", Window::if_switched_on, false, 0, true, false, false, false},
    {"Qwen3ForCausalLM", "qwen3", Window::if_switched_on, false, 128, false, true, true, false},
    {"MixtralForCausalLM", "mixtral", Window::if_given, false, 0, false, false, false, false, Family::mixtral},
    {"MiniMaxM2ForCausalLM", "minimax_m2", Window::none, false, 0, false, true, false, false, Family::minimax},
    {"Qwen2MoeForCausalLM", "qwen2_moe", Window::if_switched_on, false, 0, true, false, false, false,
     Family::qwen2_moe},
    {"Qwen3MoeForCausalLM", "qwen3_moe", Window::if_switched_on, false, 128, false, true, true, false,
     Family::qwen3_moe},
    {"Qwen3NextForCausalLM", "qwen3_next", Window::by_layer, false, 256, false, true, true, false, Family::qwen3_next},
    {"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", Window::by_layer, false, 256, false, true, true, false,
     Family::qwen3_next},
    {"GptOssForCausalLM", "gpt_oss", Window::by_layer, false, 64, true, false, false, false, Family::gpt_oss},
    {"DeepseekV2ForCausalLM", "deepseek_v2", Window::none, true, 0, false, false, false, false, Family::deepseek},
    {"DeepseekV3ForCausalLM", "deepseek_v3", Window::none, true, 0, false, false, false, false, Family::deepseek},
    {"OPTForCausalLM", "opt", Window::none, true, 0, false, false, false, false, Family::opt},
    {"FalconForCausalLM", "falcon", Window::none, true, 0, false, false, false, false, Family::falcon},
}};

constexpr std::int64_t kDefaultWindow = 4096;  // MistralConfig, Qwen2Config and the like
constexpr std::int64_t kQwenFullLayers = 28;   // max_window_layers of Qwen2Config and the like

/// Keys that change the computation in ways that are not modelled: a fault unless null, false, 0 or empty.
constexpr std::pair<std::string_view, std::string_view> kUnsupported[] = {
    {"attn_logit_softcapping", "soft-capped attention"},
    {"attention_chunk_size", "chunked attention"},
    {"compression_config", "quantised weights"},
    {"cross_attention_layers", "cross-attention"},
    {"final_logit_softcapping", "soft-capped logits"},
    {"is_encoder_decoder", "an encoder"},
    {"kv_lora_rank", "latent attention"},
    {"moe_intermediate_size", "mixture of experts"},
    {"n_routed_experts", "mixture of experts"},
    {"num_experts", "mixture of experts"},
    {"num_experts_per_tok", "mixture of experts"},
    {"num_local_experts", "mixture of experts"},
    {"num_nextn_predict_layers", "multi-token prediction"},
    {"q_lora_rank", "latent attention"},
    {"text_config", "a multimodal model"},
    {"vision_config", "a multimodal model"},
};

/// Keys that are read below, and keys without influence on work and memory. Those that start with '_' are metadata.
constexpr std::string_view kKnown[] = {
    "architectures", "model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings", "tie_word_embeddings", "attention_bias",
    "mlp_bias", "hidden_act", "torch_dtype", "dtype", "sliding_window", "use_sliding_window", "layer_types",
    "max_window_layers", "partial_rotary_factor", "rope_parameters", "quantization_config",
    // without influence
    "attention_dropout", "bos_token_id", "eos_token_id", "initializer_range", "pad_token_id", "pretraining_tp",
    "rms_norm_eps", "rope_interleaved", "rope_scaling", "rope_theta", "transformers_version", "use_cache"};

struct SizeKey {
  std::string_view key;
  std::int64_t ModelConfig::*member;
  std::int64_t max;  ///< keeps the product of all sizes, hence every count of parameters and bytes, within 64 bits
};
constexpr SizeKey kSizes[] = {
    {"hidden_size", &ModelConfig::hidden_size, 1 << 20},
    {"intermediate_size", &ModelConfig::intermediate_size, 1 << 22},
    {"num_hidden_layers", &ModelConfig::layers, 1 << 12},
    {"num_attention_heads", &ModelConfig::heads, 1 << 12},
    {"vocab_size", &ModelConfig::vocab_size, 1 << 24},
    {"max_position_embeddings", &ModelConfig::max_position_embeddings, 1 << 30},
};
constexpr std::int64_t kMaxHeadDim = 1 << 12;

constexpr std::pair<std::string_view, hw::DType> kDTypes[] = {
    {"bfloat16", hw::DType::bf16}, {"float16", hw::DType::fp16},      {"float32", hw::DType::fp32},
    {"int8", hw::DType::int8},     {"float8_e4m3fn", hw::DType::fp8}, {"float8_e5m2", hw::DType::fp8},
};

std::string supported() {
  return fmt::format("supported: {}", fmt::join(kArchitectures, ", "));
}

/// Reads one config. Every reader leaves its target alone and adds a fault if the value does not do.
class ConfigParser : private ConfigReader {
 public:
  ConfigParser(const sim::Node& node, sim::Faults& faults) : ConfigReader(node, faults), node_(node), faults_(faults) {}

  ModelConfig parse() {
    if (!node_.is_object()) {
      faults_.add(node_.origin(), "expected a model config (an object), got " + node_.shown());
      return {};
    }
    traits_ = read_architecture();
    if (traits_ == nullptr) return {};  // what the other keys mean is not known
    config_.architecture = traits_->name;
    if (const sim::Node* source = node_.find("_source"); source != nullptr && source->is_string())
      config_.source = source->as_string();
    read_shape();
    read_flags();
    read_dtype();
    read_family(traits_->family, *this, config_);
    read_quantisation(*this, supported(), config_);
    refuse_unsupported();
    read_window();
    for (const auto& [key, value] : node_.members())
      if (!is_known(key)) config_.ignored_keys.push_back(key);
    return std::move(config_);
  }

 private:
  /// Whether the family of the model reads the key itself.
  bool is_of_family(std::string_view key) const {
    return std::ranges::find(family_keys(traits_->family), key) != family_keys(traits_->family).end();
  }

  bool is_known(std::string_view key) const {
    return is_of_family(key) || key.starts_with('_') || std::ranges::find(kKnown, key) != std::end(kKnown) ||
           std::ranges::find(kUnsupported, key, &std::pair<std::string_view, std::string_view>::first) !=
               std::end(kUnsupported);
  }

  const Architecture* read_architecture() {
    const sim::Node* types = find("architectures");
    const sim::Node* type = find("model_type");
    const sim::Node* named = types;
    if (types != nullptr) {
      if (!types->is_array() || types->items().size() != 1 || !types->items()[0].is_string()) {
        faults_.add(types->origin(), "expected an array of one architecture, got " + types->dump(), supported());
        return nullptr;
      }
      named = &types->items()[0];
    } else if (type != nullptr && type->is_string()) {
      named = type;
    } else {
      faults_.add(node_.origin_of("architectures"), "missing: the model's architecture is required", supported());
      return nullptr;
    }
    for (const Architecture& traits : kTraits) {
      if (named->as_string() != (named == type ? traits.model_type : traits.name)) continue;
      if (type != nullptr && (!type->is_string() || type->as_string() != traits.model_type))
        faults_.add(type->origin(), fmt::format("expected \"{}\", the type of {}, got {}", traits.model_type,
                                                traits.name, type->shown()));
      return &traits;
    }
    faults_.add(named->origin(), "unsupported architecture " + named->shown(), supported());
    return nullptr;
  }

  void read_shape() {
    for (const SizeKey& s : kSizes)
      if (s.key == "hidden_size") size(s.key, s.max, config_.*s.member, true);
    read_family_shape(traits_->family, *this, config_);
    // What the family has given under another name need not be there.
    for (const SizeKey& s : kSizes)
      if (s.key != "hidden_size") size(s.key, s.max, config_.*s.member, config_.*s.member == 0);
    if (traits_->family == Family::falcon) {
      check_kv_heads(node_.origin_of("num_kv_heads"));
    } else {
      read_kv_heads();
    }
    read_head_dim();
  }

  void read_kv_heads() {
    const sim::Node* value = find("num_key_value_heads");
    if (value == nullptr) {
      if (!traits_->kv_heads_default_to_heads)
        faults_.add(node_.origin_of("num_key_value_heads"), "missing: expected a whole number >= 1");
      config_.kv_heads = config_.heads;
      return;
    }
    size(*value, 1 << 12, config_.kv_heads);
    check_kv_heads(value->origin());
  }

  void check_kv_heads(const sim::Origin& where) {
    if (config_.heads > 0 && config_.kv_heads > 0 && config_.heads % config_.kv_heads != 0)
      faults_.add(where, fmt::format("expected a divisor of num_attention_heads ({}), got {}", config_.heads,
                                     config_.kv_heads));
  }

  void read_head_dim() {
    if (traits_->family == Family::deepseek) return;  // its heads have sizes of their own
    if (const sim::Node* value = find("head_dim")) {
      size(*value, kMaxHeadDim, config_.head_dim);
    } else if (traits_->head_dim != 0) {
      config_.head_dim = traits_->head_dim;
    } else if (config_.hidden_size > 0 && config_.heads > 0) {
      if (config_.hidden_size % config_.heads != 0) {
        faults_.add(
            node_.find("hidden_size")->origin(),
            fmt::format("expected a multiple of num_attention_heads ({}), got {}", config_.heads, config_.hidden_size),
            "or give head_dim");
      } else if (config_.hidden_size / config_.heads > kMaxHeadDim) {
        faults_.add(node_.find("hidden_size")->origin(), fmt::format("expected heads of at most {} elements, got {}",
                                                                     kMaxHeadDim, config_.hidden_size / config_.heads));
      } else {
        config_.head_dim = config_.hidden_size / config_.heads;
      }
    }
  }

  void read_flags() {
    config_.tie_word_embeddings = flag("tie_word_embeddings");
    const bool attention_bias = flag("attention_bias") && traits_->reads_attention_bias;
    config_.qkv_bias = traits_->qkv_bias || attention_bias;
    config_.out_bias = attention_bias;
    config_.mlp_bias = flag("mlp_bias") && traits_->reads_mlp_bias;
    config_.qk_norm = traits_->qk_norm;
    const sim::Node* act = find("hidden_act");
    if (act != nullptr && (!act->is_string() || (act->as_string() != "silu" && act->as_string() != "swish")))
      faults_.add(act->origin(), "expected \"silu\", got " + act->shown(), "other activations are not supported");
  }

  void read_dtype() {
    const sim::Node* value = find("dtype");
    if (value == nullptr) value = find("torch_dtype");
    if (value == nullptr) return;
    std::vector<std::string> known;
    for (const auto& [name, dtype] : kDTypes) {
      known.emplace_back(name);
      if (value->is_string() && value->as_string() == name) config_.dtype = dtype;
    }
    if (config_.dtype) return;
    faults_.add(value->origin(), "expected a number format, got " + value->shown(),
                sim::name_hint(value->is_string() ? value->as_string() : "", known));
  }

  /// Rotary positions on only a part of each head would need another count of work.
  void refuse_partial_rotary(const sim::Node& holder) {
    if (traits_->family == Family::qwen3_next) return;  // they count as full: a pass of microseconds
    const sim::Node* factor = holder.find("partial_rotary_factor");
    if (factor == nullptr || factor->is_null() || (factor->is_number() && factor->as_number() == 1.0)) return;
    faults_.add(factor->origin(), "expected 1, got " + factor->shown(), "partial rotary positions are not supported");
  }

  void refuse_unsupported() {
    for (const auto& [key, what] : kUnsupported) {
      const sim::Node* value = find(key);
      if (value == nullptr || is_of_family(key)) continue;
      const bool off = (value->kind() == sim::Node::Kind::boolean && !value->as_boolean()) ||
                       (value->is_number() && value->as_number() == 0) || (value->is_array() && value->items().empty());
      if (!off) faults_.add(value->origin(), fmt::format("unsupported: {}, got {}", what, value->shown()), supported());
    }
    refuse_partial_rotary(node_);
    if (const sim::Node* rope = find("rope_parameters"); rope != nullptr && rope->is_object())
      refuse_partial_rotary(*rope);
  }

  void refuse_other_layers() {
    const sim::Node* types = find("layer_types");
    if (types == nullptr || !types->is_array()) return;
    for (const sim::Node& type : types->items())
      if (!type.is_string() || type.as_string() != "full_attention")
        faults_.add(type.origin(), "expected \"full_attention\", got " + type.shown(),
                    "other layers are not supported");
  }

  /// Tokens of the window that is in use; 0: none.
  std::int64_t window_in_use() {
    if (traits_->window == Window::if_switched_on && !flag("use_sliding_window")) return 0;
    const sim::Node* value = node_.find("sliding_window");
    const bool by_default = traits_->window == Window::unless_null || traits_->window == Window::if_switched_on;
    if (value == nullptr) return by_default ? kDefaultWindow : 0;
    std::int64_t window = 0;
    if (!value->is_null()) size(*value, std::int64_t{1} << 40, window);
    return window;
  }

  /// Where layer_types says nothing. `most`: max_window_layers, which Qwen's models read each in a way of their own.
  bool has_window(std::int64_t layer, std::int64_t most) const {
    if (traits_->window != Window::if_switched_on || traits_->family == Family::qwen3_moe) return true;
    if (traits_->family == Family::qwen2_moe) return layer % 2 == 0 && layer < most;
    return layer >= most;
  }

  void read_window() {
    if (traits_->window == Window::by_layer) return;  // the family's
    const std::int64_t window = window_in_use();
    const bool reached = window > 0 && window < config_.max_position_embeddings;
    if (window == 0 || traits_->window == Window::none) {
      if (reached)
        faults_.add(node_.find("sliding_window")->origin(),
                    fmt::format("expected null or a window of at least max_position_embeddings ({}), got {}",
                                config_.max_position_embeddings, window),
                    fmt::format("{} has no windows", traits_->name));
      return refuse_other_layers();
    }
    std::int64_t most = kQwenFullLayers;
    size("max_window_layers", 1 << 12, most, false, 0);
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) config_.windowed.push_back(has_window(layer, most));
    read_windowed_layers(*this, config_);
    const bool any = std::ranges::find(config_.windowed, true) != config_.windowed.end();
    if (reached && any)
      config_.sliding_window = window;
    else
      config_.windowed.clear();
  }

  const sim::Node& node_;
  sim::Faults& faults_;
  const Architecture* traits_ = nullptr;
  ModelConfig config_;
};

}  // namespace

ModelConfig parse_hf_config(const sim::Node& node, sim::Faults& faults) {
  return ConfigParser(node, faults).parse();
}

ModelConfig load_model(const std::string& reference, const std::filesystem::path& catalog, const sim::Origin& where) {
  constexpr std::string_view kScheme = "catalog:";
  std::filesystem::path path = reference;
  std::string name = reference;
  if (reference.starts_with(kScheme)) {
    name = reference.substr(kScheme.size());
    const sim::NameMatch match = sim::match_in_catalog(name, catalog);
    if (!match)
      sim::throw_fault(where, fmt::format("no model '{}' in the catalog", name),
                       sim::name_hint(name, catalog_models(catalog)));
    name = match.name;
    path = catalog / (name + ".json");
  } else if (std::filesystem::is_directory(path)) {
    path /= "config.json";
  }
  if (!std::filesystem::is_regular_file(path))
    sim::throw_fault(where, fmt::format("expected a model config, found no file '{}'", path.string()),
                     "a path or catalog:NAME");
  sim::Faults faults;
  ModelConfig config = parse_hf_config(sim::read_json(path), faults);
  faults.throw_if_any();
  config.name = std::move(name);
  return config;
}

std::vector<std::string> catalog_models(const std::filesystem::path& catalog) {
  return sim::catalog_names(catalog);
}

}  // namespace orrery::models
