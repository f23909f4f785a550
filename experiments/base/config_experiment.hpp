// The plain case of an experiment: its resolved config, and the files that it names, are all that decides its result.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

class ConfigExperiment : public Experiment {
 public:
  const sim::Node& resolved() const final { return resolved_; }
  std::vector<std::filesystem::path> inputs() const final { return inputs_; }
  sim::Node identity() const override { return resolved_; }
  std::int64_t seed() const final { return seed_; }

 protected:
  sim::Node resolved_;
  std::vector<std::filesystem::path> inputs_;
  std::int64_t seed_ = 1;
};

}  // namespace orrery::experiments
