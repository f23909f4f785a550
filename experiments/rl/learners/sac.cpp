// Soft actor-critic for choices: a policy that is as random as its task allows, two Q networks of which the lower one
// counts, and a temperature that holds the policy's entropy at a share of the most there is. Sources: Haarnoja et al.,
// "Soft actor-critic algorithms and applications", arXiv 1812.05905, 2018; for choices, where expectations over actions
// are sums: Christodoulou, arXiv 1910.07207, 2019. Several parts: experiments/rl/core/choices.hpp; several agents learn
// each on its own.
#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/rl/core/off_policy.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::rl {
namespace {

struct SacParams : OffPolicyParams {
  NetworkParams network{{128, 128}, Activation::relu};
  double gamma = 0.99, rate = 5e-4, tau = 0.005, entropy_share = 0.3, first_temperature = 0.1;
  bool tune_temperature = true;

  static constexpr auto fields() {
    using P = SacParams;
    using sim::Unit;
    return sim::joined(
        sim::FieldTable{sim::field("network", &P::network, "Network of the policy and of Q.")},
        sim::inherited<P>(OffPolicyParams::fields()),
        sim::FieldTable{
            sim::field("gamma", &P::gamma, Unit::ratio, sim::between(0, 1), "Discount factor per step."),
            sim::field("rate", &P::rate, Unit::none, sim::positive(), "Step size of everything that is learned."),
            sim::field("tau", &P::tau, Unit::ratio, sim::between(0, 1),
                       "Share of Q that the target networks take over in an update."),
            sim::field("entropy_share", &P::entropy_share, Unit::ratio, sim::between(0, 1),
                       "Target entropy, as a share of that of uniform choices."),
            sim::field("first_temperature", &P::first_temperature, Unit::none, sim::positive(),
                       "Initial weight of entropy against reward (temperature)."),
            sim::field("tune_temperature", &P::tune_temperature, "Whether the temperature is learned."),
        });
  }
};

class Sac final : public OffPolicy {
 public:
  Sac(const SacParams& params, const LearnerSetup& setup)
      : OffPolicy(params, setup),
        params_(params),
        head_(setup.spec.agents[0].action),
        policy_(inputs(), params.network, outputs(), setup.random.child("policy"), 0.01),
        policy_adam_(policy_.parameters().size()) {
    for (std::size_t k = 0; k < 2; ++k) {
      q_[k] = Mlp(inputs(), params.network, outputs(), setup.random.child("q").child(k));
      target_[k] = q_[k];
      q_adam_[k] = Adam(q_[k].parameters().size());
    }
    log_temperature_ = VectorXd::Constant(1, sim::det_log(params.first_temperature));
    temperature_adam_ = Adam(1);
  }

  void act(const View& view, Act how, std::span<double> actions) override {
    for_each_row(view, how, policy_, actions,
                 [&](const double* out, const std::uint8_t* mask, sim::RandomStream& random, double* action) {
                   how == Act::explore ? head_.sample(out, mask, random, action) : head_.mode(out, mask, action);
                 });
  }

  void state(Archive& archive) override {
    archive(replay_, policy_, policy_adam_, log_temperature_, temperature_adam_, calls_, steps_, waiting_, updates_,
            loss_, entropy_);
    for (std::size_t k = 0; k < 2; ++k) archive(q_[k], target_[k], q_adam_[k]);
  }
  std::vector<std::pair<std::string, double>> figures() const override {
    return {{"loss", loss_}, {"entropy", entropy_}, {"temperature", temperature()}};
  }

 private:
  double temperature() const { return sim::det_exp(log_temperature_[0]); }

  /// Calls visit(part, place, probabilities, entropy) for the policy's choices at one observation.
  template <class Visit>
  void for_each_part(const double* out, const std::uint8_t* mask, Visit visit) const {
    std::vector<double> p;
    for (std::size_t part = 0; part < choices_.parts(); ++part) {
      p.resize(choices_.size(part));
      const double entropy =
          masked_softmax(out + choices_.begin(part), choices_.mask(mask, part), choices_.size(part), p.data());
      visit(part, choices_.begin(part), p, entropy);
    }
  }

  void update(const Replay::Batch& batch) override {
    update_values(batch);
    update_policy(batch);
    for (std::size_t k = 0; k < 2; ++k) target_[k].blend(q_[k], params_.tau);
  }

  /// Both Q towards r + gamma (E_policy[lower target] + temperature * entropy).
  void update_values(const Replay::Batch& batch) {
    const MatrixXd out = policy_.forward(batch.after);
    const MatrixXd lower = target_[0].forward(batch.after).cwiseMin(target_[1].forward(batch.after));
    std::vector<double> aims = batch.rewards;
    for (std::size_t i = 0; i < batch.n; ++i) {
      if (batch.terminated[i] != 0) continue;
      const auto column = static_cast<Index>(i);
      double value = 0;
      for_each_part(out.col(column).data(), batch.after_mask(i),
                    [&](std::size_t, std::size_t place, const std::vector<double>& p, double entropy) {
                      for (std::size_t c = 0; c < p.size(); ++c)
                        value += p[c] * lower(static_cast<Index>(place + c), column);
                      value += temperature() * entropy;
                    });
      aims[i] += params_.gamma * value;
    }
    loss_ = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      Mlp::Tape tape;
      const MatrixXd& q = q_[k].forward(batch.before, tape);
      MatrixXd d = MatrixXd::Zero(q.rows(), q.cols());
      for (std::size_t i = 0; i < batch.n; ++i) {
        const auto column = static_cast<Index>(i);
        const double* action = batch.actions.data() + i * choices_.parts();
        const double off = choices_.value(q.col(column).data(), action) - aims[i];
        loss_ += 0.25 * off * off / static_cast<double>(batch.n);
        set_slope(d, column, action, off / static_cast<double>(batch.n));
      }
      VectorXd gradient = q_[k].zero();
      q_[k].backward(tape, d, gradient);
      q_adam_[k].step(q_[k].parameters(), std::move(gradient), left(params_.rate), 10);
    }
  }

  /// The policy up E[lower Q] + temperature * entropy; the temperature towards the entropy that is aimed at.
  void update_policy(const Replay::Batch& batch) {
    const MatrixXd lower = q_[0].forward(batch.before).cwiseMin(q_[1].forward(batch.before));
    Mlp::Tape tape;
    const MatrixXd& out = policy_.forward(batch.before, tape);
    MatrixXd d = MatrixXd::Zero(out.rows(), out.cols());
    const auto count = static_cast<double>(batch.n);
    double excess = 0;
    entropy_ = 0;
    for (std::size_t i = 0; i < batch.n; ++i) {
      const auto column = static_cast<Index>(i);
      const auto climb = [&](std::size_t part, std::size_t place, const std::vector<double>& p, double entropy) {
        double expected = 0;
        for (std::size_t c = 0; c < p.size(); ++c) expected += p[c] * lower(static_cast<Index>(place + c), column);
        for (std::size_t c = 0; c < p.size(); ++c) {
          if (p[c] <= 0) continue;
          const auto row = static_cast<Index>(place + c);
          // d/dz of sum p Q = p (Q - expected), of the entropy = -p (log p + entropy)
          d(row, column) =
              -p[c] / count * (lower(row, column) - expected - temperature() * (sim::det_log(p[c]) + entropy));
        }
        entropy_ += entropy / count;
        const auto allowed = static_cast<double>(choices_.allowed(batch.mask(i), part));
        excess += (entropy - params_.entropy_share * sim::det_log(allowed)) / count;
      };
      for_each_part(out.col(column).data(), batch.mask(i), climb);
    }
    VectorXd gradient = policy_.zero();
    policy_.backward(tape, d, gradient);
    policy_adam_.step(policy_.parameters(), std::move(gradient), left(params_.rate), 10);
    if (!params_.tune_temperature) return;
    temperature_adam_.step(log_temperature_, VectorXd::Constant(1, excess), left(params_.rate));
    log_temperature_[0] = std::clamp(log_temperature_[0], -12.0, 4.0);
  }

  SacParams params_;
  ActionHead head_;
  Mlp policy_;
  Adam policy_adam_;
  std::array<Mlp, 2> q_, target_;
  std::array<Adam, 2> q_adam_;
  VectorXd log_temperature_;
  Adam temperature_adam_;
  double loss_ = 0, entropy_ = 0;
};

}  // namespace

void add_sac_learner(LearnerRegistry& registry) {
  registry.add<SacParams>(
      "sac", "Soft actor-critic for discrete actions.", [](const SacParams& params, const LearnerSetup& setup) {
        require_choices(setup.spec, "sac");
        return learner_per_agent(setup,
                                 [&params](const LearnerSetup& own) { return std::make_unique<Sac>(params, own); });
      });
}

}  // namespace orrery::experiments::rl
