// Number formats of a model as it is served: of activations, weights and cache, and how activations get into the bits of
// the weights.
#pragma once

#include <cstdint>
#include <optional>

#include "hw/base/kernel.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::models {

using sim::to_string;

/// What turns activations into the 8 or 4 bits of a product's weights.
///   fused   the kernel that writes them: no pass of its own
///   block   a pass before each product whose weights have scales by block (nvfp4, and fp8 of a model that is published
///           in fp8): one kernel, a scale for 16 or 128 elements
///   tensor  three kernels before each product in 8 bits: a scale set to zero, the largest magnitude of all, and the
///           conversion (vLLM of 2024 with `--quantization fp8`: scaled_fp8_quant without a scale)
enum class ActivationScales : std::uint8_t { fused, block, tensor };
constexpr auto enum_names(ActivationScales) {
  using enum ActivationScales;
  return sim::names<ActivationScales>({{"fused", fused}, {"block", block}, {"tensor", tensor}});
}

/// Number formats of a model as it is served.
struct NumberFormats {
  hw::DType dtype = hw::DType::fp16;  ///< activations, norms, embedding, router and head
  hw::WeightFormat attention = hw::WeightFormat::as_dtype;
  hw::WeightFormat ffn = hw::WeightFormat::as_dtype;  ///< and shared experts
  hw::WeightFormat experts = hw::WeightFormat::as_dtype;
  std::optional<hw::DType> cache;  ///< of cached keys and values; absent: as dtype
  ActivationScales activations = ActivationScales::fused;
};

}  // namespace orrery::models
