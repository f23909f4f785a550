#include "experiments/systems/training/plan_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>

#include "sim/base/units.hpp"

namespace orrery::experiments::training {
namespace {

/// What offload_text writes; nothing where it is not that.
std::optional<OffloadParams> parse_offload(const std::string& text) {
  OffloadParams out;
  if (text.ends_with('+')) return std::nullopt;
  std::istringstream kinds(text);
  for (std::string kind; std::getline(kinds, kind, '+');) {
    const auto* const letter = std::ranges::find_if(
        kOffloadFields, [&](const auto& known) { return !kind.empty() && known.letter == kind.front(); });
    if (letter == std::end(kOffloadFields) || !(out.*letter->of).empty() || kind.back() == '|') return std::nullopt;
    std::istringstream shares(kind.substr(1));
    for (std::string share; std::getline(shares, share, '|');) {
      const auto value = sim::parse_quantity(share, sim::Unit::none);
      if (!value || *value < 0 || *value > 1) return std::nullopt;
      (out.*letter->of).push_back(*value);
    }
    if ((out.*letter->of).empty()) return std::nullopt;
  }
  return out;
}

}  // namespace

std::string offload_text(const OffloadParams& offload) {
  std::string text;
  for (const auto& [letter, name, of] : kOffloadFields)
    if (any_share(offload.*of))
      text += fmt::format("{}{}{:g}", text.empty() ? "" : "+", letter, fmt::join(offload.*of, "|"));
  return text;
}

PlanParams parse_plan(const std::string& text, const PlanParams& others) {
  const auto fail = [&](const char* what) {
    throw std::invalid_argument(fmt::format("expected {} in the plan '{}'", what, text));
  };
  std::istringstream words(text);
  std::string tensor, stages, copies, micro, sequence, recompute, zero, offload, more;
  words >> tensor >> stages >> copies >> micro >> sequence >> recompute >> zero >> offload;
  if (zero.empty() || (words >> more))
    fail(
        "seven words (tensor, stages, copies, micro-batch, yes or no, what runs again, ZeRO), or an eighth for what "
        "lies in host memory,");
  const auto number = [&](const std::string& word, const char* what) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > (1 << 20)) fail(what);
    return value;
  };
  PlanParams params = others;
  params.stage_tensor_parallel.clear();
  params.stage_recompute_layers.clear();
  const std::size_t shared = tensor.find('c');
  params.tensor_parallel = number(tensor.substr(0, shared), "ranks of tensor parallelism");
  params.context_parallel =
      shared == std::string::npos ? 1 : number(tensor.substr(shared + 1), "ranks of context parallelism behind the c");
  const std::size_t chunks = stages.find('x');
  params.pipeline_parallel = number(stages.substr(0, chunks), "stages, and chunks behind an x,");
  params.interleave = chunks == std::string::npos ? 1 : number(stages.substr(chunks + 1), "chunks behind the x");
  const std::size_t experts = copies.find('e');
  params.data_parallel = number(copies.substr(0, experts), "copies");
  params.expert_parallel =
      experts == std::string::npos ? 1 : number(copies.substr(experts + 1), "ranks that share experts behind the e");
  params.micro_batch = number(micro, "sequences of a micro-batch");
  if (sequence != "yes" && sequence != "no") fail("yes or no for sequence parallelism");
  params.sequence_parallel = sequence == "yes";
  params.async_tensor_parallel = params.sequence_parallel && others.async_tensor_parallel;
  params.overlap_experts = others.overlap_experts;
  const auto again = sim::value_named<Recompute>(recompute);
  if (!again) fail("none, selective, by_op or full for what runs again");
  params.recompute = *again;
  const auto shares = sim::value_named<Zero>(zero);
  if (!shares) fail("none, optimizer, gradients or weights for ZeRO");
  params.zero = *shares;
  static_cast<OffloadParams&>(params) = {};
  if (!offload.empty()) {
    const auto parsed = parse_offload(offload);
    if (!parsed) fail("shares up to 1 behind a, o, g or w, such as a0.5+o0.25|1, for what lies in host memory");
    static_cast<OffloadParams&>(params) = *parsed;
  }
  return params;
}

}  // namespace orrery::experiments::training
