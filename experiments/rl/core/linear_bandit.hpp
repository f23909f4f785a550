// Bandits whose arms' rewards are linear in the context: what is known of each arm, for LinUCB and Thompson sampling.
//
// Of arm a: the ridge regression of its rewards on its contexts x (with a 1 appended), theta = A^-1 b with
// A = ridge I + sum x x^T and b = sum r x; A^-1 is kept up to date by Sherman and Morrison's formula. Every step counts
// as an episode: what an action leads to is not looked at.
#pragma once

#include <stdexcept>

#include "experiments/rl/core/learner.hpp"
#include "experiments/rl/core/network.hpp"

namespace orrery::experiments::rl {

struct LinearArm {
  MatrixXd inverse;
  VectorXd b;
  LinearArm(Index size, double ridge) : inverse(MatrixXd::Identity(size, size) / ridge), b(VectorXd::Zero(size)) {}
  VectorXd theta() const { return inverse * b; }
  void add(const VectorXd& x, double reward) {
    const VectorXd along = inverse * x;
    inverse -= along * along.transpose() / (1 + x.dot(along));
    b += reward * x;
  }
  void state(Archive& archive) { archive(inverse, b); }
};

/// `Score` says what an arm promises: score(arm, x, how, random); the highest allowed one is played.
template <class Score>
class LinearBandit final : public Learner {
 public:
  LinearBandit(const LearnerSetup& setup, double ridge, Score score)
      : setup_(setup), size_(static_cast<Index>(setup.spec.observation_size()) + 1), score_(score) {
    const ActionSpace& action = setup.spec.agents[0].action;
    if (action.kind == ActionKind::box || action.parts() != 1)
      throw std::invalid_argument("a linear bandit chooses one arm: it needs an action of one choice");
    for (std::int64_t arm = 0; arm < action.choices[0]; ++arm) arms_.emplace_back(size_, ridge);
  }

  void act(const View& view, Act how, std::span<double> actions) override {
    sim::RandomStream random = setup_.random.child("act").child(static_cast<std::uint64_t>(calls_));
    if (how == Act::explore) ++calls_;
    for (std::size_t i = 0; i < view.n; ++i) {
      const VectorXd x = context(view, i);
      std::size_t best = arms_.size();
      double most = 0;
      for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
        const double promise = score_(arms_[arm], x, how, random);
        if (!view.masks.empty() && view.masks[i * arms_.size() + arm] == 0) continue;
        if (best < arms_.size() && promise <= most) continue;
        best = arm;
        most = promise;
      }
      actions[i] = static_cast<double>(best);
    }
  }

  void learn(const Experience& experience) override {
    for (std::size_t i = 0; i < experience.before.n; ++i)
      arms_[static_cast<std::size_t>(experience.actions[i])].add(context(experience.before, i), experience.rewards[i]);
  }

  void state(Archive& archive) override {
    archive(calls_);
    for (LinearArm& arm : arms_) archive(arm);
  }

 private:
  VectorXd context(const View& view, std::size_t i) const {
    VectorXd x(size_);
    x.head(size_ - 1) =
        Eigen::Map<const VectorXd>(view.observations.data() + i * static_cast<std::size_t>(size_ - 1), size_ - 1);
    x[size_ - 1] = 1;
    return x;
  }

  LearnerSetup setup_;
  Index size_;
  Score score_;
  std::vector<LinearArm> arms_;
  std::int64_t calls_ = 0;
};

}  // namespace orrery::experiments::rl
