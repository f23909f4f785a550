// Deep Q-learning with a replay memory, a target network and double estimation: the network chooses the best next
// action, the target network values it. Sources: Mnih et al., Nature 518, 2015; van Hasselt, Guez and Silver, "Deep
// reinforcement learning with double Q-learning", AAAI 2016. The error is squared, or cut as in the former
// (`most_error`): cut at 1, a failure weighs no more than any step before it, and values of cart-pole grow without end.
// Actions are random with a probability that falls evenly from 1 to `last_random` over the share `explore` of the
// training.
//
// `conservative` adds that many times the mean of log sum exp Q(s, .) - Q(s, a) to the loss (CQL(H) of Kumar, Zhou,
// Tucker and Levine, "Conservative Q-learning for offline reinforcement learning", NeurIPS 2020): choices that nobody
// took are not thought better than those that were, which learning from logged steps alone needs. Several parts:
// experiments/rl/core/choices.hpp; several agents learn each on its own.
#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/rl/core/off_policy.hpp"

namespace orrery::experiments::rl {
namespace {

struct DqnParams : OffPolicyParams {
  NetworkParams network{{128, 128}, Activation::relu};
  std::int64_t target_every = 250;
  double gamma = 0.99, rate = 5e-4, explore = 0.2, last_random = 0.05, most_error = 0, conservative = 0;
  bool double_estimate = true;

  static constexpr auto fields() {
    using P = DqnParams;
    using sim::Unit;
    return sim::joined(sim::FieldTable{sim::field("network", &P::network, "Network of Q.")},
                       sim::inherited<P>(OffPolicyParams::fields()),
                       sim::FieldTable{
                           sim::field("target_every", &P::target_every, Unit::count, sim::at_least(1),
                                      "Updates between two renewals of the target network."),
                           sim::field("gamma", &P::gamma, Unit::ratio, sim::between(0, 1), "Discount factor per step."),
                           sim::field("rate", &P::rate, Unit::none, sim::positive(), "Step size."),
                           sim::field("most_error", &P::most_error, Unit::none, sim::at_least(0),
                                      "Error beyond which the loss is linear (Huber loss); 0: always squared."),
                           sim::field("explore", &P::explore, Unit::ratio, sim::between(0, 1),
                                      "Share of the training over which the probability of random actions falls."),
                           sim::field("last_random", &P::last_random, Unit::ratio, sim::between(0, 1),
                                      "Probability of random actions from then on."),
                           sim::field("conservative", &P::conservative, Unit::none, sim::at_least(0),
                                      "Weight of keeping the value of unseen actions below that of logged ones "
                                      "(conservative Q-learning); 1 is a good start for logged steps."),
                           sim::field("double_estimate", &P::double_estimate,
                                      "Whether the network chooses actions that the target network evaluates (double "
                                      "Q-learning); if not, the target network does both."),
                       });
  }
};

class Dqn final : public OffPolicy {
 public:
  Dqn(const DqnParams& params, const LearnerSetup& setup)
      : OffPolicy(params, setup),
        params_(params),
        net_(inputs(), params.network, outputs(), setup.random.child("q")),
        target_(net_),
        adam_(net_.parameters().size()) {}

  void act(const View& view, Act how, std::span<double> actions) override {
    for_each_row(view, how, net_, actions,
                 [&](const double* q, const std::uint8_t* mask, sim::RandomStream& random, double* action) {
                   choices_.best(q, mask, action);
                   if (how == Act::explore && random.uniform() < share_random()) draw(mask, random, action);
                 });
  }

  void state(Archive& archive) override {
    archive(replay_, net_, target_, adam_, calls_, steps_, waiting_, updates_, loss_);
  }
  std::vector<std::pair<std::string, double>> figures() const override {
    return {{"loss", loss_}, {"random", share_random()}};
  }

 private:
  double share_random() const {
    const double span = params_.explore * static_cast<double>(setup_.steps);
    const double done = span > 0 ? std::min(1.0, static_cast<double>(steps_) / span) : 1;
    return 1 + done * (params_.last_random - 1);
  }
  void draw(const std::uint8_t* mask, sim::RandomStream& random, double* action) const {
    for (std::size_t part = 0; part < choices_.parts(); ++part) {
      std::uint64_t left = random.below(choices_.allowed(mask, part));
      std::size_t choice = 0;
      const std::uint8_t* allowed = choices_.mask(mask, part);
      for (;; ++choice)
        if ((allowed == nullptr || allowed[choice] != 0) && left-- == 0) break;
      action[part] = static_cast<double>(choice);
    }
  }

  void update(const Replay::Batch& batch) override {
    const MatrixXd valued = target_.forward(batch.after);
    const MatrixXd chosen = params_.double_estimate ? net_.forward(batch.after) : valued;
    Mlp::Tape tape;
    const MatrixXd& q = net_.forward(batch.before, tape);
    MatrixXd d = MatrixXd::Zero(q.rows(), q.cols());
    std::vector<double> best(choices_.parts());
    loss_ = 0;
    for (std::size_t i = 0; i < batch.n; ++i) {
      const auto column = static_cast<Index>(i);
      const double* action = batch.actions.data() + i * choices_.parts();
      double aim = batch.rewards[i];
      if (batch.terminated[i] == 0) {
        choices_.best(chosen.col(column).data(), batch.after_mask(i), best.data());
        aim += params_.gamma * choices_.value(valued.col(column).data(), best.data());
      }
      const double off = choices_.value(q.col(column).data(), action) - aim;
      const double most = params_.most_error > 0 ? params_.most_error : std::numeric_limits<double>::infinity();
      const double slope = std::clamp(off, -most, most);
      loss_ += slope * (off - 0.5 * slope) / static_cast<double>(batch.n);  // Huber's
      set_slope(d, column, action, slope / static_cast<double>(batch.n));
      if (params_.conservative > 0) lower_others(q.col(column).data(), batch, i, d);
    }
    VectorXd gradient = net_.zero();
    net_.backward(tape, d, gradient);
    adam_.step(net_.parameters(), std::move(gradient), left(params_.rate), 10);
    if (updates_ % params_.target_every == 0) target_.blend(net_, 1);
  }

  /// Adds the derivatives of CQL's term for row i: softmax(Q) - 1 at what was done, part by part.
  void lower_others(const double* q, const Replay::Batch& batch, std::size_t i, MatrixXd& d) const {
    const auto column = static_cast<Index>(i);
    const double weight = params_.conservative / static_cast<double>(batch.n);
    std::vector<double> p;
    for (std::size_t part = 0; part < choices_.parts(); ++part) {
      const std::size_t begin = choices_.begin(part);
      p.resize(choices_.size(part));
      masked_softmax(q + begin, choices_.mask(batch.mask(i), part), p.size(), p.data());
      for (std::size_t c = 0; c < p.size(); ++c) d(static_cast<Index>(begin + c), column) += weight * p[c];
      const auto done = static_cast<std::size_t>(batch.actions[i * choices_.parts() + part]);
      d(static_cast<Index>(begin + done), column) -= weight;
    }
  }

  DqnParams params_;
  Mlp net_, target_;
  Adam adam_;
  double loss_ = 0;
};

}  // namespace

void add_dqn_learner(LearnerRegistry& registry) {
  registry.add<DqnParams>("dqn", "Deep Q-learning with double estimation, replay memory and target network.",
                          [](const DqnParams& params, const LearnerSetup& setup) {
                            require_choices(setup.spec, "dqn");
                            return learner_per_agent(setup, [&params](const LearnerSetup& own) {
                              return std::make_unique<Dqn>(params, own);
                            });
                          });
}

}  // namespace orrery::experiments::rl
