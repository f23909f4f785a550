// What iterations cost on a replica: its model, what the host adds, and the stages of a pipeline.
#pragma once

#include <cstdint>

#include "experiments/systems/serving/replica/device_time.hpp"
#include "experiments/systems/serving/replica/parts.hpp"

namespace orrery::experiments {

class ReplicaPricer final : public policies::BatchPricer {
 public:
  /// `shape` is the replica's, whose mode sketches are priced in; both must outlive it.
  ReplicaPricer(const BatchShape& shape, const ReplicaParts& parts)
      : shape_(shape),
        model_(*parts.model),
        host_(parts.host),
        pipe_(parts.pipe),
        scheduler_(parts.scheduler),
        experts_(parts.experts.memory.get()),
        layers_(parts.limits.layers) {}

  /// Price of the replica's shape, which begins at the end of the stall (experts are copied for it), that passes the
  /// pipe (where there is one) at the end of the stall.
  IterationPrice price(const DeviceTime& time);
  std::int64_t time_ps(const policies::BatchSketch& sketch) const override;
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const { return model_.switch_ps(from, to); }

 private:
  const BatchShape& shape_;
  IterationModel& model_;
  const HostTime* host_;
  StagePipe* pipe_;
  LaneScheduler* scheduler_;
  ExpertMemory* experts_;
  std::int32_t layers_;
};

}  // namespace orrery::experiments
