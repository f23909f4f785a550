// Vectorised environments of reinforcement learning: `steps` steps of a simulator for `batch` environments as tensor
// operations on state columns (card 25: Gleeson et al., 2022).
//
// The simulator is CartPole, its equations of motion as in Barto, Sutton and Anderson (1983) with Euler steps, as Gym
// has them, an operation a kernel: forces, accelerations, new state, end of episode, reward, reset to a random state.
// A further state of `state_bytes` an environment is read and written once a step (x <- a x + b): the synthetic sweep
// of bandwidth demand. With `collect` every step's observation, reward and end are results of the run, as training data
// are; without it only the last state and the sum of rewards are. Actions are an input, one an environment and step.
// Ops of step k have the scope "step.k", which is what pass `step_fusion` goes by. Left out: the policy network between
// steps, rendering, contact and other branching physics.
#include <fmt/format.h>

#include "models/builders/net.hpp"

namespace orrery::models {
namespace {

using hw::OpClass;

struct RlStepParams {
  std::int64_t steps = 1, state_bytes = 0;
  bool collect = false;

  static constexpr auto fields() {
    using R = RlStepParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("steps", &R::steps, Unit::count, sim::between(1, 1 << 14), "Number of simulator steps."),
        sim::field("state_bytes", &R::state_bytes, Unit::count, sim::between(0, 1 << 20),
                   "Bytes of further state per environment, a multiple of 4."),
        sim::field("collect", &R::collect,
                   "Whether the observation, reward and end of every step are results of the graph."),
    };
  }
};

class RlWriter {
 public:
  explicit RlWriter(const RlStepParams& p) : p_(p), net_("rl_step", ElementType::fp32) {}

  OpGraph write() {
    OpGraph& graph = net_.graph();
    graph.facts.in_range(Symbol("batch"), {1, {}});
    TensorId state = graph.input("state", {batch_, 4}, ElementType::fp32);
    const TensorId actions = graph.input("actions", {p_.steps, batch_}, ElementType::int32);
    std::optional<TensorId> further, total;
    if (p_.state_bytes > 0) further = graph.input("further", {batch_, p_.state_bytes / 4}, ElementType::fp32);
    for (std::int64_t step = 0; step < p_.steps; ++step) {
      net_.scope(fmt::format("step.{}", step));
      net_.own("simulator");
      const TensorId action = net_.reshape(net_.slice(actions, 0, step, 1), {batch_});
      const TensorId reward = advance(state, action);
      total = total ? op(OpKind::add, {*total, reward}) : reward;
      if (further) further = op(OpKind::scale, {*further});
    }
    std::vector<TensorId> outputs{state, *total};
    if (further) outputs.push_back(*further);
    outputs.insert(outputs.end(), collected_.begin(), collected_.end());
    return net_.finish(outputs);
  }

 private:
  TensorId op(OpKind kind, std::vector<TensorId> inputs) {
    return net_.emit(kind, std::move(inputs), OpClass::activation);
  }
  TensorId scaled(TensorId x) { return op(OpKind::scale, {x}); }
  TensorId column(TensorId state, int which) { return net_.reshape(net_.slice(state, 1, which, 1), {batch_}); }

  /// Accelerations of cart and pole.
  std::pair<TensorId, TensorId> accelerations(TensorId theta, TensorId theta_dot, TensorId action) {
    const TensorId pushes_right = op(OpKind::compare, {action, action});
    const TensorId magnitude = net_.constant("force", {1}, ElementType::fp32);
    const TensorId opposite = net_.constant("opposite", {1}, ElementType::fp32);
    const TensorId force =
        net_.emit(OpKind::where, {pushes_right, magnitude, opposite}, {batch_}, ElementType::fp32, OpClass::activation);
    const TensorId cosine = op(OpKind::sin, {theta}), sine = op(OpKind::sin, {theta});
    const TensorId swing = op(OpKind::mul, {scaled(op(OpKind::mul, {theta_dot, theta_dot})), sine});
    const TensorId pull = scaled(op(OpKind::add, {force, swing}));
    const TensorId torque = op(OpKind::sub, {scaled(sine), op(OpKind::mul, {cosine, pull})});
    // length (4/3 - m cos^2 / M)
    const TensorId inertia = scaled(scaled(op(OpKind::mul, {cosine, cosine})));
    const TensorId pole = op(OpKind::div, {torque, inertia});
    const TensorId cart = op(OpKind::sub, {pull, scaled(op(OpKind::mul, {pole, cosine}))});
    return {cart, pole};
  }

  /// One step; `state` becomes the next. Returns the reward.
  TensorId advance(TensorId& state, TensorId action) {
    const TensorId x = column(state, 0), x_dot = column(state, 1), theta = column(state, 2),
                   theta_dot = column(state, 3);
    const auto [cart, pole] = accelerations(theta, theta_dot, action);
    const auto euler = [&](TensorId value, TensorId rate) { return op(OpKind::add, {value, scaled(rate)}); };
    const std::array<TensorId, 4> next{euler(x, x_dot), euler(x_dot, cart), euler(theta, theta_dot),
                                       euler(theta_dot, pole)};
    std::vector<TensorId> columns;
    for (const TensorId value : next) columns.push_back(net_.reshape(value, {batch_, 1}));
    const TensorId moved = net_.concat(columns, 1);
    // The episode ends where |x| or |theta| passes its limit.
    const TensorId limit = net_.constant("limit", {1}, ElementType::fp32);
    const TensorId far = op(OpKind::compare, {op(OpKind::abs, {next[0]}), limit});
    const TensorId fallen = op(OpKind::compare, {op(OpKind::abs, {next[2]}), limit});
    const TensorId done = op(OpKind::maximum, {far, fallen});
    const TensorId reward = net_.emit(OpKind::cast, {done}, OpClass::activation, {{"to", std::string("fp32")}});
    // A counter-based generator: some ten rounds of multiplication an element.
    const TensorId random =
        net_.emit(OpKind::custom, {}, {batch_, 4}, ElementType::fp32, OpClass::activation, {{"flops", batch_ * 80}});
    state = net_.emit(OpKind::where, {net_.reshape(done, {batch_, 1}), scaled(random), moved}, {batch_, 4},
                      ElementType::fp32, OpClass::activation);
    if (p_.collect) collected_.insert(collected_.end(), {moved, reward, done});
    return reward;
  }

  const RlStepParams& p_;
  Net net_;
  SymExpr batch_ = SymExpr::dim("batch");
  std::vector<TensorId> collected_;
};

class RlStep final : public GraphBuilder {
 public:
  explicit RlStep(const RlStepParams& params) : p_(params) {}
  OpGraph build() const override {
    if (p_.state_bytes % 4 != 0)
      sim::throw_fault(builder_origin("rl_step", "state_bytes"),
                       fmt::format("expected a multiple of 4, got {}", p_.state_bytes));
    return RlWriter(p_).write();
  }

 private:
  RlStepParams p_;
};

}  // namespace

void add_rl_step(BuilderRegistry& registry) {
  registry.add<RlStepParams>("rl_step", "Steps of vectorised environments: CartPole, plus a state of any size.",
                             [](const RlStepParams& params) { return std::make_unique<RlStep>(params); });
}

}  // namespace orrery::models
