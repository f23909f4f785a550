// Acrobot: swing two hinged links up by a motor at the joint between them.
//
// With angles a (first link, from hanging down) and b (second, from the first), speeds u and w, and for both links
// length 1 m, mass 1 kg, centre of mass at 0.5 m, moment of inertia 1 kg m^2:
//   d1 = 3.5 + cos b,   d2 = 1.25 + 0.5 cos b
//   p2 = 0.5 g sin(a + b)
//   p1 = -0.5 w^2 sin b - u w sin b + 1.5 g sin a + p2
//   w' = (torque + d2/d1 p1 - 0.5 u^2 sin b - p2) / (1.25 - d2^2/d1),   u' = -(d2 w' + p1) / d1
// One Runge-Kutta step of the fourth order a step of 0.2 s; then angles are wrapped to [-pi, pi] and speeds cut at 4
// and 9 pi. An episode terminates when the tip is one length above the hinge, -cos a - cos(a + b) > 1. Sources: Sutton,
// "Generalization in reinforcement learning: successful examples using sparse coarse coding", NIPS 1996; Sutton and
// Barto, Reinforcement Learning, 1st edition, section 11.3. Start, limit of 500 steps and rewards (-1, the last 0) as
// in Gymnasium's Acrobot-v1.
#include <algorithm>
#include <array>
#include <numbers>

#include "experiments/rl/core/env.hpp"
#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr double kAcrobotGravity = 9.8, kAcrobotStep = 0.2;
constexpr double kMostFirst = 4 * std::numbers::pi, kMostSecond = 9 * std::numbers::pi;

struct AcrobotParams {
  std::int64_t max_steps = 500;

  static constexpr auto fields() {
    using P = AcrobotParams;
    return sim::FieldTable{
        sim::field("max_steps", &P::max_steps, sim::Unit::count, sim::between(1, 1e9), "Most steps of an episode."),
    };
  }
};

using AcrobotState = std::array<double, 4>;  ///< a, b, u, w

AcrobotState acrobot_slope(const AcrobotState& s, double torque) {
  const auto [a, b, u, w] = s;
  const double sine = sim::det_sin(b), cosine = sim::det_cos(b);
  const double d1 = 3.5 + cosine, d2 = 1.25 + 0.5 * cosine;
  const double p2 = 0.5 * kAcrobotGravity * sim::det_sin(a + b);
  const double p1 = -0.5 * w * w * sine - u * w * sine + 1.5 * kAcrobotGravity * sim::det_sin(a) + p2;
  const double second = (torque + d2 / d1 * p1 - 0.5 * u * u * sine - p2) / (1.25 - d2 * d2 / d1);
  return {u, w, -(d2 * second + p1) / d1, second};
}

/// The angle that many turns away which lies in [-pi, pi].
double wrapped(double angle) {
  while (angle > std::numbers::pi) angle -= 2 * std::numbers::pi;
  while (angle < -std::numbers::pi) angle += 2 * std::numbers::pi;
  return angle;
}

class Acrobot final : public Env {
 public:
  explicit Acrobot(const AcrobotParams& params) : params_(params) {
    AgentSpec agent{.name = "motor"};
    agent.observation = {{"cos_first", -1, 1},
                         {"sin_first", -1, 1},
                         {"cos_second", -1, 1},
                         {"sin_second", -1, 1},
                         {"turn_first_per_s", -kMostFirst, kMostFirst},
                         {"turn_second_per_s", -kMostSecond, kMostSecond}};
    agent.action = ActionSpace::discrete(3);
    spec_.agents.push_back(std::move(agent));
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t seed, TimeStep& out) override {
    sim::RandomStream random(seed, "rl/acrobot");
    for (double& value : state_) value = random.uniform(-0.1, 0.1);
    steps_ = 0;
    clear_step(spec_, out);
    show(out);
  }

  void step(std::span<const double> action, TimeStep& out) override {
    const double torque = action[0] - 1;
    const auto moved = [&](const AcrobotState& slope, double by) {
      AcrobotState there = state_;
      for (std::size_t i = 0; i < there.size(); ++i) there[i] += by * slope[i];
      return acrobot_slope(there, torque);
    };
    const AcrobotState k1 = acrobot_slope(state_, torque), k2 = moved(k1, kAcrobotStep / 2);
    const AcrobotState k3 = moved(k2, kAcrobotStep / 2), k4 = moved(k3, kAcrobotStep);
    for (std::size_t i = 0; i < state_.size(); ++i)
      state_[i] += kAcrobotStep / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
    state_[0] = wrapped(state_[0]);
    state_[1] = wrapped(state_[1]);
    state_[2] = std::clamp(state_[2], -kMostFirst, kMostFirst);
    state_[3] = std::clamp(state_[3], -kMostSecond, kMostSecond);
    ++steps_;
    clear_step(spec_, out);
    show(out);
    out.terminated = -sim::det_cos(state_[0]) - sim::det_cos(state_[0] + state_[1]) > 1;
    out.rewards[0] = out.terminated ? 0 : -1;
    out.truncated = steps_ >= params_.max_steps;
  }

 private:
  void show(TimeStep& out) const {
    out.observation[0] = sim::det_cos(state_[0]);
    out.observation[1] = sim::det_sin(state_[0]);
    out.observation[2] = sim::det_cos(state_[1]);
    out.observation[3] = sim::det_sin(state_[1]);
    out.observation[4] = state_[2];
    out.observation[5] = state_[3];
  }

  AcrobotParams params_;
  EnvSpec spec_;
  AcrobotState state_{};
  std::int64_t steps_ = 0;
};

}  // namespace

void add_acrobot_env(EnvRegistry& registry) {
  registry.add<AcrobotParams>(
      "acrobot", "Swing up two hinged links by the joint between them (Sutton).",
      [](const AcrobotParams& params, const Systems&) { return std::make_unique<Acrobot>(params); });
}

}  // namespace orrery::experiments::rl
