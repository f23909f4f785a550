// The plain case of an experiment: its resolved config, and the files that it names, are all that decides its result.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
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

/// The system of experiments `E`, which are made of a config and report its faults.
template <class E>
System system_of(std::string name, std::string doc, std::vector<sim::FieldInfo> fields) {
  System system;
  system.name = std::move(name);
  system.doc = std::move(doc);
  system.fields = std::move(fields);
  system.read = [](const sim::Node& root, sim::Faults& faults) -> std::unique_ptr<Experiment> {
    auto experiment = std::make_unique<E>(root, faults);
    faults.throw_if_any();
    return experiment;
  };
  return system;
}

}  // namespace orrery::experiments
