#include "experiments/systems/serving/replica/pricer.hpp"

#include <algorithm>

#include "experiments/systems/serving/replica/expert_memory.hpp"
#include "experiments/systems/serving/replica/lane_scheduler.hpp"

namespace orrery::experiments {

IterationPrice ReplicaPricer::price(const DeviceTime& time) {
  IterationPrice price = model_.price(shape_);
  if (experts_ != nullptr) experts_->begin(shape_, time.after(time.stall_ps), time.ps_per_tick, price);
  if (pipe_ == nullptr) {
    if (host_ != nullptr) host_->apply(shape_, price);
    return price;
  }
  // Stages launch for themselves. What the scheduler does beside the devices it does no faster than it can.
  const HostWork work = host_ != nullptr ? host_->work(shape_, price) : HostWork{};
  const std::int64_t scheduler_ps = work.exposed_ps + std::max<std::int64_t>(0, work.hidden_ps - price.time_ps);
  const ExactTime decided = time.after(time.stall_ps);
  const ExactTime ready = scheduler_ != nullptr ? scheduler_->host_until(decided, scheduler_ps, time.ps_per_tick)
                                                : decided.plus(scheduler_ps, time.ps_per_tick);
  price.time_ps = time.until(pipe_->pass(ready, shape_, host_)) - time.stall_ps;
  price.horizon = 1;
  price.host = pipe_->last_host();
  price.host.exposed_ps = work.exposed_ps;
  price.host.beside_ps += work.hidden_ps;
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
