#include "experiments/rl/core/imitation.hpp"

#include <algorithm>
#include <cmath>

#include "experiments/rl/core/action_head.hpp"
#include "experiments/rl/core/reading.hpp"
#include "experiments/rl/core/replay.hpp"

namespace orrery::experiments::rl {
namespace {

class Imitation final : public Learner {
 public:
  Imitation(const ImitationParams& params, double share, const LearnerSetup& setup)
      : params_(params),
        share_(share),
        setup_(setup),
        reading_(setup.spec.agents[0]),
        head_(setup.spec.agents[0].action),
        mask_(setup.spec.masked ? setup.spec.mask_size() : 0),
        replay_(static_cast<std::size_t>(params.memory), setup.spec.observation_size(), setup.spec.action_size(),
                mask_),
        normaliser_(reading_.inputs()),
        net_(reading_.inputs(), params.network, reading_.per_choice > 0 ? 1 : head_.outputs(),
             setup.random.child("policy"), 0.01),
        adam_(net_.parameters().size()) {}

  void act(const View& view, Act how, std::span<double> actions) override {
    const Eigen::Map<const MatrixXd> rows(view.observations.data(), reading_.width, static_cast<Index>(view.n));
    if (how == Act::explore) normaliser_.add(reading_.apart(rows));
    const MatrixXd out = reading_.outputs(net_.forward(normaliser_.apply(reading_.apart(rows))));
    const std::size_t parts = setup_.spec.action_size();
    for (std::size_t i = 0; i < view.n; ++i)
      head_.mode(out.col(static_cast<Index>(i)).data(), mask(view.masks, i), actions.data() + i * parts);
    if (how != Act::explore) return;
    sim::RandomStream random = setup_.random.child("act").child(static_cast<std::uint64_t>(calls_++));
    const double rule = rule_acts();
    for (std::size_t i = 0; i < view.n; ++i) {
      const auto advised = view.advice.subspan(i * parts, parts);
      const auto own = actions.subspan(i * parts, parts);
      ++seen_;
      if (std::ranges::equal(own, advised)) ++alike_;
      if (random.bernoulli(rule)) std::ranges::copy(advised, own.begin());
    }
  }

  void learn(const Experience& experience) override {
    Experience advised = experience;
    advised.actions = experience.before.advice;
    replay_.add(advised);
    if (setup_.logged)  // else act() has seen them
      normaliser_.add(reading_.apart(Eigen::Map<const MatrixXd>(experience.before.observations.data(), reading_.width,
                                                                static_cast<Index>(experience.before.n))));
    steps_ += static_cast<std::int64_t>(experience.before.n);
    waiting_ += static_cast<std::int64_t>(experience.before.n);
    for (; waiting_ >= params_.train_every; waiting_ -= params_.train_every)
      if (steps_ >= params_.begin) update();
  }

  void state(Archive& archive) override {
    archive(replay_, normaliser_, net_, adam_, calls_, steps_, waiting_, updates_, seen_, alike_, loss_, agreement_);
  }
  void policy(Archive& archive) override { archive(normaliser_, net_); }
  std::vector<std::pair<std::string, double>> figures() const override {
    return {{"loss", loss_},
            {"agreement", seen_ > 0 ? static_cast<double>(alike_) / static_cast<double>(seen_) : agreement_},
            {"rule_acts", rule_acts()}};
  }

 private:
  const std::uint8_t* mask(std::span<const std::uint8_t> masks, std::size_t i) const {
    return mask_ == 0 ? nullptr : masks.data() + i * mask_;
  }
  double done() const {
    return setup_.steps > 0 ? std::min(1.0, static_cast<double>(steps_) / static_cast<double>(setup_.steps)) : 1;
  }
  double rule_acts() const { return std::isinf(share_) ? 1 : share_ > 0 ? std::max(0.0, 1 - done() / share_) : 0; }

  void update() {
    sim::RandomStream random = setup_.random.child("update").child(static_cast<std::uint64_t>(updates_++));
    const auto n = static_cast<std::size_t>(params_.batch);
    const Replay::Batch batch = replay_.draw(n, random);
    Mlp::Tape tape;
    const MatrixXd out = reading_.outputs(net_.forward(normaliser_.apply(reading_.apart(batch.before)), tape));
    MatrixXd d = MatrixXd::Zero(out.rows(), out.cols());
    loss_ = 0;
    const std::size_t parts = setup_.spec.action_size();
    std::vector<double> own(parts);
    for (std::size_t i = 0; i < n; ++i) {
      const auto column = static_cast<Index>(i);
      const double* advised = batch.actions.data() + i * parts;
      if (setup_.logged) {
        head_.mode(out.col(column).data(), batch.mask(i), own.data());
        ++seen_;
        if (std::equal(own.begin(), own.end(), advised)) ++alike_;
      }
      loss_ -= head_.score(out.col(column).data(), batch.mask(i), advised).log_probability / static_cast<double>(n);
      // Down the loss: the head gives the derivatives of what is to be climbed.
      head_.add_gradient(out.col(column).data(), batch.mask(i), advised, -1 / static_cast<double>(n), 0,
                         d.col(column).data());
    }
    VectorXd gradient = net_.zero();
    net_.backward(tape, reading_.derivatives(d), gradient);
    adam_.step(net_.parameters(), gradient, params_.rate * (params_.anneal ? 1 - done() : 1));
    if (seen_ < kWindow) return;
    agreement_ = static_cast<double>(alike_) / static_cast<double>(seen_);
    seen_ = alike_ = 0;
  }

  static constexpr std::int64_t kWindow = 2000;  // steps over which agreement is told

  ImitationParams params_;
  double share_;
  LearnerSetup setup_;
  Reading reading_;
  ActionHead head_;
  std::size_t mask_;
  Replay replay_;
  Normaliser normaliser_;
  Mlp net_;
  Adam adam_;
  std::int64_t calls_ = 0, steps_ = 0, waiting_ = 0, updates_ = 0;
  std::int64_t seen_ = 0, alike_ = 0;  ///< steps of this window, and those at which policy and rule agreed
  double loss_ = 0, agreement_ = 0;
};

}  // namespace

std::unique_ptr<Learner> make_imitation(const ImitationParams& params, double share, const LearnerSetup& setup) {
  return learner_per_agent(setup,
                           [&](const LearnerSetup& own) { return std::make_unique<Imitation>(params, share, own); });
}

}  // namespace orrery::experiments::rl
