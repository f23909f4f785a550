// A learned model to search with: what an observation stands for, what a choice leads to, what a place is worth.
//
// Three networks (Schrittwieser et al., Nature 588, 2020): representation (observation to a hidden state), dynamics
// (state and choice to the next state and a reward), prediction (state to choice weights and a value). States pass
// through tanh. Values and rewards are learned on the scale sign(x)(sqrt(|x| + 1) - 1) + x / 1000 (Pohlen et al., arXiv
// 1805.11593, 2018), with squared errors where the paper has cross entropies over bins. Unrolled over the choices that
// were taken, all three descend together; what flows back into a state from the dynamics is halved, later steps of the
// unrolling weigh 1 / length each, as in the paper.
#pragma once

#include "experiments/rl/core/network.hpp"

namespace orrery::experiments::rl {

double squash_value(double x);
double unsquash_value(double y);

class LearnedModel {
 public:
  LearnedModel(Index observation, Index choices, Index state, const NetworkParams& shape,
               const sim::RandomStream& random);

  MatrixXd represent(const MatrixXd& observations) const;
  struct Next {
    MatrixXd states;
    VectorXd rewards;
  };
  /// What a choice leads to in each column.
  Next next(const MatrixXd& states, std::span<const std::size_t> choices) const;
  struct Forecast {
    MatrixXd weights;  ///< of choices, before the softmax
    VectorXd values;
  };
  Forecast predict(const MatrixXd& states) const;

  /// What one step of the unrolling should say, a column a sample. Where `known` is 0 the choices are not judged.
  struct Aim {
    std::vector<std::size_t> choices;  ///< taken before this step; none for the first
    MatrixXd policy;
    VectorXd values, rewards, known;
  };
  /// One step down the losses; returns their sum.
  double learn(const MatrixXd& observations, std::span<const Aim> aims, double rate);
  /// The losses, and their gradient by all parameters (representation, dynamics, prediction): for learn() and tests.
  double losses(const MatrixXd& observations, std::span<const Aim> aims, std::array<VectorXd, 3>& gradients) const;
  std::array<Mlp, 3>& networks() { return nets_; }
  void state(Archive& archive) {
    for (std::size_t i = 0; i < 3; ++i) archive(nets_[i], adams_[i]);
  }

 private:
  MatrixXd with_choices(const MatrixXd& states, std::span<const std::size_t> choices) const;
  double judge(const MatrixXd& out, const Aim& aim, double weight, MatrixXd& d) const;

  Index choices_, state_;
  std::array<Mlp, 3> nets_;  ///< representation, dynamics, prediction
  std::array<Adam, 3> adams_;
};

}  // namespace orrery::experiments::rl
