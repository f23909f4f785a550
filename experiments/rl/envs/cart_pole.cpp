// Cart-pole: keep a pole upright by pushing the cart below it.
//
// Equations of motion without friction, with l half the pole's length and M the mass of both:
//   q        = (F + m l w^2 sin a) / M
//   angular  = (g sin a - q cos a) / (l (4/3 - m cos^2 a / M))
//   linear   = q - m l angular cos a / M
// integrated by explicit Euler steps (positions with the velocities of before). Source: Barto, Sutton and Anderson,
// "Neuronlike adaptive elements that can solve difficult learning control problems", IEEE Trans. SMC 13(5), 1983,
// appendix; the same constants: g 9.8 m/s^2, cart 1.0 kg, pole 0.1 kg, l 0.5 m, force 10 N, step 0.02 s, failure beyond
// 2.4 m or 12 degrees. Start within 0.05 of rest in each number and a limit of 500 steps, as in Gymnasium's
// CartPole-v1. Each step pays 1, the failing one too.
#include <cmath>
#include <limits>
#include <numbers>

#include "experiments/rl/core/env.hpp"
#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr double kGravity = 9.8, kCart = 1.0, kPole = 0.1, kHalfLength = 0.5, kForce = 10, kStep = 0.02;
constexpr double kMass = kCart + kPole;
constexpr double kMostX = 2.4, kMostAngle = 12 * std::numbers::pi / 180;

struct CartPoleParams {
  std::int64_t max_steps = 500;
  bool continuous = false;

  static constexpr auto fields() {
    using P = CartPoleParams;
    return sim::FieldTable{
        sim::field("max_steps", &P::max_steps, sim::Unit::count, sim::between(1, 1e9), "Most steps of an episode."),
        sim::field("continuous", &P::continuous,
                   "Whether the action is a share of the force in [-1, 1]; if not, it is left or right."),
    };
  }
};

class CartPole final : public Env {
 public:
  explicit CartPole(const CartPoleParams& params) : params_(params) {
    constexpr double any = std::numeric_limits<double>::infinity();
    AgentSpec agent{.name = "cart"};
    agent.observation = {
        {"x_m", -2 * kMostX, 2 * kMostX}, {"v_m_per_s", -any, any}, {"angle", -any, any}, {"turn_per_s", -any, any}};
    agent.action = params.continuous ? ActionSpace::box({-1}, {1}, {"force"}) : ActionSpace::discrete(2);
    spec_.agents.push_back(std::move(agent));
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t seed, TimeStep& out) override {
    sim::RandomStream random(seed, "rl/cart_pole");
    for (double* value : {&x_, &v_, &angle_, &turn_}) *value = random.uniform(-0.05, 0.05);
    steps_ = 0;
    clear_step(spec_, out);
    show(out);
  }

  void step(std::span<const double> action, TimeStep& out) override {
    const double force = kForce * (params_.continuous ? action[0] : 2 * action[0] - 1);
    const double sine = sim::det_sin(angle_), cosine = sim::det_cos(angle_);
    const double q = (force + kPole * kHalfLength * turn_ * turn_ * sine) / kMass;
    const double angular = (kGravity * sine - q * cosine) / (kHalfLength * (4.0 / 3 - kPole * cosine * cosine / kMass));
    const double linear = q - kPole * kHalfLength * angular * cosine / kMass;
    x_ += kStep * v_;
    v_ += kStep * linear;
    angle_ += kStep * turn_;
    turn_ += kStep * angular;
    ++steps_;
    clear_step(spec_, out);
    show(out);
    out.rewards[0] = 1;
    out.terminated = std::abs(x_) > kMostX || std::abs(angle_) > kMostAngle;
    out.truncated = steps_ >= params_.max_steps;
  }

 private:
  void show(TimeStep& out) const {
    out.observation[0] = x_;
    out.observation[1] = v_;
    out.observation[2] = angle_;
    out.observation[3] = turn_;
  }

  CartPoleParams params_;
  EnvSpec spec_;
  double x_ = 0, v_ = 0, angle_ = 0, turn_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace

void add_cart_pole_env(EnvRegistry& registry) {
  registry.add<CartPoleParams>(
      "cart_pole", "Keep a pole upright on a cart (Barto, Sutton and Anderson).",
      [](const CartPoleParams& params, const Systems&) { return std::make_unique<CartPole>(params); });
}

}  // namespace orrery::experiments::rl
