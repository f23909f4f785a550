#include "experiments/systems/serving/replica/pricer.hpp"

#include "experiments/systems/serving/replica/lane_scheduler.hpp"

namespace orrery::experiments {

IterationPrice ReplicaPricer::price(const DeviceTime& time) {
  IterationPrice price = model_.price(shape_);
  const std::int64_t devices_ps = price.time_ps;
  if (host_ != nullptr) host_->apply(shape_, price);
  if (pipe_ == nullptr) return price;
  const std::int64_t host_ps = price.time_ps - devices_ps;
  const ExactTime decided = time.after(time.stall_ps);
  const ExactTime ready = scheduler_ != nullptr ? scheduler_->host_until(decided, host_ps, time.ps_per_tick)
                                                : decided.plus(host_ps, time.ps_per_tick);
  price.time_ps = time.until(pipe_->pass(ready, shape_)) - time.stall_ps;
  price.horizon = 1;
  return price;
}

std::int64_t ReplicaPricer::time_ps(const policies::BatchSketch& sketch) const {
  BatchShape shape;
  shape.mode = shape_.mode;
  shape.sequences = sketch.decodes + (sketch.chunk_tokens > 0 ? 1 : 0);
  shape.logit_rows = shape.sequences;
  Segment segment{.first = 0, .last = layers_};
  segment.tokens = sketch.decodes + sketch.chunk_tokens;
  segment.decode = {sketch.decodes, sketch.decode_context};
  if (sketch.chunk_tokens > 0) segment.prefill.add(sketch.chunk_tokens, sketch.chunk_past);
  shape.segments.push_back(segment);
  IterationPrice price = model_.price(shape);
  if (host_ != nullptr) host_->apply(shape, price);
  return price.time_ps;
}

}  // namespace orrery::experiments
