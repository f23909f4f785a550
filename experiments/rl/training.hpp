// Training one learner in one environment from one seed: the loop, its evaluations, its curve, its checkpoint.
//
// Steps of `envs` environments feed the learner; every `eval_every` environment steps (and before the first) the greedy
// policy plays `eval_episodes` episodes, the same ones each time, in an environment of its own. A training that goes on
// from a checkpoint is bit for bit the one that was never interrupted.
#pragma once

#include <limits>
#include <optional>

#include "experiments/rl/core/agents.hpp"
#include "experiments/rl/core/learner.hpp"
#include "experiments/rl/core/vector_env.hpp"
#include "experiments/rl/policy_file.hpp"
#include "experiments/rl/step_log.hpp"

namespace orrery::experiments::rl {

struct TrainingPlan {
  EnvFactory make_env;
  LearnerRegistry::Factory make_learner;
  Agents agents = Agents::as_is;
  std::int64_t steps = 0, eval_every = 1, eval_episodes = 1, eval_steps = 1;
  std::size_t envs = 1;
  std::uint64_t seed = 1;
  std::shared_ptr<const StepLog> from;  ///< steps to learn from in place of acting; null: none
  std::size_t log = 0;                  ///< steps of the training that are kept, the first ones
};

/// One evaluation. Returns are sums of rewards, over agents their mean; NaN where no episode ended since the last
/// point.
struct CurvePoint {
  std::int64_t steps = 0, episodes = 0;
  double train_return = 0;  ///< mean of the episodes that ended since the last point
  double eval_return = 0, eval_length = 0;
  double best_reward = 0;       ///< of any step of training so far, over agents the mean; NaN before the first
  std::vector<double> info;     ///< mean of the environment's figures at the ends of the evaluation's episodes
  std::vector<double> figures;  ///< the learner's
  void state(Archive& archive) {
    archive(steps, episodes, train_return, eval_return, eval_length, best_reward, info, figures);
  }
};

class Training {
 public:
  explicit Training(const TrainingPlan& plan);
  bool done() const { return steps_ >= plan_.steps && !curve_.empty(); }
  std::int64_t steps() const { return steps_; }
  const EnvSpec& spec() const { return envs_.spec(); }
  const Learner& learner() const { return *learner_; }
  /// On to the next evaluation.
  void advance();
  const std::vector<CurvePoint>& curve() const { return curve_; }
  /// The first steps, as many as the plan keeps.
  const StepLog& log() const { return log_; }
  void state(Archive& archive);
  /// What it has learned so far; `env` and `learner` are the plan's.
  PolicyFile policy(const EnvRegistry::Choice& env, const LearnerRegistry::Choice& learner);

 private:
  void step();
  void step_of_log();
  void evaluate();

  TrainingPlan plan_;
  VectorEnv envs_;
  std::unique_ptr<Env> judge_;
  std::unique_ptr<Learner> learner_;
  std::vector<double> observations_, actions_, sums_;
  std::vector<std::uint8_t> masks_;
  std::vector<double> advice_;
  std::vector<CurvePoint> curve_;
  StepLog log_;
  std::int64_t steps_ = 0, episodes_ = 0, ended_ = 0;
  double ended_sum_ = 0, best_reward_ = std::numeric_limits<double>::quiet_NaN();
};

/// Means over episodes: returns (over agents their mean), steps, the environment's figures at the ends.
struct Played {
  double returned = 0, length = 0;
  std::vector<double> info;
};
/// A learner acting greedily in episodes that follow on a seed, of at most `steps`. Throws std::invalid_argument for an
/// action that is none.
Played play_episodes(Env& env, Learner& learner, std::int64_t episodes, std::int64_t steps, std::uint64_t seed);

/// An environment of the plan, regrouped. Throws std::invalid_argument for parameters that do not go together.
std::unique_ptr<Env> make_env(const TrainingPlan& plan);
/// A learner of the plan. Throws std::invalid_argument if it cannot serve the environment.
std::unique_ptr<Learner> make_learner(const TrainingPlan& plan, const EnvSpec& spec);

}  // namespace orrery::experiments::rl
