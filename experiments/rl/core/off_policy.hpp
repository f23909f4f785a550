// Learners of choices that learn from remembered steps: DQN, SAC. Every step of every environment goes into a replay
// memory; every `train_every` steps, once there are `begin` of them, an update sees a batch drawn from it.
#pragma once

#include <algorithm>

#include "experiments/rl/core/choices.hpp"
#include "experiments/rl/core/replay.hpp"

namespace orrery::experiments::rl {

struct OffPolicyParams {
  std::int64_t memory = 100'000, batch = 64, begin = 1000, train_every = 2;
  bool anneal = false;

  static constexpr auto fields() {
    using P = OffPolicyParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("memory", &P::memory, Unit::count, sim::between(1, 1e9), "Steps kept in the replay memory."),
        sim::field("batch", &P::batch, Unit::count, sim::between(1, 1e6), "Steps per update (batch size)."),
        sim::field("begin", &P::begin, Unit::count, sim::at_least(0), "Steps before the first update."),
        sim::field("train_every", &P::train_every, Unit::count, sim::at_least(1), "Steps between two updates."),
        sim::field("anneal", &P::anneal, "Whether step sizes fall to 0 over the training."),
    };
  }
};

class OffPolicy : public Learner {
 public:
  void learn(const Experience& experience) final;

 protected:
  OffPolicy(const OffPolicyParams& params, const LearnerSetup& setup);

  /// Learns from a batch; `updates_` counts it already.
  virtual void update(const Replay::Batch& batch) = 0;

  /// Calls choose(outputs, mask, random, action) for every row of a view with what the network says of it.
  template <class Choose>
  void for_each_row(const View& view, Act how, const Mlp& net, std::span<double> actions, Choose choose) {
    const Eigen::Map<const MatrixXd> rows(view.observations.data(), inputs(), static_cast<Index>(view.n));
    const MatrixXd out = net.forward(rows);
    sim::RandomStream random = setup_.random.child("act").child(static_cast<std::uint64_t>(calls_));
    if (how == Act::explore) ++calls_;
    for (std::size_t i = 0; i < view.n; ++i) {
      const std::uint8_t* mask = view.masks.empty() ? nullptr : view.masks.data() + i * choices_.size();
      choose(out.col(static_cast<Index>(i)).data(), mask, random, actions.data() + i * choices_.parts());
    }
  }

  Index inputs() const { return static_cast<Index>(setup_.spec.observation_size()); }
  Index outputs() const { return static_cast<Index>(choices_.size()); }
  /// What is left of a step size by now.
  double left(double rate) const {
    return anneal_ ? rate * std::max(0.0, 1 - static_cast<double>(steps_) /
                                                  static_cast<double>(std::max<std::int64_t>(1, setup_.steps)))
                   : rate;
  }
  /// Sets the derivative of a loss by the values of the choices of an action.
  void set_slope(MatrixXd& d, Index column, const double* action, double slope) const {
    for (std::size_t part = 0; part < choices_.parts(); ++part)
      d(static_cast<Index>(choices_.begin(part) + static_cast<std::size_t>(action[part])), column) = slope;
  }

  LearnerSetup setup_;
  Choices choices_;
  Replay replay_;
  std::int64_t calls_ = 0, steps_ = 0, waiting_ = 0, updates_ = 0;

 private:
  std::int64_t batch_, begin_, train_every_;
  bool anneal_;
};

}  // namespace orrery::experiments::rl
