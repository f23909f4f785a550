#include "experiments/rl/envs/training_port.hpp"

namespace orrery::experiments::rl {

std::span<const double> TrainingPort::ask(sim::Time now) {
  now_ = now;
  run_->pause();
  return action_;
}

void TrainingPort::start(std::function<void()> body) {
  stop();
  now_ = {};
  over_ = false;
  run_ = std::make_unique<PausableRun>([body = std::move(body)](PausableRun&) { body(); });
}

bool TrainingPort::go_on(TimeStep& out) {
  step_ = &out;
  reward_ = 0;
  over_ = over_ || !run_->resume();  // a run that asks nobody is over before its first step, which then ends it
  return !over_;
}

}  // namespace orrery::experiments::rl
