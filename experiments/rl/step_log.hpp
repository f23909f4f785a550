// Steps that somebody took, as a file: what `train.log` keeps of a training, and what `train.from_logs` learns from.
//
// A log knows the spaces it was made in and is refused where they are others. Rows stand in the order in which the
// steps were taken, those of environments that were stepped together one after the other.
#pragma once

#include <filesystem>

#include "experiments/rl/core/learner.hpp"

namespace orrery::experiments::rl {

class StepLog {
 public:
  StepLog() = default;
  explicit StepLog(EnvSpec spec) : spec_(std::move(spec)) {}

  std::size_t size() const { return terminated_.size(); }
  const EnvSpec& spec() const { return spec_; }
  /// Adds the steps of an experience, at most so many of them.
  void add(const Experience& experience, std::size_t most);
  /// Adds another log's steps. The spaces must be alike.
  void add(const StepLog& other);
  /// The rows [begin, begin + n), with what was done as the rule's advice.
  Experience rows(std::size_t begin, std::size_t n) const;
  void state(Archive& archive);
  /// Of all that it holds.
  std::uint64_t hash() const;

 private:
  EnvSpec spec_;
  std::vector<double> before_, after_, actions_, rewards_;
  std::vector<std::uint8_t> terminated_, truncated_, masks_, after_masks_;
};

void write_step_log(const std::filesystem::path& path, const StepLog& log);
/// All of the files as one log. Throws sim::ConfigError for a file that cannot be read, is no log, is not whole, is
/// empty, or was made in other spaces than `spec`.
StepLog read_step_logs(const std::vector<std::string>& paths, const EnvSpec& spec);

}  // namespace orrery::experiments::rl
