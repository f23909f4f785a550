// What families of models say in their configs beyond the common keys: experts, latents, windows, older layouts.
//
// ConfigReader reads single keys with their faults; each family is one function over it. family_keys() names the keys
// that it reads, so that elsewhere they stay faults. Absent keys mean what they mean to the `transformers` library.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "models/transformer/hf_config.hpp"
#include "sim/base/document.hpp"
#include "sim/base/fault.hpp"

namespace orrery::models {

/// Keys of one config. Readers leave their target alone and add a fault if the value does not do.
class ConfigReader {
 public:
  ConfigReader(const sim::Node& node, sim::Faults& faults) : node_(node), faults_(faults) {}

  const sim::Node& node() const { return node_; }
  sim::Faults& faults() const { return faults_; }
  /// The member, unless absent or null (configs write null for "the default").
  const sim::Node* find(std::string_view key) const;
  void size(const sim::Node& value, std::int64_t max, std::int64_t& out, std::int64_t min = 1) const;
  /// The member if it is there; else a fault if `required`.
  void size(std::string_view key, std::int64_t max, std::int64_t& out, bool required, std::int64_t min = 1) const;
  bool flag(std::string_view key, bool absent = false) const;

 private:
  const sim::Node& node_;
  sim::Faults& faults_;
};

enum class Family : std::uint8_t {
  plain,
  mixtral,
  minimax,
  qwen2_moe,
  qwen3_moe,
  qwen3_next,
  gpt_oss,
  deepseek,
  opt,
  falcon
};

/// Keys that the family reads, or that have no influence on work and memory in it.
std::span<const std::string_view> family_keys(Family family);
/// Sizes that the family gives under other names than most; called before the common keys are read.
void read_family_shape(Family family, const ConfigReader& read, ModelConfig& config);
/// What the family says beyond the common keys; called after them.
void read_family(Family family, const ConfigReader& read, ModelConfig& config);
/// `layer_types`: which layers attend to a window. Where there are none, `config.windowed` is left as it is.
void read_windowed_layers(const ConfigReader& read, ModelConfig& config);
/// `quantization_config`: how weights are stored. A method that is not known is a fault with `hint`.
void read_quantisation(const ConfigReader& read, const std::string& hint, ModelConfig& config);

}  // namespace orrery::models
