// A replica with modes (layouts, clocks): an iteration model for each.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"

namespace orrery::experiments {

class ModalIteration final : public IterationModel {
 public:
  /// `switch_ps`: time to get to each mode from another; none: it takes no time.
  explicit ModalIteration(std::vector<std::unique_ptr<IterationModel>> modes, std::vector<std::int64_t> switch_ps = {})
      : modes_(std::move(modes)), switch_ps_(std::move(switch_ps)) {}
  void cost(const BatchShape& shape, IterationCost& out) override {
    modes_.at(static_cast<std::size_t>(shape.mode))->cost(shape, out);
  }
  bool additive() const override { return modes_.front()->additive(); }
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const override {
    return from == to || switch_ps_.empty() ? 0 : switch_ps_.at(static_cast<std::size_t>(to));
  }

 private:
  std::vector<std::unique_ptr<IterationModel>> modes_;
  std::vector<std::int64_t> switch_ps_;
};

}  // namespace orrery::experiments
