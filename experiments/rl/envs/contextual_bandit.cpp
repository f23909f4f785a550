// Contextual bandit with linear rewards: the smallest environment, and the one to copy.
//
// An episode is one step. The context x is uniform on [-1, 1]^d, arm a pays theta_a . x plus normal noise; the weights
// theta_a are normal / sqrt(d), drawn once from `weights_seed`, so that every episode of an environment plays the same
// arms. The figure `regret` is the best arm's expected reward less the chosen one's. Source of the setting: Li, Chu,
// Langford and Schapire, "A contextual-bandit approach to personalized news article recommendation", WWW 2010.
#include <algorithm>
#include <cmath>

#include "experiments/rl/core/env.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::rl {
namespace {

struct ContextualBanditParams {
  std::int64_t arms = 5;
  std::int64_t features = 4;
  double noise = 0.1;
  std::int64_t weights_seed = 1;

  static constexpr auto fields() {
    using P = ContextualBanditParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("arms", &P::arms, Unit::count, sim::between(2, 1000), "Number of arms (choices)."),
        sim::field("features", &P::features, Unit::count, sim::between(1, 1000), "Number of features in a context."),
        sim::field("noise", &P::noise, Unit::none, sim::at_least(0), "Standard deviation of a reward."),
        sim::field("weights_seed", &P::weights_seed, Unit::none, sim::at_least(0), "Seed of the weights of the arms."),
    };
  }
};

class ContextualBandit final : public Env {
 public:
  explicit ContextualBandit(const ContextualBanditParams& params) : params_(params) {
    AgentSpec agent{.name = "player", .action = ActionSpace::discrete(params.arms)};
    for (std::int64_t i = 0; i < params.features; ++i) agent.observation.push_back({"x" + std::to_string(i), -1, 1});
    spec_.agents.push_back(std::move(agent));
    spec_.info = {"regret"};
    spec_.rule = "best arm";
    sim::RandomStream random(static_cast<std::uint64_t>(params.weights_seed), "rl/contextual_bandit/weights");
    const double scale = 1 / std::sqrt(static_cast<double>(params.features));
    weights_.resize(static_cast<std::size_t>(params.arms * params.features));
    for (double& weight : weights_) weight = scale * random.normal();
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t seed, TimeStep& out) override {
    random_ = sim::RandomStream(seed, "rl/contextual_bandit");
    clear_step(spec_, out);
    for (double& x : out.observation) x = random_.uniform(-1, 1);
    context_ = out.observation;
    out.advice[0] = static_cast<double>(best());
  }

  void step(std::span<const double> action, TimeStep& out) override {
    const auto arm = static_cast<std::int64_t>(action[0]);
    clear_step(spec_, out);
    out.observation = context_;
    out.rewards[0] = expected(arm) + random_.normal(0, params_.noise);
    out.info[0] = expected(best()) - expected(arm);
    out.terminated = true;
  }

 private:
  std::int64_t best() const {
    std::int64_t found = 0;
    for (std::int64_t a = 1; a < params_.arms; ++a)
      if (expected(a) > expected(found)) found = a;
    return found;
  }
  double expected(std::int64_t arm) const {
    double sum = 0;
    for (std::size_t i = 0; i < context_.size(); ++i)
      sum += weights_[static_cast<std::size_t>(arm) * context_.size() + i] * context_[i];
    return sum;
  }

  ContextualBanditParams params_;
  EnvSpec spec_;
  std::vector<double> weights_, context_;
  sim::RandomStream random_{0, "rl/contextual_bandit"};
};

}  // namespace

void add_contextual_bandit_env(EnvRegistry& registry) {
  registry.add<ContextualBanditParams>(
      "contextual_bandit", "Choose an arm for a context, in one step; rewards are linear in the context.",
      [](const ContextualBanditParams& params, const Systems&) { return std::make_unique<ContextualBandit>(params); });
}

}  // namespace orrery::experiments::rl
