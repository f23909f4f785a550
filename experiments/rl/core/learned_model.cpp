#include "experiments/rl/core/learned_model.hpp"

#include "experiments/rl/core/action_head.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr double kLinear = 1e-3;  // of the scale of values
constexpr std::size_t kRepresentation = 0, kDynamics = 1, kPrediction = 2;

void bound(MatrixXd& states) {
  std::for_each(states.data(), states.data() + states.size(), [](double& x) { x = sim::det_tanh(x); });
}

}  // namespace

double squash_value(double x) {
  const double root = std::sqrt(std::abs(x) + 1) - 1;
  return (x < 0 ? -root : root) + kLinear * x;
}

double unsquash_value(double y) {
  // |x| + 1 = s^2 with kLinear s^2 + s = 1 + kLinear + |y|
  const double s = (std::sqrt(1 + 4 * kLinear * (1 + kLinear + std::abs(y))) - 1) / (2 * kLinear);
  return y < 0 ? 1 - s * s : s * s - 1;
}

LearnedModel::LearnedModel(Index observation, Index choices, Index state, const NetworkParams& shape,
                           const sim::RandomStream& random)
    : choices_(choices),
      state_(state),
      nets_{Mlp(observation, shape, state, random.child("representation")),
            Mlp(state + choices, shape, state + 1, random.child("dynamics")),
            Mlp(state, shape, choices + 1, random.child("prediction"), 0.1)} {
  for (std::size_t i = 0; i < 3; ++i) adams_[i] = Adam(nets_[i].parameters().size());
}

MatrixXd LearnedModel::represent(const MatrixXd& observations) const {
  MatrixXd states = nets_[kRepresentation].forward(observations);
  bound(states);
  return states;
}

MatrixXd LearnedModel::with_choices(const MatrixXd& states, std::span<const std::size_t> choices) const {
  MatrixXd in = MatrixXd::Zero(state_ + choices_, states.cols());
  in.topRows(state_) = states;
  for (std::size_t i = 0; i < choices.size(); ++i)
    in(state_ + static_cast<Index>(choices[i]), static_cast<Index>(i)) = 1;
  return in;
}

LearnedModel::Next LearnedModel::next(const MatrixXd& states, std::span<const std::size_t> choices) const {
  const MatrixXd out = nets_[kDynamics].forward(with_choices(states, choices));
  Next next{out.topRows(state_), out.row(state_).transpose()};
  bound(next.states);
  for (double& reward : next.rewards) reward = unsquash_value(reward);
  return next;
}

LearnedModel::Forecast LearnedModel::predict(const MatrixXd& states) const {
  const MatrixXd out = nets_[kPrediction].forward(states);
  Forecast forecast{out.topRows(choices_), out.row(choices_).transpose()};
  for (double& value : forecast.values) value = unsquash_value(value);
  return forecast;
}

/// Loss of a step's prediction, and its derivatives by the prediction's outputs.
double LearnedModel::judge(const MatrixXd& out, const Aim& aim, double weight, MatrixXd& d) const {
  d = MatrixXd::Zero(out.rows(), out.cols());
  std::vector<double> p(static_cast<std::size_t>(choices_));
  double loss = 0;
  for (Index i = 0; i < out.cols(); ++i) {
    const double scale = weight / static_cast<double>(out.cols());
    const double off = out(choices_, i) - squash_value(aim.values[i]);
    loss += scale * 0.5 * off * off;
    d(choices_, i) = scale * off;
    if (aim.known[i] == 0) continue;
    masked_softmax(out.col(i).data(), nullptr, p.size(), p.data());
    for (Index c = 0; c < choices_; ++c) {
      const double share = p[static_cast<std::size_t>(c)];
      loss -= scale * aim.policy(c, i) * sim::det_log(std::max(share, 1e-300));
      d(c, i) = scale * (share - aim.policy(c, i));
    }
  }
  return loss;
}

double LearnedModel::losses(const MatrixXd& observations, std::span<const Aim> aims,
                            std::array<VectorXd, 3>& gradients) const {
  const std::size_t steps = aims.size();
  std::vector<Mlp::Tape> into(steps), forecasts(steps);
  std::vector<MatrixXd> states(steps), d_forecast(steps);
  std::vector<VectorXd> d_reward(steps);
  double loss = 0;
  for (std::size_t i = 0; i < 3; ++i) gradients[i] = nets_[i].zero();
  for (std::size_t k = 0; k < steps; ++k) {
    const double weight = k == 0 ? 1 : 1 / static_cast<double>(steps - 1);
    if (k == 0) {
      states[k] = nets_[kRepresentation].forward(observations, into[k]);
    } else {
      const MatrixXd& out = nets_[kDynamics].forward(with_choices(states[k - 1], aims[k].choices), into[k]);
      states[k] = out.topRows(state_);
      VectorXd off = out.row(state_).transpose();
      for (Index i = 0; i < off.size(); ++i) off[i] -= squash_value(aims[k].rewards[i]);
      const double scale = weight / static_cast<double>(off.size());
      loss += scale * 0.5 * off.squaredNorm();
      d_reward[k] = scale * off;
    }
    bound(states[k]);
    loss += judge(nets_[kPrediction].forward(states[k], forecasts[k]), aims[k], weight, d_forecast[k]);
  }
  MatrixXd from_later;
  for (std::size_t k = steps; k-- > 0;) {
    MatrixXd d_state = nets_[kPrediction].backward(forecasts[k], d_forecast[k], gradients[kPrediction]);
    if (from_later.size() > 0) d_state += 0.5 * from_later;
    MatrixXd d_out = d_state.array() * (1 - states[k].array().square());
    if (k == 0) {
      nets_[kRepresentation].backward(into[k], d_out, gradients[kRepresentation]);
      break;
    }
    d_out.conservativeResize(state_ + 1, Eigen::NoChange);
    d_out.row(state_) = d_reward[k].transpose();
    from_later = nets_[kDynamics].backward(into[k], d_out, gradients[kDynamics]).topRows(state_);
  }
  return loss;
}

double LearnedModel::learn(const MatrixXd& observations, std::span<const Aim> aims, double rate) {
  std::array<VectorXd, 3> gradients;
  const double loss = losses(observations, aims, gradients);
  for (std::size_t i = 0; i < 3; ++i) adams_[i].step(nets_[i].parameters(), std::move(gradients[i]), rate, 5);
  return loss;
}

}  // namespace orrery::experiments::rl
