// What the tests of this folder share: the catalog, and seeded random model configs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

#include "models/transformer/hf_config.hpp"
#include "models/transformer/transformer.hpp"

namespace orrery::models::test {

inline std::filesystem::path catalog() {
  return std::filesystem::path(ORRERY_SOURCE_DIR) / "models" / "catalog";
}

inline ModelConfig model(const std::string& name) {
  return load_model("catalog:" + name, catalog());
}

/// Draws that are the same on every platform (the standard distributions are not).
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : bits_(seed) {}
  /// From `low` to `high`, both included.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool flip() { return integer(0, 1) == 1; }

 private:
  std::mt19937_64 bits_;
};

/// A config whose heads and intermediate size are multiples of 8 and whose KV heads are a power of two up to 16.
inline ModelConfig random_config(Draw& draw) {
  ModelConfig c;
  c.architecture = "LlamaForCausalLM";
  c.kv_heads = std::int64_t{1} << draw.integer(0, 4);
  c.heads = c.kv_heads * 8 * draw.integer(1, 4);
  c.head_dim = 8 * draw.integer(1, 20);
  c.hidden_size = draw.integer(64, 9000);
  c.intermediate_size = 8 * draw.integer(8, 3000);
  c.layers = draw.integer(1, 90);
  c.vocab_size = draw.integer(100, 200000);
  c.max_position_embeddings = 4096;
  c.tie_word_embeddings = draw.flip();
  c.qkv_bias = draw.flip();
  c.out_bias = draw.flip();
  c.mlp_bias = draw.flip();
  c.qk_norm = draw.flip();
  return c;
}

inline hw::DType random_dtype(Draw& draw) {
  constexpr hw::DType kAll[] = {hw::DType::fp32, hw::DType::fp16, hw::DType::bf16, hw::DType::fp8, hw::DType::int8};
  return kAll[draw.integer(0, 4)];
}

}  // namespace orrery::models::test
