// The search tree by hand; the learned model's gradient; the scale of values.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/rl/core/learned_model.hpp"
#include "experiments/rl/core/search_tree.hpp"

namespace test_muzero {

using namespace orrery;
using namespace orrery::experiments::rl;

TEST_CASE("search finds the better of two choices, whatever the priors say", "[unit]") {
  // Choice 0 pays 0 and choice 1 pays 1, values are 0; the priors favour 0.
  SearchTree tree(2, 1.0);
  tree.begin(std::vector<double>{0.9, 0.1}, 0);
  std::vector<std::size_t> depth{0};
  for (int i = 0; i < 50; ++i) {
    const SearchTree::Leaf leaf = tree.select();
    const double reward = leaf.parent == 0 && leaf.choice == 1 ? 1 : 0;
    CHECK(tree.expand(reward, std::vector<double>{0.5, 0.5}, 0) == static_cast<std::size_t>(i) + 1);
  }
  const auto visits = tree.visits();
  CHECK(visits[0] + visits[1] == 50);
  CHECK(visits[1] > visits[0]);
}

TEST_CASE("search: values along a path by hand", "[unit]") {
  SearchTree tree(1, 0.5);
  tree.begin(std::vector<double>{1}, 4);
  tree.select();
  tree.expand(2, std::vector<double>{1}, 6);  // root sees 2 + 0.5 * 6 = 5: mean of 4 and 5
  CHECK(tree.value() == 4.5);
  tree.select();
  tree.expand(1, std::vector<double>{1}, 8);  // its parent sees 1 + 4 = 5, the root 2 + 2.5 = 4.5
  CHECK(tree.value() == 4.5);
  CHECK(tree.visits() == std::vector<std::int64_t>{2});
}

TEST_CASE("search never takes what is not allowed", "[unit]") {
  SearchTree tree(3, 1.0);
  tree.begin(std::vector<double>{0.5, 0, 0.5}, 0);
  for (int i = 0; i < 30; ++i) {
    tree.select();
    tree.expand(0, std::vector<double>{0.3, 0.4, 0.3}, 0);
  }
  CHECK(tree.visits()[1] == 0);
}

TEST_CASE("the scale of values comes back", "[prop]") {
  for (const double x : {0.0, 1e-6, 0.5, -0.5, 3.0, -100.0, 1e4, -1e6}) {
    CHECK(unsquash_value(squash_value(x)) == Approx(x).epsilon(1e-9).margin(1e-12));
  }
  CHECK(squash_value(3) == Approx(1.003));  // sqrt(4) - 1 + 0.003
}

TEST_CASE("the learned model's gradient is that of finite differences where it is meant to be", "[prop]") {
  sim::RandomStream random(1, "test");
  LearnedModel model(3, 2, 4, {{5}, Activation::tanh}, random.child("model"));
  const auto draw = [&](Index rows, Index columns) {
    MatrixXd out(rows, columns);
    for (Index i = 0; i < out.size(); ++i) out.data()[i] = random.uniform();
    return out;
  };
  const MatrixXd observations = draw(3, 4);
  std::vector<LearnedModel::Aim> aims(2);
  for (LearnedModel::Aim& aim : aims) {
    aim = {{0, 1, 1, 0}, MatrixXd::Constant(2, 4, 0.5), draw(4, 1), draw(4, 1), VectorXd::Ones(4)};
    aim.policy.row(0).setConstant(0.3);
    aim.policy.row(1).setConstant(0.7);
  }
  std::array<VectorXd, 3> gradients, ignored;
  model.losses(observations, aims, gradients);
  // What flows back through the dynamics is halved on purpose, so the representation is checked on one step alone.
  const auto check = [&](std::size_t net, std::span<const LearnedModel::Aim> over) {
    model.losses(observations, over, gradients);
    VectorXd& parameters = model.networks()[net].parameters();
    for (Index i = 0; i < parameters.size(); i += 3) {
      const double keep = parameters[i], h = 1e-6;
      parameters[i] = keep + h;
      const double above = model.losses(observations, over, ignored);
      parameters[i] = keep - h;
      const double below = model.losses(observations, over, ignored);
      parameters[i] = keep;
      CHECK(gradients[net][i] == Approx((above - below) / (2 * h)).margin(1e-7));
    }
  };
  check(0, std::span(aims).first(1));
  check(1, aims);
  check(2, aims);
}

}  // namespace test_muzero
