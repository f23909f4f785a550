#include "experiments/rl/training.hpp"

#include <cmath>
#include <limits>

namespace orrery::experiments::rl {
namespace {

VectorEnv make_envs(const TrainingPlan& plan) {
  std::vector<std::unique_ptr<Env>> envs;
  for (std::size_t i = 0; i < plan.envs; ++i) envs.push_back(make_env(plan));
  return VectorEnv(std::move(envs), Autoreset::same_step);
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

std::unique_ptr<Env> make_env(const TrainingPlan& plan) {
  return regroup(plan.make_env(), plan.agents);
}

std::unique_ptr<Learner> make_learner(const TrainingPlan& plan, const EnvSpec& spec) {
  return plan.make_learner({.spec = spec,
                            .envs = plan.envs,
                            .steps = plan.steps,
                            .random = sim::RandomStream(plan.seed, "rl/learner"),
                            .logged = plan.from != nullptr});
}

Training::Training(const TrainingPlan& plan)
    : plan_(plan),
      envs_(make_envs(plan)),
      judge_(make_env(plan)),
      learner_(make_learner(plan, envs_.spec())),
      actions_(plan.envs * envs_.spec().action_size()),
      sums_(plan.envs, 0.0),
      log_(envs_.spec()) {
  const std::uint64_t seed = env_seed(plan.seed, 0);
  if (!learner_->draws()) {
    envs_.reset(seed);
    return;
  }
  envs_.begin_by_hand();
  std::vector<std::uint64_t> seeds;
  for (std::size_t i = 0; i < plan.envs; ++i) seeds.push_back(episode_seed(seed, learner_->draw(i)));
  envs_.reset(seeds);
}

Played play_episodes(Env& env, Learner& learner, std::int64_t episodes, std::int64_t steps, std::uint64_t seed) {
  Played played{.info = std::vector<double>(env.spec().info.size(), 0.0)};
  TimeStep now;
  std::vector<double> action(env.spec().action_size());
  const auto count = static_cast<double>(episodes);
  for (std::int64_t episode = 0; episode < episodes; ++episode) {
    env.reset(episode_seed(seed, static_cast<std::uint64_t>(episode)), now);
    std::int64_t length = 0;
    while (!now.ended() && length < steps) {
      learner.act({1, now.observation, now.mask}, Act::greedy, action);
      check_action(env.spec(), now.mask, action);
      env.step(action, now);
      played.returned += mean(now.rewards) / count;
      ++length;
    }
    played.length += static_cast<double>(length) / count;
    for (std::size_t i = 0; i < now.info.size(); ++i) played.info[i] += now.info[i] / count;
  }
  return played;
}

void Training::advance() {
  if (curve_.empty()) return evaluate();
  const std::int64_t until = std::min(plan_.steps, curve_.back().steps + plan_.eval_every);
  while (steps_ < until) plan_.from ? step_of_log() : step();
  evaluate();
}

void Training::step() {
  const std::size_t n = plan_.envs;
  observations_ = envs_.now().observations;
  masks_ = envs_.now().masks;
  advice_ = envs_.now().advice;
  const View before{n, observations_, masks_, advice_};
  learner_->act(before, Act::explore, actions_);
  const VectorStep& now = envs_.step(actions_);
  const std::size_t width = spec().observation_size(), agents = spec().agents.size();
  std::vector<double> after = now.observations;
  for (std::size_t i = 0; i < n; ++i) {
    const double reward = mean(std::span(now.rewards).subspan(i * agents, agents));
    if (!(best_reward_ >= reward)) best_reward_ = reward;
    sums_[i] += reward;
    if (now.ended[i] == 0) continue;
    std::copy_n(now.final_observations.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                after.begin() + static_cast<std::ptrdiff_t>(i * width));
    ended_sum_ += std::exchange(sums_[i], 0.0);
    ++ended_;
    ++episodes_;
  }
  const Experience experience{before,         actions_,      now.rewards,
                              now.terminated, now.truncated, {n, after, now.masks, now.advice}};
  learner_->learn(experience);
  if (log_.size() < plan_.log) log_.add(experience, plan_.log - log_.size());
  steps_ += static_cast<std::int64_t>(n);
  if (learner_->draws())
    envs_.begin_ended([&](std::size_t i) { return episode_seed(env_seed(plan_.seed, 0), learner_->draw(i)); });
}

/// The next rows of the log, which begins anew at its end: where it is follows from the steps so far.
void Training::step_of_log() {
  const std::size_t at = static_cast<std::size_t>(steps_) % plan_.from->size();
  const std::size_t n = std::min(plan_.envs, plan_.from->size() - at);
  learner_->learn(plan_.from->rows(at, n));
  steps_ += static_cast<std::int64_t>(n);
}

void Training::evaluate() {
  CurvePoint point{.steps = steps_, .episodes = episodes_, .best_reward = best_reward_};
  point.train_return = ended_ > 0 ? ended_sum_ / static_cast<double>(ended_) : std::numeric_limits<double>::quiet_NaN();
  ended_sum_ = 0;
  ended_ = 0;
  Played played = play_episodes(*judge_, *learner_, plan_.eval_episodes, plan_.eval_steps, env_seed(plan_.seed, 1));
  point.eval_return = played.returned;
  point.eval_length = played.length;
  point.info = std::move(played.info);
  for (const auto& [name, value] : learner_->figures()) point.figures.push_back(value);
  curve_.push_back(std::move(point));
}

PolicyFile Training::policy(const EnvRegistry::Choice& env, const LearnerRegistry::Choice& learner) {
  Archive archive;
  learner_->policy(archive);
  return {.env = env.name,
          .env_params = env.params,
          .learner = LearnerRegistry::write_block(learner),
          .regrouped = plan_.agents != Agents::as_is,
          .spec = spec(),
          .seed = static_cast<std::int64_t>(plan_.seed),
          .steps = steps_,
          .eval_return = curve_.empty() ? 0 : curve_.back().eval_return,
          .bytes = archive.bytes()};
}

void Training::state(Archive& archive) {
  archive(envs_, sums_, curve_, steps_, episodes_, ended_, ended_sum_, best_reward_);
  learner_->state(archive);
  if (plan_.log > 0) archive(log_);
}

}  // namespace orrery::experiments::rl
