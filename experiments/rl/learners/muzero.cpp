// Search with a learned model, in the style of MuZero (Schrittwieser et al., Nature 588, 2020): acting is a tree search
// in the model's own states (experiments/rl/core/search_tree.hpp); the model (learned_model.hpp) learns to say what the
// search found, what was paid, and what followed. Left out: prioritised replay and reanalysis. The search knows the
// mask of the root alone. One choice an agent; several agents learn each on its own. Experimental: 20,000 steps of
// cart-pole bring it to 162 of 500 (docs/explain/rl.md).
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "experiments/rl/core/action_head.hpp"
#include "experiments/rl/core/learned_model.hpp"
#include "experiments/rl/core/learner.hpp"
#include "experiments/rl/core/search_tree.hpp"

namespace orrery::experiments::rl {
namespace {

struct MuZeroParams {
  NetworkParams network{{64}, Activation::tanh};
  std::int64_t latent = 16, simulations = 16, unroll = 5, bootstrap = 10;
  std::int64_t memory = 50'000, batch = 32, begin = 500, train_every = 4;
  double gamma = 0.99, rate = 2e-3, noise = 0.3, noise_share = 0.25;

  static constexpr auto fields() {
    using P = MuZeroParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("network", &P::network, "Network of representation, dynamics and prediction."),
        sim::field("latent", &P::latent, Unit::count, sim::between(1, 65536),
                   "Numbers in a latent state of the model."),
        sim::field("simulations", &P::simulations, Unit::count, sim::between(1, 1e6),
                   "Simulations (leaves) of a tree search."),
        sim::field("unroll", &P::unroll, Unit::count, sim::between(1, 1000), "Steps over which the model is unrolled."),
        sim::field(
            "bootstrap", &P::bootstrap, Unit::count, sim::between(1, 1e6),
            "Rewards from which a value is learned before the value of a search replaces the rest (n-step bootstrap)."),
        sim::field("memory", &P::memory, Unit::count, sim::between(1, 1e9), "Steps kept in the replay memory."),
        sim::field("batch", &P::batch, Unit::count, sim::between(1, 1e6), "Positions per update (batch size)."),
        sim::field("begin", &P::begin, Unit::count, sim::at_least(0), "Steps before the first update."),
        sim::field("train_every", &P::train_every, Unit::count, sim::at_least(1), "Steps between two updates."),
        sim::field("gamma", &P::gamma, Unit::ratio, sim::between(0, 1), "Discount factor per step."),
        sim::field("rate", &P::rate, Unit::none, sim::positive(), "Step size."),
        sim::field("noise", &P::noise, Unit::none, sim::positive(), "Dirichlet parameter of the noise at the root."),
        sim::field("noise_share", &P::noise_share, Unit::ratio, sim::between(0, 1),
                   "Share of the noise in the weights at the root."),
    };
  }
};

/// What one environment went through, the latest `capacity` steps of it.
struct Stream {
  std::vector<double> observations, policies, values, rewards;
  std::vector<std::uint8_t> choices, terminated, ended;
  std::uint64_t count = 0;  ///< steps so far; step t stands at t modulo the capacity
  void state(Archive& archive) { archive(observations, policies, values, rewards, choices, terminated, ended, count); }
};

class MuZero final : public Learner {
 public:
  MuZero(const MuZeroParams& params, const LearnerSetup& setup)
      : params_(params),
        setup_(setup),
        width_(setup.spec.observation_size()),
        choices_(setup.spec.mask_size()),
        capacity_(std::max<std::size_t>(static_cast<std::size_t>(params.memory) / setup.envs,
                                        static_cast<std::size_t>(params.unroll + params.bootstrap) + 2)),
        model_(static_cast<Index>(width_), static_cast<Index>(choices_), static_cast<Index>(params.latent),
               params.network, setup.random.child("model")),
        streams_(setup.envs) {
    require_own_steps(setup, "muzero");
    if (setup.spec.agents[0].action.parts() != 1 || choices_ > 255)
      throw std::invalid_argument("learner muzero needs an action of one choice, of 255 at most");
    for (Stream& stream : streams_) {
      stream.observations.resize(capacity_ * width_);
      stream.policies.resize(capacity_ * choices_);
      for (auto* row : {&stream.values, &stream.rewards}) row->resize(capacity_);
      for (auto* row : {&stream.choices, &stream.terminated, &stream.ended}) row->resize(capacity_);
    }
  }

  void act(const View& view, Act how, std::span<double> actions) override;
  void learn(const Experience& experience) override;
  void state(Archive& archive) override { archive(model_, streams_, calls_, steps_, waiting_, updates_, loss_); }
  std::vector<std::pair<std::string, double>> figures() const override { return {{"loss", loss_}}; }

 private:
  std::vector<SearchTree> search(const View& view, Act how, sim::RandomStream& random) const;
  double value_aim(const Stream& stream, std::uint64_t t) const;
  void fill(LearnedModel::Aim& aim, Index column, const Stream* stream, std::uint64_t t) const;
  void update();

  MuZeroParams params_;
  LearnerSetup setup_;
  std::size_t width_, choices_, capacity_;
  LearnedModel model_;
  std::vector<Stream> streams_;
  std::vector<double> found_, valued_;  ///< of the last searches: shares of visits, values
  std::int64_t calls_ = 0, steps_ = 0, waiting_ = 0, updates_ = 0;
  double loss_ = 0;
};

/// A tree for each environment; their leaves are asked for together.
std::vector<SearchTree> MuZero::search(const View& view, Act how, sim::RandomStream& random) const {
  const Eigen::Map<const MatrixXd> rows(view.observations.data(), static_cast<Index>(width_),
                                        static_cast<Index>(view.n));
  std::vector<MatrixXd> states{model_.represent(rows)};  // of all nodes: the m-th of every tree in one matrix
  LearnedModel::Forecast forecast = model_.predict(states[0]);
  std::vector<SearchTree> trees(view.n, SearchTree(choices_, params_.gamma));
  std::vector<double> priors(choices_), noise(choices_);
  for (std::size_t i = 0; i < view.n; ++i) {
    const std::uint8_t* mask = view.masks.empty() ? nullptr : view.masks.data() + i * choices_;
    masked_softmax(forecast.weights.col(static_cast<Index>(i)).data(), mask, choices_, priors.data());
    if (how == Act::explore) {
      double sum = 0;
      for (std::size_t c = 0; c < choices_; ++c)
        sum += noise[c] = mask != nullptr && mask[c] == 0 ? 0 : random.gamma(params_.noise, 1);
      for (std::size_t c = 0; c < choices_ && sum > 0; ++c)
        priors[c] = (1 - params_.noise_share) * priors[c] + params_.noise_share * noise[c] / sum;
    }
    for (std::size_t c = 0; c < choices_; ++c)  // what is allowed stays so, however unlikely
      if (mask == nullptr || mask[c] != 0) priors[c] = std::max(priors[c], 1e-12);
    trees[i].begin(priors, forecast.values[static_cast<Index>(i)]);
  }
  MatrixXd from(states[0].rows(), states[0].cols());
  std::vector<std::size_t> taken(view.n);
  for (std::int64_t simulation = 0; simulation < params_.simulations; ++simulation) {
    for (std::size_t i = 0; i < view.n; ++i) {
      const SearchTree::Leaf leaf = trees[i].select();
      from.col(static_cast<Index>(i)) = states[leaf.parent].col(static_cast<Index>(i));
      taken[i] = leaf.choice;
    }
    LearnedModel::Next next = model_.next(from, taken);
    forecast = model_.predict(next.states);
    for (std::size_t i = 0; i < view.n; ++i) {
      const auto column = static_cast<Index>(i);
      masked_softmax(forecast.weights.col(column).data(), nullptr, choices_, priors.data());
      for (double& prior : priors) prior = std::max(prior, 1e-12);
      trees[i].expand(next.rewards[column], priors, forecast.values[column]);
    }
    states.push_back(std::move(next.states));
  }
  return trees;
}

void MuZero::act(const View& view, Act how, std::span<double> actions) {
  sim::RandomStream random = setup_.random.child("act").child(static_cast<std::uint64_t>(calls_));
  const std::vector<SearchTree> trees = search(view, how, random);
  if (how == Act::explore) {
    ++calls_;
    found_.assign(view.n * choices_, 0.0);
    valued_.assign(view.n, 0.0);
  }
  // Choices follow the visits, later in the training their square and fourth power.
  const int doublings = 4 * steps_ < 2 * setup_.steps ? 0 : 4 * steps_ < 3 * setup_.steps ? 1 : 2;
  std::vector<double> shares(choices_);
  for (std::size_t i = 0; i < view.n; ++i) {
    const std::vector<std::int64_t> visits = trees[i].visits();
    if (how == Act::greedy) {
      actions[i] = static_cast<double>(std::max_element(visits.begin(), visits.end()) - visits.begin());
      continue;
    }
    double sum = 0;
    for (std::size_t c = 0; c < choices_; ++c) {
      shares[c] = static_cast<double>(visits[c]) / static_cast<double>(params_.simulations);
      found_[i * choices_ + c] = shares[c];
      for (int d = 0; d < doublings; ++d) shares[c] *= shares[c];
      sum += shares[c];
    }
    for (double& share : shares) share /= sum;
    actions[i] = static_cast<double>(draw_index(shares.data(), choices_, random));
    valued_[i] = trees[i].value();
  }
}

void MuZero::learn(const Experience& experience) {
  for (std::size_t i = 0; i < experience.before.n; ++i) {
    Stream& stream = streams_[i];
    const std::size_t at = stream.count++ % capacity_;
    std::copy_n(experience.before.observations.data() + i * width_, width_, stream.observations.data() + at * width_);
    std::copy_n(found_.data() + i * choices_, choices_, stream.policies.data() + at * choices_);
    stream.values[at] = valued_[i];
    stream.rewards[at] = experience.rewards[i];
    stream.choices[at] = static_cast<std::uint8_t>(experience.actions[i]);
    stream.terminated[at] = experience.terminated[i];
    stream.ended[at] = experience.terminated[i] != 0 || experience.truncated[i] != 0 ? 1 : 0;
  }
  steps_ += static_cast<std::int64_t>(experience.before.n);
  waiting_ += static_cast<std::int64_t>(experience.before.n);
  for (; waiting_ >= params_.train_every; waiting_ -= params_.train_every)
    if (steps_ >= params_.begin) update();
}

/// Discounted rewards from step t on, and a search's value for what lies beyond; an episode that was cut off goes on
/// with the value of its last step.
double MuZero::value_aim(const Stream& stream, std::uint64_t t) const {
  double sum = 0, weight = 1;
  for (std::int64_t i = 0; i < params_.bootstrap; ++i, ++t) {
    const std::size_t at = t % capacity_;
    sum += weight * stream.rewards[at];
    weight *= params_.gamma;
    if (stream.terminated[at] != 0) return sum;
    if (stream.ended[at] != 0) return sum + weight * stream.values[at];
  }
  return sum + weight * stream.values[t % capacity_];
}

/// What the model should say at step t; past an episode's end (no stream) nothing is paid and nothing is chosen.
void MuZero::fill(LearnedModel::Aim& aim, Index column, const Stream* stream, std::uint64_t t) const {
  aim.known[column] = stream != nullptr ? 1 : 0;
  aim.values[column] = stream != nullptr ? value_aim(*stream, t) : 0;
  if (stream == nullptr) return;
  const double* policy = stream->policies.data() + t % capacity_ * choices_;
  for (std::size_t c = 0; c < choices_; ++c) aim.policy(static_cast<Index>(c), column) = policy[c];
}

void MuZero::update() {
  sim::RandomStream random = setup_.random.child("update").child(static_cast<std::uint64_t>(updates_++));
  const auto further = static_cast<std::uint64_t>(params_.unroll + params_.bootstrap) + 1;
  if (streams_[0].count <= further) return;
  const auto n = static_cast<Index>(params_.batch);
  MatrixXd observations(static_cast<Index>(width_), n);
  std::vector<LearnedModel::Aim> aims(static_cast<std::size_t>(params_.unroll) + 1);
  for (LearnedModel::Aim& aim : aims)
    aim = {std::vector<std::size_t>(static_cast<std::size_t>(n)), MatrixXd::Zero(static_cast<Index>(choices_), n),
           VectorXd::Zero(n), VectorXd::Zero(n), VectorXd::Zero(n)};
  for (Index i = 0; i < n; ++i) {
    const Stream& stream = streams_[random.below(streams_.size())];
    const std::uint64_t held = std::min<std::uint64_t>(stream.count, capacity_);
    std::uint64_t t = stream.count - held + random.below(held - further);
    std::copy_n(stream.observations.data() + t % capacity_ * width_, width_, observations.col(i).data());
    const Stream* alive = &stream;
    fill(aims[0], i, alive, t);
    for (std::size_t k = 1; k < aims.size(); ++k, ++t) {
      const std::size_t at = t % capacity_;
      aims[k].choices[static_cast<std::size_t>(i)] = alive != nullptr ? stream.choices[at] : random.below(choices_);
      aims[k].rewards[i] = alive != nullptr ? stream.rewards[at] : 0;
      if (alive != nullptr && stream.ended[at] != 0) alive = nullptr;
      fill(aims[k], i, alive, t + 1);
    }
  }
  loss_ = model_.learn(observations, aims, params_.rate);
}

}  // namespace

void add_muzero_learner(LearnerRegistry& registry) {
  registry.add<MuZeroParams>("muzero", "Tree search with a learned model. Experimental: it has not solved cart-pole.",
                             [](const MuZeroParams& params, const LearnerSetup& setup) {
                               require_choices(setup.spec, "muzero");
                               return learner_per_agent(setup, [&params](const LearnerSetup& own) {
                                 return std::make_unique<MuZero>(params, own);
                               });
                             });
}

}  // namespace orrery::experiments::rl
