// Learners that imitate the rule of an environment (EnvSpec::rule).
//
// What the rule would do at every step is remembered with what was seen there, and a policy of a network learns to say
// the same: steps down the cross-entropy, batch by batch. Who acts meanwhile decides what is seen. The rule alone:
// behaviour cloning (Pomerleau, NIPS 1988), which never sees what comes of its own mistakes. Rule and policy by chance,
// the rule's falling to 0: DAgger (Ross, Gordon and Bagnell, AISTATS 2011). Choices only; each agent on its own.
#pragma once

#include "experiments/rl/core/learner.hpp"
#include "experiments/rl/core/network.hpp"

namespace orrery::experiments::rl {

struct ImitationParams {
  NetworkParams network;
  std::int64_t memory = 100'000, batch = 128, begin = 256, train_every = 8;
  double rate = 1e-3;
  bool anneal = true;

  static constexpr auto fields() {
    using P = ImitationParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("network", &P::network, "Network of the policy."),
        sim::field("memory", &P::memory, Unit::count, sim::between(1, 1e9), "Steps kept in memory."),
        sim::field("batch", &P::batch, Unit::count, sim::between(1, 1e6), "Steps per update (batch size)."),
        sim::field("begin", &P::begin, Unit::count, sim::at_least(0), "Steps before the first update."),
        sim::field("train_every", &P::train_every, Unit::count, sim::at_least(1), "Steps between two updates."),
        sim::field("rate", &P::rate, Unit::none, sim::positive(), "Step size."),
        sim::field("anneal", &P::anneal, "Whether the step size falls to 0 over the training."),
    };
  }
};

/// `share`: the share of the training over which the chance that the rule acts falls from 1 to 0; infinite: it always
/// acts.
std::unique_ptr<Learner> make_imitation(const ImitationParams& params, double share, const LearnerSetup& setup);

}  // namespace orrery::experiments::rl
