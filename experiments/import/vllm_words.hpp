// Words of vLLM's engine arguments in the words of our configs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orrery::experiments {

/// `model.dtype` or `model.kv_dtype` for a dtype or a cache dtype ("bfloat16", "torch.float16", "fp8_e4m3").
std::optional<std::string_view> number_format(std::string_view name);
/// `model.weight_dtype` for a quantisation method whose weights are always of one format; nothing for methods that come
/// in several ("compressed-tensors", "bitsandbytes", "gguf" …).
std::optional<std::string_view> weight_format(std::string_view method);
/// A whole number as vLLM reads it: "32000", "32k" (thousands), "32K" (of 1,024), and m, M, g, G likewise.
std::optional<std::int64_t> human_number(std::string_view text);

}  // namespace orrery::experiments
