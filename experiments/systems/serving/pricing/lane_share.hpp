// The share of one lane in a replica whose ranks attend for different requests and meet in the experts (attention data
// parallelism): the model prices all lanes at once, as if each had the same batch.
#pragma once

#include "experiments/systems/serving/pricing/iteration_model.hpp"

namespace orrery::experiments {

/// Times and launches as they are; energy, FLOPs and traffic divided among the lanes, rounded down.
class LaneShare final : public IterationModel {
 public:
  LaneShare(IterationModel& all, std::int64_t lanes) : all_(all), lanes_(lanes) {}
  void cost(const BatchShape& shape, IterationCost& out) override {
    whole_ = {};
    all_.cost(shape, whole_);
    IterationCost part = share(whole_, 1, lanes_);
    part.time_ps = whole_.time_ps;
    part.class_ps = whole_.class_ps;
    part.launches = whole_.launches;
    part.wire_bytes = whole_.wire_bytes;
    part.exchange_bytes = whole_.exchange_bytes;
    part.beside_ps = whole_.beside_ps;
    out.add(part);
  }
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const override { return all_.switch_ps(from, to); }

 private:
  IterationModel& all_;
  std::int64_t lanes_;
  IterationCost whole_;
};

}  // namespace orrery::experiments
