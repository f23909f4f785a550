// Where a policy that asks meets a training: the run stops until the learner has acted.
#pragma once

#include <functional>
#include <memory>

#include "experiments/rl/core/pausable.hpp"
#include "experiments/rl/envs/decisions.hpp"

namespace orrery::experiments::rl {

class TrainingPort final : public DecisionPort {
 public:
  void begin(const EnvSpec&) override {}  // the environment's, which the run was made for
  std::span<double> observation() override { return step_->observation; }
  std::span<std::uint8_t> mask() override { return step_->mask; }
  std::span<double> advice() override { return step_->advice; }
  void add_reward(double reward) override { reward_ += reward; }
  std::span<const double> ask(sim::Time now) override;

  /// Drops the run under way and puts another in its place, of which nothing runs before go_on(). What the body uses
  /// must stay until stop(), or the next start().
  void start(std::function<void()> body);
  void stop() { run_.reset(); }
  /// Runs to the next decision, which `out` (set up for the spec) then shows: true. False at the end of the run.
  bool go_on(TimeStep& out);
  /// What the run goes on with; the numbers must stay until go_on() is back.
  void act(std::span<const double> action) { action_ = action; }
  /// Since the last decision.
  double reward() const { return reward_; }
  /// When the last decision was.
  sim::Time now() const { return now_; }

 private:
  TimeStep* step_ = nullptr;
  std::span<const double> action_;
  sim::Time now_;
  double reward_ = 0;
  bool over_ = false;
  std::unique_ptr<PausableRun> run_;
};

}  // namespace orrery::experiments::rl
