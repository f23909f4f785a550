// Gradients against finite differences; the optimiser and the normaliser by hand.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/rl/core/action_head.hpp"

namespace test_network {

using namespace orrery;
using namespace orrery::experiments::rl;

namespace {

MatrixXd random_matrix(Index rows, Index columns, sim::RandomStream& random) {
  MatrixXd out(rows, columns);
  for (Index i = 0; i < out.size(); ++i) out.data()[i] = random.normal();
  return out;
}

/// Central difference of f at x, number by number.
template <class F>
VectorXd difference(VectorXd& x, F f) {
  VectorXd out(x.size());
  constexpr double h = 1e-6;
  for (Index i = 0; i < x.size(); ++i) {
    const double keep = x[i];
    x[i] = keep + h;
    const double above = f();
    x[i] = keep - h;
    const double below = f();
    x[i] = keep;
    out[i] = (above - below) / (2 * h);
  }
  return out;
}

}  // namespace

TEST_CASE("gradients of networks are those of finite differences", "[prop]") {
  sim::RandomStream random(1, "test");
  for (const Activation activation : {Activation::tanh, Activation::relu}) {
    for (const auto& hidden : std::vector<std::vector<std::int64_t>>{{}, {5}, {7, 4}}) {
      Mlp net(3, {hidden, activation}, 2, random.child(hidden.size()));
      MatrixXd in = random_matrix(3, 6, random);
      const MatrixXd weights = random_matrix(2, 6, random);
      const auto loss = [&] { return net.forward(in).cwiseProduct(weights).sum(); };
      Mlp::Tape tape;
      net.forward(in, tape);
      VectorXd gradient = net.zero();
      const MatrixXd d_in = net.backward(tape, weights, gradient);
      CHECK((gradient - difference(net.parameters(), loss)).cwiseAbs().maxCoeff() < 1e-7);
      VectorXd flat = Eigen::Map<VectorXd>(in.data(), in.size());
      const VectorXd numeric = difference(flat, [&] {
        in = Eigen::Map<MatrixXd>(flat.data(), 3, 6);
        return loss();
      });
      CHECK((Eigen::Map<const VectorXd>(d_in.data(), d_in.size()) - numeric).cwiseAbs().maxCoeff() < 1e-7);
    }
  }
}

TEST_CASE("gradients of action distributions are those of finite differences", "[prop]") {
  sim::RandomStream random(2, "test");
  const std::vector<std::uint8_t> mask{1, 0, 1, 1, 1};
  for (const ActionSpace& space :
       {ActionSpace::discrete(5), ActionSpace::multi_discrete({3, 2}), ActionSpace::box({-1, 0}, {1, 5})}) {
    const ActionHead head(space);
    const bool box = space.kind == ActionKind::box;
    VectorXd out = random_matrix(head.outputs(), 1, random);
    std::vector<double> raw(space.parts());
    head.sample(out.data(), box ? nullptr : mask.data(), random, raw.data());
    const auto value = [&] {
      const auto score = head.score(out.data(), box ? nullptr : mask.data(), raw.data());
      return 0.7 * score.log_probability + 0.3 * score.entropy;
    };
    VectorXd gradient = VectorXd::Zero(out.size());
    head.add_gradient(out.data(), box ? nullptr : mask.data(), raw.data(), 0.7, 0.3, gradient.data());
    CHECK((gradient - difference(out, value)).cwiseAbs().maxCoeff() < 1e-7);
  }
}

TEST_CASE("choices: frequencies follow the softmax, masked ones never come", "[unit]") {
  const ActionHead head(ActionSpace::discrete(3));
  const std::vector<double> out{std::log(1.0), std::log(2.0), std::log(5.0)};
  const std::vector<std::uint8_t> mask{1, 1, 0};
  sim::RandomStream random(3, "test");
  double raw = 0, ones = 0;
  for (int i = 0; i < 30000; ++i) {
    head.sample(out.data(), mask.data(), random, &raw);
    REQUIRE(raw < 2);
    ones += raw;
  }
  CHECK(ones / 30000 == Approx(2.0 / 3).margin(0.01));  // weights 1 and 2; four deviations are 0.011
  head.mode(out.data(), mask.data(), &raw);
  CHECK(raw == 1);
  raw = 1;
  CHECK(head.score(out.data(), mask.data(), &raw).log_probability == Approx(std::log(2.0 / 3)));
  CHECK(head.score(out.data(), nullptr, &raw).log_probability == Approx(std::log(2.0 / 8)));
}

TEST_CASE("boxes: raw actions are scaled to the box and clipped", "[unit]") {
  const ActionHead head(ActionSpace::box({0}, {10}));
  double action = 0;
  for (const auto& [raw, expected] : {std::pair{0.0, 5.0}, {0.5, 7.5}, {-3.0, 0.0}, {2.0, 10.0}}) {
    head.to_action(&raw, &action);
    CHECK(action == expected);
  }
}

TEST_CASE("Adam: the first step is the rate, against the sign of the gradient", "[unit]") {
  // mean / (1 - 0.9) = g and square / (1 - 0.999) = g^2 after one step, so the step is rate * g / |g|.
  VectorXd parameters = VectorXd::Zero(3), gradient(3);
  gradient << 4, -0.5, 0;
  Adam adam(3);
  adam.step(parameters, gradient, 0.1);
  CHECK(parameters[0] == Approx(-0.1));
  CHECK(parameters[1] == Approx(0.1));
  CHECK(parameters[2] == 0);
}

TEST_CASE("the normaliser holds mean and variance of what it saw", "[unit]") {
  Normaliser normaliser(1);
  MatrixXd in(1, 4);
  in << 1, 2, 3, 6;  // mean 3, variance (4 + 1 + 0 + 9) / 4 = 3.5
  CHECK(normaliser.apply(in) == in);
  normaliser.add(in);
  MatrixXd at(1, 2);
  at << 3 + std::sqrt(3.5), 1e6;
  CHECK(normaliser.apply(at)(0, 0) == Approx(1));
  CHECK(normaliser.apply(at)(0, 1) == 10);
}

}  // namespace test_network
