// Reads the `config.json` of a Hugging Face model: dense decoder-only transformers of the Llama family.
//
// Supported: LlamaForCausalLM, MistralForCausalLM (without sliding window), Qwen2ForCausalLM, Qwen3ForCausalLM; that is
// pre-norm blocks of grouped-query attention with rotary positions and a gated SiLU feed-forward. Absent keys mean what
// they mean to the `transformers` library (Qwen3 has head_dim 128, Mistral a sliding window of 4096, …). A key that
// would change the computation in a way that is not modelled is a fault; keys without influence on work or memory are
// skipped; keys that are not known at all are skipped and listed in `ignored_keys`.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/kernel.hpp"
#include "sim/base/document.hpp"
#include "sim/base/fault.hpp"

namespace orrery::models {

/// Values of `architectures` that are supported, sorted.
inline constexpr std::array<std::string_view, 4> kArchitectures = {"LlamaForCausalLM", "MistralForCausalLM",
                                                                   "Qwen2ForCausalLM", "Qwen3ForCausalLM"};

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
  bool mlp_bias = false;                  ///< of gate, up and down
  bool qk_norm = false;                   ///< RMS norm of each head of q and k before rotary positions
  std::optional<hw::DType> dtype;         ///< of the published weights
  std::vector<std::string> ignored_keys;  ///< unknown keys, in the order of the file
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
