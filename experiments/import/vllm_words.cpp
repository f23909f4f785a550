#include "experiments/import/vllm_words.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace orrery::experiments {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

template <std::size_t N>
std::optional<std::string_view> look_up(const std::array<Pair, N>& table, std::string_view name) {
  for (const auto& [theirs, ours] : table)
    if (theirs == name) return ours;
  return std::nullopt;
}

constexpr std::array<Pair, 12> kNumbers{{{"bfloat16", "bf16"},
                                         {"bf16", "bf16"},
                                         {"float16", "fp16"},
                                         {"half", "fp16"},
                                         {"fp16", "fp16"},
                                         {"float32", "fp32"},
                                         {"float", "fp32"},
                                         {"fp8", "fp8"},
                                         {"fp8_e4m3", "fp8"},
                                         {"fp8_e5m2", "fp8"},
                                         {"fp8_inc", "fp8"},
                                         {"int8", "int8"}}};

// AWQ and GPTQ of 4 bits, their usual and (AWQ) only width; what the method's name does not tell is left out.
constexpr std::array<Pair, 12> kWeights{{{"fp8", "fp8"},
                                         {"fbgemm_fp8", "fp8"},
                                         {"ptpc_fp8", "fp8"},
                                         {"modelopt", "fp8"},
                                         {"awq", "int4"},
                                         {"awq_marlin", "int4"},
                                         {"gptq", "int4"},
                                         {"gptq_marlin", "int4"},
                                         {"mxfp4", "mxfp4"},
                                         {"modelopt_fp4", "nvfp4"},
                                         {"petit_nvfp4", "nvfp4"},
                                         {"tpu_int8", "int8"}}};

}  // namespace

std::optional<std::string_view> number_format(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  return look_up(kNumbers, name);
}

std::optional<std::string_view> weight_format(std::string_view method) {
  return look_up(kWeights, method);
}

std::optional<std::int64_t> human_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double factor = 1;
  for (const auto& [name, is] :
       {std::pair{"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"K", 1024.0}, {"M", 1048576.0}, {"G", 1073741824.0}})
    if (unit == name) factor = is;
  if ((factor == 1) != unit.empty()) return std::nullopt;
  const double whole = value * factor;
  if (whole < 0 || whole > 1e15 || whole != static_cast<double>(static_cast<std::int64_t>(whole))) return std::nullopt;
  return static_cast<std::int64_t>(whole);
}

}  // namespace orrery::experiments
