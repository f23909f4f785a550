#include "models/transformer/hf_families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace orrery::models {
namespace {

constexpr std::int64_t kMostExperts = 1 << 12;
constexpr std::int64_t kMostHidden = 1 << 20;
constexpr std::int64_t kMostInner = 1 << 22;
constexpr std::int64_t kMostHeadDim = 1 << 12;

constexpr std::array<std::string_view, 8> kMixtralKeys = {
    "num_local_experts",   "num_experts_per_tok", "output_router_logits", "router_aux_loss_coef",
    "router_jitter_noise", "hidden_act",          "rope_theta",           "sliding_window"};
constexpr std::array<std::string_view, 8> kQwen3MoeKeys = {
    "num_experts",     "num_experts_per_tok",  "moe_intermediate_size", "decoder_sparse_step",
    "mlp_only_layers", "output_router_logits", "router_aux_loss_coef",  "norm_topk_prob"};
constexpr std::array<std::string_view, 18> kQwen3NextKeys = {"num_experts",
                                                             "num_experts_per_tok",
                                                             "moe_intermediate_size",
                                                             "shared_expert_intermediate_size",
                                                             "decoder_sparse_step",
                                                             "mlp_only_layers",
                                                             "output_router_logits",
                                                             "router_aux_loss_coef",
                                                             "norm_topk_prob",
                                                             "full_attention_interval",
                                                             "layer_types",
                                                             "linear_num_key_heads",
                                                             "linear_num_value_heads",
                                                             "linear_key_head_dim",
                                                             "linear_value_head_dim",
                                                             "linear_conv_kernel_dim",
                                                             "attn_output_gate",
                                                             "mamba_ssm_dtype"};
constexpr std::array<std::string_view, 11> kGptOssKeys = {
    "num_local_experts",    "num_experts_per_tok",  "experts_per_token", "sliding_window",
    "layer_types",          "quantization_config",  "swiglu_limit",      "initial_context_length",
    "output_router_logits", "router_aux_loss_coef", "rope_scaling"};
constexpr std::array<std::string_view, 21> kDeepseekKeys = {"kv_lora_rank",
                                                            "q_lora_rank",
                                                            "qk_nope_head_dim",
                                                            "qk_rope_head_dim",
                                                            "v_head_dim",
                                                            "n_routed_experts",
                                                            "n_shared_experts",
                                                            "num_experts_per_tok",
                                                            "moe_intermediate_size",
                                                            "first_k_dense_replace",
                                                            "moe_layer_freq",
                                                            "num_nextn_predict_layers",
                                                            "n_group",
                                                            "topk_group",
                                                            "topk_method",
                                                            "scoring_func",
                                                            "norm_topk_prob",
                                                            "routed_scaling_factor",
                                                            "aux_loss_alpha",
                                                            "seq_aux",
                                                            "ep_size"};
constexpr std::array<std::string_view, 13> kOptKeys = {"ffn_dim",
                                                       "word_embed_proj_dim",
                                                       "do_layer_norm_before",
                                                       "activation_function",
                                                       "enable_bias",
                                                       "dropout",
                                                       "layerdrop",
                                                       "init_std",
                                                       "prefix",
                                                       "layer_norm_elementwise_affine",
                                                       "_remove_final_layer_norm",
                                                       "activation_dropout",
                                                       "output_projection"};
constexpr std::array<std::string_view, 11> kFalconKeys = {"num_kv_heads",
                                                          "new_decoder_architecture",
                                                          "parallel_attn",
                                                          "alibi",
                                                          "bias",
                                                          "multi_query",
                                                          "n_head",
                                                          "activation",
                                                          "hidden_dropout",
                                                          "ffn_hidden_size",
                                                          "layer_norm_epsilon"};

/// Rotary positions on a part of each head (rotary_dim) count as on all of it: a pass of microseconds.
constexpr std::array<std::string_view, 16> kMiniMaxKeys = {
    "num_local_experts",    "num_experts_per_tok",    "rotary_dim",       "use_qk_norm",
    "qk_norm_type",         "scoring_func",           "use_routing_bias", "shared_intermediate_size",
    "attn_type_list",       "mtp_transformer_layers", "use_mtp",          "output_router_logits",
    "router_aux_loss_coef", "router_jitter_noise",    "num_mtp_modules",  "head_dim"};

/// Experts take the place of every feed-forward.
void read_mixtral(const ConfigReader& read, ModelConfig& c) {
  read.size("num_local_experts", kMostExperts, c.experts.count, true);
  read.size("num_experts_per_tok", kMostExperts, c.experts.per_token, true);
  c.experts.intermediate_size = c.intermediate_size;
}

void read_qwen3_moe(const ConfigReader& read, ModelConfig& c) {
  read.size("num_experts", kMostExperts, c.experts.count, true);
  read.size("num_experts_per_tok", kMostExperts, c.experts.per_token, true);
  read.size("moe_intermediate_size", kMostInner, c.experts.intermediate_size, true);
  read.size("decoder_sparse_step", 1 << 12, c.experts.step, false);
  const sim::Node* plain = read.find("mlp_only_layers");
  if (plain != nullptr && (!plain->is_array() || !plain->items().empty()))
    read.faults().add(plain->origin(), "expected an empty array, got " + plain->dump(),
                      "single layers without experts are not supported");
}

/// Qwen3NextConfig and Qwen3_5MoeTextConfig: experts everywhere, one shared one, three linear layers to one of full
/// attention. `layer_types`, where it is given, must say the same as the interval.
void read_qwen3_next(const ConfigReader& read, ModelConfig& c) {
  read_qwen3_moe(read, c);
  read.size("shared_expert_intermediate_size", kMostInner, c.experts.shared_intermediate_size, true);
  c.linear = {.interval = 4, .key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .conv = 4};
  read.size("full_attention_interval", 1 << 12, c.linear.interval, false);
  read.size("linear_num_key_heads", 1 << 12, c.linear.key_heads, false);
  read.size("linear_num_value_heads", 1 << 12, c.linear.value_heads, false);
  read.size("linear_key_head_dim", kMostHeadDim, c.linear.key_dim, false);
  read.size("linear_value_head_dim", kMostHeadDim, c.linear.value_dim, false);
  read.size("linear_conv_kernel_dim", 1 << 10, c.linear.conv, false);
  c.attention_gate = read.flag("attn_output_gate", true);
  if (const sim::Node* heads = read.find("linear_num_value_heads");
      heads != nullptr && c.linear.value_heads % c.linear.key_heads != 0)
    read.faults().add(heads->origin(), fmt::format("expected a multiple of linear_num_key_heads ({}), got {}",
                                                   c.linear.key_heads, c.linear.value_heads));
  const sim::Node* types = read.find("layer_types");
  if (types == nullptr) return;
  if (!types->is_array() || types->items().size() != static_cast<std::size_t>(c.layers)) {
    read.faults().add(types->origin(), fmt::format("expected an array of {} layers' types", c.layers));
    return;
  }
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    const sim::Node& type = types->items()[static_cast<std::size_t>(layer)];
    const char* expected = c.has_linear(layer) ? "linear_attention" : "full_attention";
    if (!type.is_string() || type.as_string() != expected)
      read.faults().add(type.origin(),
                        fmt::format("expected \"{}\" by full_attention_interval, got {}", expected, type.shown()));
  }
}

/// Windows alternate with full attention, first a window; biases everywhere.
void read_gpt_oss(const ConfigReader& read, ModelConfig& c) {
  read.size("num_local_experts", kMostExperts, c.experts.count, true);
  const bool other_name = read.find("num_experts_per_tok") == nullptr;
  read.size(other_name ? "experts_per_token" : "num_experts_per_tok", kMostExperts, c.experts.per_token, true);
  c.experts.intermediate_size = c.intermediate_size;
  c.experts.router_bias = c.experts.expert_bias = true;
  c.qkv_bias = c.out_bias = true;
  c.attention_sinks = true;
  c.sliding_window = 128;
  read.size("sliding_window", std::int64_t{1} << 40, c.sliding_window, false);
  for (std::int64_t layer = 0; layer < c.layers; ++layer) c.windowed.push_back(layer % 2 == 0);
  read_windowed_layers(read, c);
}

void read_deepseek(const ConfigReader& read, ModelConfig& c) {
  read.size("kv_lora_rank", kMostHidden, c.latent.kv_rank, true);
  read.size("q_lora_rank", kMostHidden, c.latent.q_rank, false);
  read.size("qk_nope_head_dim", kMostHeadDim, c.latent.nope_dim, true);
  read.size("qk_rope_head_dim", kMostHeadDim, c.latent.rope_dim, true);
  read.size("v_head_dim", kMostHeadDim, c.latent.value_dim, true);
  c.head_dim = c.latent.nope_dim + c.latent.rope_dim;
  read.size("n_routed_experts", kMostExperts, c.experts.count, true);
  read.size("num_experts_per_tok", kMostExperts, c.experts.per_token, true);
  read.size("moe_intermediate_size", kMostInner, c.experts.intermediate_size, true);
  std::int64_t shared = 0;
  read.size("n_shared_experts", kMostExperts, shared, false, 0);
  c.experts.shared_intermediate_size = shared * c.experts.intermediate_size;
  read.size("first_k_dense_replace", 1 << 12, c.experts.dense_layers, false, 0);
  std::int64_t every = 1;
  read.size("moe_layer_freq", 1 << 12, every, false);
  if (every != 1)
    read.faults().add(read.find("moe_layer_freq")->origin(), fmt::format("expected 1, got {}", every),
                      "layers without experts between others are not supported");
  c.experts.score_bias = c.architecture == "DeepseekV3ForCausalLM";  // e_score_correction_bias
  read.size("num_nextn_predict_layers", 64, c.mtp_layers, false, 0);
}

/// OPTConfig: biases unless switched off; positions begin at 2, hence two more rows (OPTLearnedPositionalEmbedding).
void read_opt(const ConfigReader& read, ModelConfig& c) {
  constexpr std::int64_t kPositionOffset = 2;
  const bool biases = read.flag("enable_bias", true);
  c.qkv_bias = c.out_bias = c.mlp_bias = biases;
  c.gated = false;
  c.layer_norm = true;
  c.learned_positions = c.max_position_embeddings + kPositionOffset;
  if (read.find("tie_word_embeddings") == nullptr) c.tie_word_embeddings = true;
  std::int64_t projected = c.hidden_size;
  read.size("word_embed_proj_dim", kMostHidden, projected, false);
  if (projected != c.hidden_size)
    read.faults().add(read.find("word_embed_proj_dim")->origin(),
                      fmt::format("expected hidden_size ({}), got {}", c.hidden_size, projected),
                      "projected embeddings are not supported");
  if (!read.flag("do_layer_norm_before", true))
    read.faults().add(read.find("do_layer_norm_before")->origin(), "expected true, got false",
                      "norms after their operators are not supported");
  const sim::Node* act = read.find("activation_function");
  if (act != nullptr && (!act->is_string() || act->as_string() != "relu"))
    read.faults().add(act->origin(), "expected \"relu\", got " + act->shown(), "other activations are not supported");
}

/// Falcon of the new decoder (40B, 180B): two norms of one input, grouped keys, four times hidden inside.
void read_falcon(const ConfigReader& read, ModelConfig& c) {
  const auto expect = [&](std::string_view key, bool wanted, bool absent) {
    if (read.flag(key, absent) == wanted) return;
    const sim::Node* value = read.find(key);
    read.faults().add(value != nullptr ? value->origin() : read.node().origin_of(key),
                      fmt::format("expected {}, got {}", wanted, !wanted), "other Falcon models are not supported");
  };
  expect("new_decoder_architecture", true, false);
  expect("alibi", false, false);
  c.parallel_block = true;
  c.gated = false;
  c.layer_norm = true;
  const bool biases = read.flag("bias");
  c.qkv_bias = c.out_bias = c.mlp_bias = biases;
  if (read.find("tie_word_embeddings") == nullptr) c.tie_word_embeddings = true;
}

}  // namespace

const sim::Node* ConfigReader::find(std::string_view key) const {
  const sim::Node* value = node_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void ConfigReader::size(const sim::Node& value, std::int64_t max, std::int64_t& out, std::int64_t min) const {
  if (value.kind() != sim::Node::Kind::integer || value.as_integer() < min || value.as_integer() > max) {
    faults_.add(value.origin(), fmt::format("expected a whole number from {} to {}, got {}", min, max, value.shown()));
    return;
  }
  out = value.as_integer();
}

void ConfigReader::size(std::string_view key, std::int64_t max, std::int64_t& out, bool required,
                        std::int64_t min) const {
  if (const sim::Node* value = find(key)) {
    size(*value, max, out, min);
  } else if (required) {
    faults_.add(node_.origin_of(key), fmt::format("missing: expected a whole number from {} to {}", min, max));
  }
}

bool ConfigReader::flag(std::string_view key, bool absent) const {
  const sim::Node* value = find(key);
  if (value == nullptr) return absent;
  if (value->kind() != sim::Node::Kind::boolean) {
    faults_.add(value->origin(), "expected true or false, got " + value->shown());
    return absent;
  }
  return value->as_boolean();
}

void read_windowed_layers(const ConfigReader& read, ModelConfig& c) {
  const sim::Node* types = read.find("layer_types");
  if (types == nullptr) return;
  if (!types->is_array() || types->items().size() != static_cast<std::size_t>(c.layers)) {
    read.faults().add(types->origin(), fmt::format("expected an array of {} layers' types", c.layers));
    return;
  }
  c.windowed.clear();
  for (const sim::Node& type : types->items()) {
    c.windowed.push_back(type.is_string() && type.as_string() == "sliding_attention");
    if (!c.windowed.back() && (!type.is_string() || type.as_string() != "full_attention"))
      read.faults().add(type.origin(), "expected \"full_attention\" or \"sliding_attention\", got " + type.shown());
  }
}

std::span<const std::string_view> family_keys(Family family) {
  switch (family) {
    case Family::plain:
      break;
    case Family::mixtral:
      return kMixtralKeys;
    case Family::minimax:
      return kMiniMaxKeys;
    case Family::qwen2_moe:
      return kQwen3NextKeys;
    case Family::qwen3_moe:
      return kQwen3MoeKeys;
    case Family::qwen3_next:
      return kQwen3NextKeys;
    case Family::gpt_oss:
      return kGptOssKeys;
    case Family::deepseek:
      return kDeepseekKeys;
    case Family::opt:
      return kOptKeys;
    case Family::falcon:
      return kFalconKeys;
  }
  return {};
}

void read_family_shape(Family family, const ConfigReader& read, ModelConfig& c) {
  if (family == Family::opt) read.size("ffn_dim", kMostInner, c.intermediate_size, true);
  if (family != Family::falcon) return;
  read.size("num_kv_heads", 1 << 12, c.kv_heads, true);
  c.intermediate_size = 4 * c.hidden_size;
  read.size("ffn_hidden_size", kMostInner, c.intermediate_size, false);
  c.max_position_embeddings = 2048;  // FalconConfig
}

void read_family(Family family, const ConfigReader& read, ModelConfig& c) {
  switch (family) {
    case Family::plain:
      break;
    case Family::mixtral:
    case Family::minimax:
      read_mixtral(read, c);
      break;
    case Family::qwen2_moe:
      read_qwen3_moe(read, c);
      read.size("shared_expert_intermediate_size", kMostInner, c.experts.shared_intermediate_size, true);
      break;
    case Family::qwen3_moe:
      read_qwen3_moe(read, c);
      break;
    case Family::qwen3_next:
      read_qwen3_next(read, c);
      break;
    case Family::gpt_oss:
      read_gpt_oss(read, c);
      break;
    case Family::deepseek:
      read_deepseek(read, c);
      break;
    case Family::opt:
      read_opt(read, c);
      break;
    case Family::falcon:
      read_falcon(read, c);
      break;
  }
  if (c.experts.count > 0 && c.experts.per_token > c.experts.count)
    read.faults().add(read.node().origin_of("num_experts_per_tok"),
                      fmt::format("expected at most the {} experts, got {}", c.experts.count, c.experts.per_token));
}

void read_quantisation(const ConfigReader& read, const std::string& hint, ModelConfig& c) {
  const sim::Node* value = read.find("quantization_config");
  if (value == nullptr) return;
  const auto text = [&](std::string_view key) {
    const sim::Node* member = value->is_object() ? value->find(key) : nullptr;
    return member != nullptr && member->is_string() ? member->as_string() : std::string();
  };
  const sim::Node* bits = value->is_object() ? value->find("bits") : nullptr;
  const bool four = bits != nullptr && bits->kind() == sim::Node::Kind::integer && bits->as_integer() == 4;
  const std::string method = text("quant_method");
  if (method == "fp8") {
    c.weights = c.expert_weights = hw::WeightFormat::fp8;
  } else if (method == "mxfp4") {
    c.expert_weights = hw::WeightFormat::mxfp4;  // gpt-oss: everything else stays as it is
  } else if ((method == "gptq" || method == "awq") && four) {
    c.weights = c.expert_weights = hw::WeightFormat::int4;
  } else if (method == "modelopt" && text("quant_algo") == "NVFP4") {
    c.weights = c.expert_weights = hw::WeightFormat::nvfp4;
  } else {
    read.faults().add(value->origin(), fmt::format("unsupported: quantised weights, got {}", value->shown()), hint);
  }
}

}  // namespace orrery::models
