// Reads the `config.json` of a Hugging Face model: decoder-only transformers, dense or with experts.
//
// Supported: Llama, Mistral, Qwen2, Qwen3 (pre-norm blocks of grouped-query attention with rotary positions and a gated
// SiLU feed-forward, in all layers of Mistral and some of Qwen within a sliding window); Mixtral, MiniMax-M2, Qwen3-MoE
// and gpt-oss (experts in place of the feed-forward; gpt-oss alternates sliding windows and full attention);
// DeepSeek-V3 and R1 (attention over a latent, shared and routed experts, dense first layers, layers that predict
// further tokens); OPT (learned positions, layer norms, ReLU), Falcon of the new decoder (attention beside the
// feed-forward) and Qwen3-Next and Qwen3.5 with experts (three layers of linear attention to one of gated attention).
// Absent keys mean what they mean to the `transformers` library (Qwen3 has head_dim 128, Mistral a sliding window of
// 4096, …). A key that would change the computation in a way that is not modelled is a fault; keys without influence on
// work or memory are skipped; keys that are not known at all are skipped and listed in `ignored_keys`.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/base/kernel.hpp"
#include "sim/base/document.hpp"
#include "sim/base/fault.hpp"

namespace orrery::models {

/// Values of `architectures` that are supported, sorted.
inline constexpr std::array<std::string_view, 15> kArchitectures = {
    "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "FalconForCausalLM",    "GptOssForCausalLM",
    "LlamaForCausalLM",      "MiniMaxM2ForCausalLM",  "MistralForCausalLM",   "MixtralForCausalLM",
    "OPTForCausalLM",        "Qwen2ForCausalLM",      "Qwen2MoeForCausalLM",  "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",   "Qwen3NextForCausalLM",  "Qwen3_5MoeForCausalLM"};

/// Experts of the layers that have them; `count` 0: there are none.
struct ExpertConfig {
  std::int64_t count = 0, per_token = 0;
  std::int64_t intermediate_size = 0;             ///< of one expert
  std::int64_t shared_intermediate_size = 0;      ///< of the shared experts together, which every token passes; 0: none
  std::int64_t dense_layers = 0;                  ///< first layers with a plain feed-forward
  std::int64_t step = 1;                          ///< of the others, every step-th layer of the model has experts
  bool router_bias = false, expert_bias = false;  ///< of their products
  bool score_bias = false;                        ///< evens the router's choices out; no gradient's
};

/// Attention whose keys and values are projected from a latent of `kv_rank` elements, which the cache holds (MLA).
struct LatentConfig {
  std::int64_t kv_rank = 0;                 ///< 0: plain attention
  std::int64_t q_rank = 0;                  ///< of the latent of queries; 0: they are projected from the hidden state
  std::int64_t nope_dim = 0, rope_dim = 0;  ///< of a head's query and key: without and with rotary positions
  std::int64_t value_dim = 0;
};

/// Layers whose attention is a recurrence over a state (Gated DeltaNet; Yang et al., 2024), of constant size a
/// sequence.
struct LinearConfig {
  std::int64_t interval = 0;  ///< every interval-th layer has full attention, the others are linear; 0: none is
  std::int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  std::int64_t conv = 0;  ///< tokens that the convolution before it sees
  /// Channels of the convolution: queries, keys and values.
  std::int64_t channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
};

/// What a config says about work and memory. A parsed one holds: every size is positive, kv_heads divides heads.
struct ModelConfig {
  std::string name;          ///< catalog name, or the path it was read from
  std::string architecture;  ///< one of kArchitectures
  std::string source;        ///< where the facts come from (`_source`), or empty
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  bool tie_word_embeddings = false;  ///< the head reads the embedding table
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;               ///< of gate, up and down
  bool qk_norm = false;                ///< RMS norm of each head of q and k before rotary positions
  bool gated = true;                   ///< gate and up of a SiLU feed-forward; else up alone (ReLU, GELU)
  bool layer_norm = false;             ///< layer norms with weight and bias; else RMS norms
  bool parallel_block = false;         ///< attention and feed-forward read the same input and are summed once
  bool attention_sinks = false;        ///< a learned logit for each head
  std::int64_t learned_positions = 0;  ///< rows of a table of positions; 0: rotary
  std::int64_t sliding_window = 0;     ///< tokens that windowed layers attend to; 0: there are none
  std::vector<bool> windowed;          ///< by layer; empty: none
  ExpertConfig experts;
  LatentConfig latent;
  LinearConfig linear;
  bool attention_gate = false;  ///< the output of (full) attention is multiplied by a gate as wide as the queries
  std::int64_t mtp_layers = 0;  ///< that predict further tokens (DeepSeek), beside `layers`
  /// Of published weights, where they are quantised: projections and feed-forward, and experts.
  hw::WeightFormat weights = hw::WeightFormat::as_dtype, expert_weights = hw::WeightFormat::as_dtype;
  std::optional<hw::DType> dtype;         ///< of the published weights
  std::vector<std::string> ignored_keys;  ///< unknown keys, in the order of the file

  bool has_experts(std::int64_t layer) const {
    return experts.count > 0 && layer >= experts.dense_layers && (layer + 1) % experts.step == 0;
  }
  bool has_linear(std::int64_t layer) const { return linear.interval > 0 && (layer + 1) % linear.interval != 0; }
  /// Layers with keys and values in the cache.
  std::int64_t cached_layers() const { return linear.interval > 0 ? layers / linear.interval : layers; }
  bool has_window(std::int64_t layer) const {
    return sliding_window > 0 && static_cast<std::size_t>(layer) < windowed.size() &&
           windowed[static_cast<std::size_t>(layer)];
  }
};

/// Reads a config; every fault goes to `faults` with its JSON pointer, and then the result is not to be used.
ModelConfig parse_hf_config(const sim::Node& node, sim::Faults& faults);

/// Reads the model that `reference` names: "catalog:NAME" (a file of `catalog`), a config file, or a folder that holds
/// a `config.json`. `where` is the place of the reference, for messages. Throws sim::ConfigError with all faults.
ModelConfig load_model(const std::string& reference, const std::filesystem::path& catalog,
                       const sim::Origin& where = {});

/// Names of the models of a catalog folder, sorted; empty if the folder is not there.
std::vector<std::string> catalog_models(const std::filesystem::path& catalog);

}  // namespace orrery::models
