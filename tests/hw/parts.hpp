// The parts that the tests of this folder measure models on.
#pragma once

#include <memory>
#include <string>

#include "hw/cost/cost_model.hpp"
#include "hw/parts/catalog.hpp"

namespace orrery::hw::test {

/// A part of the shipped catalog, e.g. "a100-sxm4-80gb".
inline GpuParams part(const std::string& name) {
  return read_part<GpuParams>(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json").part;
}

/// A model with default parameters.
inline std::unique_ptr<CostModel> model(const std::string& name, const Part& part) {
  return make_cost_model(name, part);
}

/// Prefill of `sequences` prompts of `tokens` without a cache.
inline AttentionPrefill prompts(std::int64_t sequences, std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads,
                                std::int64_t head_dim = 128) {
  return {sequences,
          sequences * tokens,
          sequences * tokens,
          sequences * tokens * (tokens + 1) / 2,
          sequences * ((tokens + 127) / 128),
          heads,
          kv_heads,
          head_dim};
}

}  // namespace orrery::hw::test
