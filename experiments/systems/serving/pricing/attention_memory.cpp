#include "experiments/systems/serving/pricing/attention_memory.hpp"

#include <algorithm>

#include "experiments/systems/serving/pricing/picoseconds.hpp"
#include "hw/memory/dram_rate.hpp"
#include "hw/pim/decode_overlap.hpp"

namespace orrery::experiments {

bool AttentionMemory::can_interleave(const BatchShape& shape) const {
  if (schedule_ == AttentionSchedule::serial || shape.segments.size() != 1) return false;
  const Segment& segment = shape.segments.front();
  return segment.prefill.sequences == 0 && segment.decode.sequences >= 2 && segment.first < segment.last;
}

IterationCost AttentionMemory::of(const BatchShape& shape) {
  IterationCost cost;
  serial_->cost(shape, cost);
  return cost;
}

/// Both halves as the larger one, whose context is the mean's.
IterationCost AttentionMemory::interleaved(const BatchShape& shape) {
  const Segment& whole = shape.segments.front();
  const std::int64_t n = whole.decode.sequences, layers = whole.last - whole.first;
  BatchShape half = shape;
  half.logit_rows = 0;
  Segment& segment = half.segments.front();
  segment.tokens = (n + 1) / 2;
  segment.decode = {segment.tokens, (whole.decode.context_tokens * segment.tokens + n - 1) / n};
  const IterationCost both = of(half);
  BatchShape head = shape;
  head.segments.clear();
  IterationCost out;
  if (head.logit_rows > 0) out = of(head);

  const double a_layer = 1e-12 / static_cast<double>(layers);
  const double rate = static_cast<double>(memory_.stacks) * memory_.dram.peak_bandwidth() *
                      hw::streaming_share(memory_.dram) * static_cast<double>(ranks_);
  const std::int64_t device_ps = both.time_ps - both.beside_ps;  // attention that stays on the device is none of a turn
  const double device_s = static_cast<double>(device_ps) * 1e-12;
  const hw::LayerPhases phases{
      .gemm_half_s = static_cast<double>(device_ps) * a_layer,
      .pim_attention_half_s = static_cast<double>(both.beside_ps) * a_layer,
      .gemm_memory_share = device_s > 0 ? std::min(1.0, static_cast<double>(both.dram_bytes) / rate / device_s) : 0,
      .layers = layers};
  const std::int64_t head_ps = out.time_ps;
  out.add_scaled(both, 2);
  out.time_ps = head_ps + picoseconds(hw::decode_step(memory_, phases, hw::DecodeSchedule::interleaved).time_s);
  return out;
}

std::int64_t AttentionMemory::copies_ps(const BatchShape& shape) const {
  if (memory_.shared_memory) return 0;
  double bytes = 0;
  for (const Segment& segment : shape.segments)
    bytes += static_cast<double>(segment.prefill.kv_tokens * (segment.last - segment.first) * kv_bytes_);
  return picoseconds(bytes / memory_.link_bandwidth);
}

void AttentionMemory::cost(const BatchShape& shape, IterationCost& out) {
  IterationCost cost = of(shape);
  if (can_interleave(shape)) {
    const IterationCost other = interleaved(shape);
    if (schedule_ == AttentionSchedule::interleaved || other.time_ps < cost.time_ps) cost = other;
  }
  cost.time_ps = std::max(cost.time_ps, copies_ps(shape));
  out.add(cost);
}

}  // namespace orrery::experiments
