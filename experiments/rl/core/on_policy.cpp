#include "experiments/rl/core/on_policy.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/math.hpp"

namespace orrery::experiments::rl {
namespace {

using ConstMatrix = Eigen::Map<const MatrixXd>;

/// Some columns of a matrix.
MatrixXd gather(const MatrixXd& from, Index first_row, Index rows, std::span<const std::size_t> columns) {
  MatrixXd out(rows, static_cast<Index>(columns.size()));
  for (std::size_t i = 0; i < columns.size(); ++i)
    out.col(static_cast<Index>(i)) = from.col(static_cast<Index>(columns[i])).segment(first_row, rows);
  return out;
}

/// One agent: its place in the rows of all, its actor, and what it did in this round (columns: step by step, in each
/// the environments).
struct Actor {
  Reading reading;
  ActionHead head;
  Index observation = 0, width = 0;  ///< place and length of its observation
  std::size_t action = 0, mask = 0;
  Mlp net;
  Adam adam;
  std::vector<double> raw, log_probability, values, next_values, rewards, advantages, returns;
  std::size_t parts() const { return head.space().parts(); }
};

struct Critic {
  Mlp net;
  Adam adam;
  Index observation = 0, width = 0;
  std::vector<std::size_t> agents;  ///< whose values its outputs are
};

class OnPolicy final : public Learner {
 public:
  OnPolicy(const OnPolicySettings& settings, const LearnerSetup& setup)
      : settings_(settings),
        setup_(setup),
        width_(static_cast<Index>(setup.spec.observation_size())),
        mask_width_(setup.spec.masked ? setup.spec.mask_size() : 0),
        normaliser_(setup.spec.agents.size() == 1 ? Reading(setup.spec.agents[0]).inputs() : width_),
        returns_(static_cast<Index>(setup.spec.agents.size())),
        observations_(width_, static_cast<Index>(settings.horizon) * static_cast<Index>(setup.envs)) {
    Index observation = 0;
    std::size_t action = 0, mask = 0;
    for (const AgentSpec& agent : setup.spec.agents) {
      Actor actor{.reading = Reading(agent), .head = ActionHead(agent.action)};
      actor.observation = observation;
      actor.width = static_cast<Index>(agent.observation.size());
      actor.action = action;
      actor.mask = mask;
      actor.net = Mlp(actor.reading.inputs(), settings.network, agent.per_choice > 0 ? 1 : actor.head.outputs(),
                      setup.random.child("actor").child(actors_.size()), 0.01);
      actor.adam = Adam(actor.net.parameters().size());
      if (!settings.shared_critic) add_critic(observation, actor.width, {actors_.size()});
      observation += actor.width;
      action += agent.action.parts();
      mask += agent.action.all_choices();
      actors_.push_back(std::move(actor));
    }
    if (settings.shared_critic) {
      std::vector<std::size_t> all(actors_.size());
      std::iota(all.begin(), all.end(), std::size_t{0});
      add_critic(0, width_, std::move(all));
    }
  }

  void act(const View& view, Act how, std::span<double> actions) override;
  void learn(const Experience& experience) override;
  void state(Archive& archive) override;
  void policy(Archive& archive) override {
    archive(normaliser_);
    for (Actor& actor : actors_) archive(actor.net);
  }
  std::vector<std::pair<std::string, double>> figures() const override {
    return {{"entropy", entropy_}, {"critic_loss", critic_loss_}, {"clipped", clipped_}};
  }

 private:
  void add_critic(Index observation, Index width, std::vector<std::size_t> agents) {
    Critic critic{.observation = observation, .width = width, .agents = std::move(agents)};
    critic.net = Mlp(width, settings_.network, static_cast<Index>(critic.agents.size()),
                     setup_.random.child("critic").child(critics_.size()));
    critic.adam = Adam(critic.net.parameters().size());
    critics_.push_back(std::move(critic));
  }
  MatrixXd seen(const View& view) const {
    const ConstMatrix rows(view.observations.data(), width_, static_cast<Index>(view.n));
    if (!settings_.normalise) return rows;
    if (actors_.size() > 1) return normaliser_.apply(rows);
    return actors_[0].reading.together(normaliser_.apply(actors_[0].reading.apart(rows)));
  }
  const std::uint8_t* mask_of(std::span<const std::uint8_t> masks, std::size_t column, const Actor& actor) const {
    return mask_width_ == 0 ? nullptr : masks.data() + column * mask_width_ + actor.mask;
  }
  /// Values of all agents (rows) at some observations, seen as the learner sees them.
  MatrixXd values(const MatrixXd& seen) const;
  void update();
  void estimate();
  void improve_actor(Actor& actor, std::span<const std::size_t> columns, double rate);
  void improve_critic(Critic& critic, std::span<const std::size_t> columns, double rate);

  OnPolicySettings settings_;
  LearnerSetup setup_;
  Index width_;
  std::size_t mask_width_;
  Normaliser normaliser_;
  Normaliser returns_;  ///< of each agent, so far
  std::vector<Actor> actors_;
  std::vector<Critic> critics_;
  MatrixXd observations_;  ///< of this round, as they were seen
  std::vector<std::uint8_t> masks_, ended_;
  std::vector<double> pending_, pending_log_;  ///< raw actions of the last act(), agent after agent in each row
  std::int64_t calls_ = 0, updates_ = 0, filled_ = 0, steps_ = 0;
  double entropy_ = 0, critic_loss_ = 0, clipped_ = 0;
};

void OnPolicy::act(const View& view, Act how, std::span<double> actions) {
  const bool explore = how == Act::explore;
  if (explore && settings_.normalise) {
    const ConstMatrix rows(view.observations.data(), width_, static_cast<Index>(view.n));
    normaliser_.add(actors_.size() > 1 ? MatrixXd(rows) : actors_[0].reading.apart(rows));
  }
  const MatrixXd observed = seen(view);
  const std::size_t width = setup_.spec.action_size();
  std::vector<double> raw(view.n * width), logs(view.n * actors_.size());
  sim::RandomStream random = setup_.random.child("act").child(static_cast<std::uint64_t>(calls_));
  for (std::size_t a = 0; a < actors_.size(); ++a) {
    const Actor& actor = actors_[a];
    const MatrixXd out = actor.reading.outputs(
        actor.net.forward(actor.reading.apart(observed.middleRows(actor.observation, actor.width))));
    for (std::size_t i = 0; i < view.n; ++i) {
      const double* column = out.col(static_cast<Index>(i)).data();
      const std::uint8_t* mask = mask_of(view.masks, i, actor);
      double* to = raw.data() + i * width + actor.action;
      explore ? actor.head.sample(column, mask, random, to) : actor.head.mode(column, mask, to);
      actor.head.to_action(to, actions.data() + i * width + actor.action);
      if (explore) logs[i * actors_.size() + a] = actor.head.score(column, mask, to).log_probability;
    }
  }
  if (!explore) return;
  ++calls_;
  observations_.middleCols(static_cast<Index>(filled_) * static_cast<Index>(view.n), static_cast<Index>(view.n)) =
      observed;
  pending_ = std::move(raw);
  pending_log_ = std::move(logs);
}

void OnPolicy::learn(const Experience& experience) {
  const std::size_t n = experience.before.n, width = setup_.spec.action_size();
  const MatrixXd next = values(seen(experience.after));
  masks_.insert(masks_.end(), experience.before.masks.begin(), experience.before.masks.end());
  for (std::size_t i = 0; i < n; ++i) {
    ended_.push_back(experience.terminated[i] != 0 || experience.truncated[i] != 0 ? 1 : 0);
    for (std::size_t a = 0; a < actors_.size(); ++a) {
      Actor& actor = actors_[a];
      const double* raw = pending_.data() + i * width + actor.action;
      actor.raw.insert(actor.raw.end(), raw, raw + actor.parts());
      actor.log_probability.push_back(pending_log_[i * actors_.size() + a]);
      actor.rewards.push_back(experience.rewards[i * actors_.size() + a]);
      actor.next_values.push_back(experience.terminated[i] != 0 ? 0
                                                                : next(static_cast<Index>(a), static_cast<Index>(i)));
    }
  }
  steps_ += static_cast<std::int64_t>(n);
  if (++filled_ < settings_.horizon) return;
  update();
  filled_ = 0;
  masks_.clear();
  ended_.clear();
  for (Actor& actor : actors_)
    for (auto* row : {&actor.raw, &actor.log_probability, &actor.rewards, &actor.next_values}) row->clear();
}

MatrixXd OnPolicy::values(const MatrixXd& seen) const {
  MatrixXd all(static_cast<Index>(actors_.size()), seen.cols());
  for (const Critic& critic : critics_) {
    const MatrixXd out = critic.net.forward(seen.middleRows(critic.observation, critic.width));
    for (std::size_t i = 0; i < critic.agents.size(); ++i) {
      const auto agent = static_cast<Index>(critic.agents[i]);
      all.row(agent) = (returns_.deviation(agent) * out.row(static_cast<Index>(i))).array() + returns_.mean(agent);
    }
  }
  return all;
}

/// Advantages and returns of the round.
void OnPolicy::estimate() {
  const std::size_t n = setup_.envs, horizon = static_cast<std::size_t>(settings_.horizon);
  const MatrixXd all = values(observations_);
  std::vector<double> rewards(horizon), now(horizon), next(horizon);
  std::vector<std::uint8_t> ended(horizon);
  for (std::size_t a = 0; a < actors_.size(); ++a) {
    Actor& actor = actors_[a];
    actor.advantages.resize(n * horizon);
    actor.returns.resize(n * horizon);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t t = 0; t < horizon; ++t) {
        const std::size_t column = t * n + i;
        rewards[t] = actor.rewards[column];
        now[t] = all(static_cast<Index>(a), static_cast<Index>(column));
        next[t] = actor.next_values[column];
        ended[t] = ended_[column];
      }
      const std::vector<double> result = advantages(rewards, now, next, ended, settings_.gamma, settings_.lambda);
      for (std::size_t t = 0; t < horizon; ++t) {
        actor.advantages[t * n + i] = result[t];
        actor.returns[t * n + i] = result[t] + now[t];
      }
    }
  }
  MatrixXd returns(all.rows(), all.cols());
  for (std::size_t a = 0; a < actors_.size(); ++a)
    returns.row(static_cast<Index>(a)) =
        Eigen::Map<const Eigen::RowVectorXd>(actors_[a].returns.data(), returns.cols());
  returns_.add(returns);
}

void OnPolicy::update() {
  estimate();
  const double left =
      std::max(0.0, 1 - static_cast<double>(steps_) / static_cast<double>(std::max<std::int64_t>(setup_.steps, 1)));
  const double share = settings_.anneal ? left : 1;
  sim::RandomStream random = setup_.random.child("update").child(static_cast<std::uint64_t>(updates_++));
  std::vector<std::size_t> order(setup_.envs * static_cast<std::size_t>(settings_.horizon));
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto pieces = std::min(static_cast<std::size_t>(settings_.minibatches), order.size());
  for (std::int64_t epoch = 0; epoch < settings_.epochs; ++epoch) {
    if (pieces > 1) random.shuffle(std::span(order));
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const std::size_t begin = piece * order.size() / pieces, end = (piece + 1) * order.size() / pieces;
      const auto columns = std::span(order).subspan(begin, end - begin);
      for (Actor& actor : actors_) improve_actor(actor, columns, share * settings_.rate);
      for (Critic& critic : critics_) improve_critic(critic, columns, share * settings_.critic_rate);
    }
  }
}

void OnPolicy::improve_actor(Actor& actor, std::span<const std::size_t> columns, double rate) {
  const auto count = static_cast<double>(columns.size());
  double mean = 0, square = 0;
  for (const std::size_t column : columns) mean += actor.advantages[column] / count;
  for (const std::size_t column : columns)
    square += (actor.advantages[column] - mean) * (actor.advantages[column] - mean) / count;
  const double scale = settings_.normalise_advantages && columns.size() > 1 ? 1 / (std::sqrt(square) + 1e-8) : 1;
  const double shift = settings_.normalise_advantages && columns.size() > 1 ? mean : 0;
  Mlp::Tape tape;
  const MatrixXd seen = gather(observations_, actor.observation, actor.width, columns);
  const MatrixXd out = actor.reading.outputs(actor.net.forward(actor.reading.apart(seen), tape));
  MatrixXd d = MatrixXd::Zero(out.rows(), out.cols());
  entropy_ = clipped_ = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const double advantage = (actor.advantages[columns[i]] - shift) * scale;
    const double* raw = actor.raw.data() + columns[i] * actor.parts();
    const double* column = out.col(static_cast<Index>(i)).data();
    const std::uint8_t* mask = mask_of(masks_, columns[i], actor);
    const ActionHead::Score score = actor.head.score(column, mask, raw);
    const double ratio = sim::det_exp(score.log_probability - actor.log_probability[columns[i]]);
    const bool beyond = settings_.clip > 0 && (advantage > 0 ? ratio > 1 + settings_.clip : ratio < 1 - settings_.clip);
    actor.head.add_gradient(column, mask, raw, beyond ? 0 : -ratio * advantage / count, -settings_.entropy / count,
                            d.col(static_cast<Index>(i)).data());
    entropy_ += score.entropy / count;
    clipped_ += beyond ? 1 / count : 0;
  }
  VectorXd gradient = actor.net.zero();
  actor.net.backward(tape, actor.reading.derivatives(d), gradient);
  actor.adam.step(actor.net.parameters(), std::move(gradient), rate, settings_.most_gradient);
}

void OnPolicy::improve_critic(Critic& critic, std::span<const std::size_t> columns, double rate) {
  const auto count = static_cast<double>(columns.size());
  Mlp::Tape tape;
  const MatrixXd& out = critic.net.forward(gather(observations_, critic.observation, critic.width, columns), tape);
  MatrixXd d(out.rows(), out.cols());
  for (std::size_t k = 0; k < critic.agents.size(); ++k) {
    const std::size_t agent = critic.agents[k];
    const double mean = returns_.mean(static_cast<Index>(agent)), scale = returns_.deviation(static_cast<Index>(agent));
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double aim = (actors_[agent].returns[columns[i]] - mean) / scale;
      d(static_cast<Index>(k), static_cast<Index>(i)) =
          (out(static_cast<Index>(k), static_cast<Index>(i)) - aim) / count;
    }
  }
  critic_loss_ = 0.5 * count * d.squaredNorm() / static_cast<double>(d.rows());
  VectorXd gradient = critic.net.zero();
  critic.net.backward(tape, d, gradient);
  critic.adam.step(critic.net.parameters(), std::move(gradient), rate, settings_.most_gradient);
}

void OnPolicy::state(Archive& archive) {
  archive(normaliser_, returns_, observations_, masks_, ended_, calls_, updates_, filled_, steps_, entropy_,
          critic_loss_, clipped_);
  for (Actor& actor : actors_)
    archive(actor.net, actor.adam, actor.raw, actor.log_probability, actor.rewards, actor.next_values);
  for (Critic& critic : critics_) archive(critic.net, critic.adam);
}

}  // namespace

std::vector<double> advantages(std::span<const double> rewards, std::span<const double> values,
                               std::span<const double> next_values, std::span<const std::uint8_t> ended, double gamma,
                               double lambda) {
  std::vector<double> out(rewards.size());
  double further = 0;
  for (std::size_t t = rewards.size(); t-- > 0;) {
    const double delta = rewards[t] + gamma * next_values[t] - values[t];
    further = delta + (ended[t] != 0 ? 0 : gamma * lambda * further);
    out[t] = further;
  }
  return out;
}

std::unique_ptr<Learner> make_on_policy(const OnPolicySettings& settings, const LearnerSetup& setup) {
  return std::make_unique<OnPolicy>(settings, setup);
}

}  // namespace orrery::experiments::rl
