// Systems that ask something of a serving config instead of running it once: capacity, slo_sweep, plans. Their config
// is a serving config with sections of their own beside its own.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/system.hpp"

namespace orrery::experiments::capacity {

/// The serving config in such a config, read without the sections that are not its own.
ServingConfig read_serving_part(sim::Node root, std::initializer_list<std::string_view> own, const Systems& systems,
                                sim::Faults& faults);

/// Half the width of the Student-t interval of a mean over replications; 0 for one.
double half_width(std::span<const double> values, double mean, double confidence);

class ServingQuestion : public Experiment {
 public:
  const sim::Node& resolved() const final { return resolved_; }
  std::int64_t seed() const final { return config_.run.seed; }
  std::vector<std::filesystem::path> inputs() const final { return serving_inputs(config_); }
  sim::Node identity() const override;
  std::vector<std::pair<std::string, std::string>> restated() const override;

 protected:
  /// `params` as they stand in the section `system` of the resolved config.
  ServingQuestion(ServingConfig config, std::string system, sim::Node params);

  ServingConfig config_;
  sim::Node resolved_;

 private:
  std::string system_;
};

/// A question whose runs are all of one setup (part, model, tables of costs), which is built once.
class SetupQuestion : public ServingQuestion {
 public:
  /// The answer, or why the design does not fit.
  Outcome run(const RunSink& sink) const final;

 protected:
  /// Opens the workload, for its faults.
  SetupQuestion(ServingConfig config, std::string system, sim::Node params);
  /// May throw std::overflow_error for a rate so low that time does not reach as far.
  virtual Outcome answer(const RunSink& sink) const = 0;

  ServingSetup setup_;
};

}  // namespace orrery::experiments::capacity
