// Pendulum: swing a rod up and hold it there with a motor too weak to lift it in one go.
//
// With a the angle from upright, w its speed, g 10 m/s^2, rod 1 m and 1 kg, torque within 2 N m, step 0.05 s:
//   w += (3 g / 2 sin a + 3 torque) step, cut at 8;   a += w step;   reward -(a^2 + 0.1 w^2 + 0.001 torque^2)
// where reward counts a in [-pi, pi] and w before the step. An episode is 200 steps and never terminates. Start: any
// angle, a speed within 1. Constants and rewards as in Gymnasium's Pendulum-v1. `torques` makes the motor's force one
// of that many even choices from -2 to 2; 0 leaves it any number there.
#include <algorithm>
#include <numbers>

#include "experiments/rl/core/env.hpp"
#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr double kPendulumGravity = 10, kPendulumStep = 0.05, kMostTorque = 2, kMostTurn = 8;

struct PendulumParams {
  std::int64_t max_steps = 200, torques = 0;

  static constexpr auto fields() {
    using P = PendulumParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("max_steps", &P::max_steps, Unit::count, sim::between(1, 1e9), "Steps of an episode."),
        sim::field("torques", &P::torques, Unit::count, sim::between(0, 1001),
                   "Number of evenly spaced torques to choose from; 0: any torque; 1: no torque."),
    };
  }
};

class Pendulum final : public Env {
 public:
  explicit Pendulum(const PendulumParams& params) : params_(params) {
    AgentSpec agent{.name = "motor"};
    agent.observation = {{"cos", -1, 1}, {"sin", -1, 1}, {"turn_per_s", -kMostTurn, kMostTurn}};
    agent.action = params.torques == 0 ? ActionSpace::box({-kMostTorque}, {kMostTorque}, {"torque"})
                                       : ActionSpace::discrete(params.torques);
    spec_.agents.push_back(std::move(agent));
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t seed, TimeStep& out) override {
    sim::RandomStream random(seed, "rl/pendulum");
    angle_ = random.uniform(-std::numbers::pi, std::numbers::pi);
    turn_ = random.uniform(-1, 1);
    steps_ = 0;
    clear_step(spec_, out);
    show(out);
  }

  void step(std::span<const double> action, TimeStep& out) override {
    const double torque = torque_of(action[0]);
    const double cost = angle_ * angle_ + 0.1 * turn_ * turn_ + 0.001 * torque * torque;
    turn_ += (1.5 * kPendulumGravity * sim::det_sin(angle_) + 3 * torque) * kPendulumStep;
    turn_ = std::clamp(turn_, -kMostTurn, kMostTurn);
    angle_ += turn_ * kPendulumStep;  // at most 0.4: one turn brings it back
    if (angle_ > std::numbers::pi) angle_ -= 2 * std::numbers::pi;
    if (angle_ < -std::numbers::pi) angle_ += 2 * std::numbers::pi;
    ++steps_;
    clear_step(spec_, out);
    show(out);
    out.rewards[0] = -cost;
    out.truncated = steps_ >= params_.max_steps;
  }

 private:
  double torque_of(double action) const {
    if (params_.torques == 0) return action;
    if (params_.torques == 1) return 0;
    return kMostTorque * (2 * action / static_cast<double>(params_.torques - 1) - 1);
  }
  void show(TimeStep& out) const {
    out.observation[0] = sim::det_cos(angle_);
    out.observation[1] = sim::det_sin(angle_);
    out.observation[2] = turn_;
  }

  PendulumParams params_;
  EnvSpec spec_;
  double angle_ = 0, turn_ = 0;  ///< the angle within [-pi, pi]
  std::int64_t steps_ = 0;
};

}  // namespace

void add_pendulum_env(EnvRegistry& registry) {
  registry.add<PendulumParams>(
      "pendulum", "Swing a rod up and hold it there with a weak motor (Gymnasium's constants).",
      [](const PendulumParams& params, const Systems&) { return std::make_unique<Pendulum>(params); });
}

}  // namespace orrery::experiments::rl
