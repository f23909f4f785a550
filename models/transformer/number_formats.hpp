// How a model is served that its config does not say: number formats of activations, weights and cache, how activations
// get into the bits of the weights, and how tokens are sampled.
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

/// How the next token is found in the logits: the largest of them, or a draw. A draw takes five passes in fp32, each a
/// kernel: temperature (8 bytes a logit), softmax (12), exponential noise (4), quotient (12) and the largest (4), as
/// vLLM V1's sampler without top-k and top-p.
enum class Sampler : std::uint8_t { greedy, random };
constexpr auto enum_names(Sampler) {
  using enum Sampler;
  return sim::names<Sampler>({{"greedy", greedy}, {"random", random}});
}

}  // namespace orrery::models
