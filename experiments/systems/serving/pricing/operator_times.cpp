#include "experiments/systems/serving/pricing/operator_times.hpp"

#include <algorithm>

namespace orrery::experiments {
namespace {

IterationCost cost_of(IterationModel& model, const BatchShape& shape) {
  IterationCost cost;
  model.cost(shape, cost);
  return cost;
}

void append(const IterationCost& cost, std::int32_t layer, std::vector<OperatorTime>& out) {
  for (std::size_t op = 0; op < cost.class_ps.size(); ++op) {
    if (cost.class_ps[op] <= 0) continue;
    const std::int64_t begin = out.empty() ? 0 : out.back().end_ps;
    out.push_back({layer, static_cast<hw::OpClass>(op), begin, begin + cost.class_ps[op]});
  }
}

/// The part of a batch that passes one layer.
BatchShape layer_of(const BatchShape& shape, std::int32_t layer) {
  BatchShape part;
  part.mode = shape.mode;
  part.sequences = shape.sequences;
  for (Segment segment : shape.segments) {
    if (segment.first > layer || segment.last <= layer) continue;
    segment.first = layer;
    segment.last = layer + 1;
    part.segments.push_back(segment);
  }
  return part;
}

}  // namespace

std::vector<OperatorTime> operator_times(IterationModel& model, const BatchShape& shape) {
  const std::int64_t whole_ps = cost_of(model, shape).time_ps;
  std::vector<OperatorTime> times;
  if (shape.drafting.any()) {
    BatchShape plain = shape;
    plain.drafting = {};
    IterationCost drafting = cost_of(model, shape);
    const IterationCost rest = cost_of(model, plain);
    for (std::size_t op = 0; op < drafting.class_ps.size(); ++op) drafting.class_ps[op] -= rest.class_ps[op];
    append(drafting, OperatorTime::kDrafting, times);
  }
  std::int32_t last = 0;
  for (const Segment& segment : shape.segments) last = std::max(last, segment.last);
  for (std::int32_t layer = 0; layer < last; ++layer) {
    const BatchShape part = layer_of(shape, layer);
    if (!part.segments.empty()) append(cost_of(model, part), layer, times);
  }
  if (shape.logit_rows > 0) {
    BatchShape head;
    head.mode = shape.mode;
    head.sequences = shape.sequences;
    head.logit_rows = shape.logit_rows;
    append(cost_of(model, head), OperatorTime::kHead, times);
  }
  if (times.empty()) return times;
  const std::int64_t sum = times.back().end_ps;
  const auto stretched = [&](std::int64_t ps) {
    return static_cast<std::int64_t>(static_cast<__int128>(ps) * whole_ps / sum);
  };
  for (OperatorTime& time : times) {
    time.begin_ps = stretched(time.begin_ps);
    time.end_ps = stretched(time.end_ps);
  }
  return times;
}

}  // namespace orrery::experiments
