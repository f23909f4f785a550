#include "experiments/systems/serving/pricing/layouts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "experiments/systems/serving/pricing/picoseconds.hpp"
#include "hw/base/arithmetic.hpp"
#include "hw/network/library_collective.hpp"
#include "models/transformer/lowering.hpp"

namespace orrery::experiments {
namespace {

using hw::ceil_div;

/// Scales a sum; time is not kept short by rounding.
std::int64_t scaled(std::int64_t value, std::int64_t numerator, std::int64_t denominator) {
  const __int128 product = static_cast<__int128>(value) * numerator;
  return static_cast<std::int64_t>((product + denominator - 1) / denominator);
}
std::int64_t copy_picoseconds(double seconds) {
  if (!(seconds < 9e6)) throw std::overflow_error(fmt::format("a copy of {:.3g} s: check the host bandwidth", seconds));
  return picoseconds(seconds);
}

/// One of `groups` equal micro-batches.
BatchShape part_of(const BatchShape& shape, std::int64_t groups) {
  BatchShape part;
  part.sequences = ceil_div(shape.sequences, groups);
  part.logit_rows = ceil_div(shape.logit_rows, groups);
  part.segments = shape.segments;
  for (Segment& s : part.segments) {
    for (std::int64_t* sum : {&s.tokens, &s.prefill.sequences, &s.prefill.q_tokens, &s.prefill.kv_tokens,
                              &s.prefill.pairs, &s.prefill.q_tiles, &s.decode.sequences, &s.decode.context_tokens})
      *sum = ceil_div(*sum, groups);
  }
  return part;
}

}  // namespace

std::optional<std::string> layout_obstacle(const models::ModelConfig& model, const LayoutParams& layout,
                                           std::int64_t devices) {
  if (layout.devices() != devices)
    return fmt::format("a layout of {} x {} is for {} devices, a replica has {}", layout.tensor_parallel,
                       layout.pipeline_parallel, layout.devices(), devices);
  if (layout.pipeline_parallel > model.layers)
    return fmt::format("{} pipeline stages for {} layers", layout.pipeline_parallel, model.layers);
  return models::split_obstacle(model, {.tp = layout.tensor_parallel, .attention_dp = 1, .expert_parallel = 1});
}

LayoutIteration::LayoutIteration(std::vector<Mode> modes, const hw::LinkParams& link, std::int64_t hidden_bytes,
                                 double host_bandwidth)
    : modes_(std::move(modes)), link_(link), hidden_bytes_(hidden_bytes), host_bandwidth_(host_bandwidth) {}

const LayoutIteration::Mode& LayoutIteration::mode(std::int32_t index) const {
  if (index < 0 || index >= static_cast<std::int32_t>(modes_.size()))
    throw std::logic_error(
        fmt::format("the batching policy switched to layout {}, there are {}", index, modes_.size()));
  return modes_[static_cast<std::size_t>(index)];
}

void LayoutIteration::cost(const BatchShape& shape, IterationCost& out) {
  const Mode& m = mode(shape.mode);
  const std::int64_t stages = m.layout.pipeline_parallel;
  if (stages == 1) return m.ranks->cost(shape, out);
  std::int64_t tokens = 0;
  bool decodes = false;
  for (const Segment& segment : shape.segments) {
    tokens = std::max(tokens, segment.tokens);
    decodes = decodes || segment.decode.sequences > 0;
  }
  const std::int64_t turns = decodes ? stages : 1;
  const BatchShape part = part_of(shape, turns);
  const std::int64_t part_tokens = ceil_div(tokens, turns);
  IterationCost whole;
  m.ranks->cost(part, whole);
  // Time is that of the slowest stage, work that of the micro-batches that are not empty.
  const std::int64_t layers = m.transformer.config.layers;
  const std::int64_t filled = part_tokens > 0 ? ceil_div(tokens, part_tokens) : 1;  // or the head alone
  out = share(whole, filled, 1);
  out.time_ps = 0;
  for (std::size_t i = 0; i < out.class_ps.size(); ++i) {
    out.class_ps[i] = scaled(whole.class_ps[i], turns * ceil_div(layers, stages), layers);
    out.time_ps += out.class_ps[i];
  }
  if (part_tokens == 0) return;
  const hw::CollectiveCost hop = hw::library_collective(
      link_, hw::LibraryCall::send_recv, 2, ceil_div(part_tokens * hidden_bytes_, m.layout.tensor_parallel));
  const std::int64_t hop_ps = turns * copy_picoseconds(hop.time_s);
  const auto transfer = static_cast<std::size_t>(hw::OpClass::all_reduce);
  out.time_ps += hop_ps;
  out.class_ps[transfer] += hop_ps;
}

std::int64_t LayoutIteration::weight_bytes(std::int32_t index) const {
  const Mode& m = mode(index);
  return ceil_div(models::weight_bytes(m.transformer), m.layout.pipeline_parallel);
}

std::int64_t LayoutIteration::switch_ps(std::int32_t from, std::int32_t to) const {
  if (from == to) return 0;
  return copy_picoseconds(static_cast<double>(weight_bytes(to)) / host_bandwidth_);
}

LayoutMemory layout_memory(const std::vector<LayoutIteration::Mode>& modes) {
  LayoutMemory memory;
  for (const LayoutIteration::Mode& mode : modes) {
    const models::Transformer& t = mode.transformer;
    const std::int64_t layers = t.config.layers;
    const std::int64_t most = ceil_div(layers, mode.layout.pipeline_parallel);  // of the fullest stage
    memory.weight_bytes = std::max(memory.weight_bytes, ceil_div(models::weight_bytes(t) * most, layers));
    memory.kv_bytes_per_token =
        std::max(memory.kv_bytes_per_token, ceil_div(models::kv_bytes_per_token(t) * most, layers));
  }
  return memory;
}

std::int64_t HostStore::copy(Way& way, std::int64_t tokens) {
  const std::int64_t ps = engine_.scale().ps_per_tick();
  const std::int64_t now = engine_.now().ticks * ps;
  // The first copy of a decision waits for what earlier ones left; the others follow it on the link.
  std::int64_t stall = 0;
  if (way.asked != engine_.now()) {
    stall = std::max<std::int64_t>(0, way.free_at - now);
    way.asked = engine_.now();
  }
  way.free_at =
      std::max(way.free_at, now) + copy_picoseconds(static_cast<double>(tokens * bytes_per_token_) / bandwidth_);
  return stall;
}

std::optional<std::int64_t> HostStore::swap_out(std::int64_t key, std::int64_t tokens, std::int64_t, std::int64_t) {
  if (tokens > free_tokens_) return std::nullopt;
  free_tokens_ -= tokens;
  held_[key] += tokens;
  return copy(out_, tokens);
}

std::int64_t HostStore::swap_in(std::int64_t key, std::int64_t tokens, std::int64_t, std::int64_t) {
  drop(key);
  return copy(in_, tokens);
}

void HostStore::drop(std::int64_t key) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  free_tokens_ += found->second;
  held_.erase(found);
}

}  // namespace orrery::experiments
