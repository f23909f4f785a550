#include "experiments/rl/core/off_policy.hpp"

namespace orrery::experiments::rl {

OffPolicy::OffPolicy(const OffPolicyParams& params, const LearnerSetup& setup)
    : setup_(setup),
      choices_(setup.spec.agents[0].action),
      replay_(static_cast<std::size_t>(params.memory), setup.spec.observation_size(), choices_.parts(),
              setup.spec.masked ? choices_.size() : 0),
      batch_(params.batch),
      begin_(params.begin),
      train_every_(params.train_every),
      anneal_(params.anneal) {}

void OffPolicy::learn(const Experience& experience) {
  replay_.add(experience);
  steps_ += static_cast<std::int64_t>(experience.before.n);
  waiting_ += static_cast<std::int64_t>(experience.before.n);
  for (; waiting_ >= train_every_; waiting_ -= train_every_) {
    if (steps_ < begin_) continue;
    sim::RandomStream random = setup_.random.child("update").child(static_cast<std::uint64_t>(updates_++));
    update(replay_.draw(static_cast<std::size_t>(batch_), random));
  }
}

}  // namespace orrery::experiments::rl
