// The models that price the iterations of one kind of replica, each built on those below it: it owns them all, and the
// one on top is the price.
#pragma once

#include <concepts>
#include <memory>
#include <utility>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"

namespace orrery::experiments {

class IterationStack {
 public:
  /// Makes a model, which may be built on top() so far, and puts it on top.
  template <std::derived_from<IterationModel> Model, class... Arguments>
  Model& add(Arguments&&... arguments) {
    auto made = std::make_unique<Model>(std::forward<Arguments>(arguments)...);
    Model& model = *made;
    models_.push_back(std::move(made));
    return model;
  }
  /// Puts one that was made elsewhere on top.
  IterationModel& add(std::unique_ptr<IterationModel> model) {
    models_.push_back(std::move(model));
    return top();
  }
  IterationModel& top() const { return *models_.back(); }

 private:
  std::vector<std::unique_ptr<IterationModel>> models_;
};

}  // namespace orrery::experiments
