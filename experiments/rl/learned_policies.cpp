#include "experiments/rl/learned_policies.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "experiments/rl/envs/decisions.hpp"
#include "experiments/rl/policy_file.hpp"

namespace orrery::experiments::rl {
namespace {

enum class Decision : std::uint8_t { routing, batching, admission, scaling, clock, cache };
struct DecisionEnv {
  const char *env, *decision;  ///< the environment, and the block of `policies` in a config
};
constexpr DecisionEnv kDecisionEnvs[] = {{"serving_routing", "routing"},     {"serving_batching", "batching"},
                                         {"serving_admission", "admission"}, {"serving_scaling", "scaling"},
                                         {"serving_clock", "power"},         {"expert_cache", "cache"}};
constexpr const char* env_of(Decision decision) {
  return kDecisionEnvs[static_cast<std::size_t>(decision)].env;
}

using Learners = std::shared_ptr<const LearnerRegistry>;

/// The policy of a file for the decision of an environment. Throws sim::ConfigError.
PolicyFile policy_for(std::string_view env, const std::string& file) {
  if (file.empty())
    sim::throw_fault({"", fmt::format("/policies/{}/learned/file", decision_of(env))},
                     "expected a policy of `orrery train`, got nothing");
  PolicyFile policy = read_policy(file);
  const sim::Origin here{file, ""};
  if (policy.env != env)
    sim::throw_fault(
        here, fmt::format("expected a policy of the environment '{}', found one of '{}'", env, policy.env),
        decision_of(policy.env).empty() ? std::string() : fmt::format("policies.{} takes it", decision_of(policy.env)));
  if (policy.regrouped)
    sim::throw_fault(here, "expected a policy for the environment's own agents (train.agents: as_is)");
  return policy;
}

/// A policy behind the port of a run.
class LearnedPort final : public DecisionPort {
 public:
  LearnedPort(PolicyFile policy, Learners learners) : policy_(std::move(policy)), learners_(std::move(learners)) {}

  void begin(const EnvSpec& spec) override {
    learner_ = learner_of(policy_, spec, *learners_);
    spec_ = spec;
    clear_step(spec_, step_);
    action_.resize(spec_.action_size());
  }
  std::span<double> observation() override { return step_.observation; }
  std::span<std::uint8_t> mask() override { return step_.mask; }
  void add_reward(double) override {}
  std::span<const double> ask(sim::Time) override {
    try {
      learner_->act({1, step_.observation, step_.mask}, Act::greedy, action_);
      check_action(spec_, step_.mask, action_);
    } catch (const std::exception& error) {
      sim::throw_fault({policy_.path.string(), ""}, fmt::format("the policy gives no action: {}", error.what()));
    }
    return action_;
  }

 private:
  PolicyFile policy_;
  Learners learners_;
  EnvSpec spec_;
  std::unique_ptr<Learner> learner_;
  TimeStep step_;
  std::vector<double> action_;
};

SharedPort port_of(PolicyFile policy, const Learners& learners) {
  return std::make_shared<LearnedPort>(std::move(policy), learners);
}

/// Looks at the file when a config is read, so that what is wrong with it is told with everything else.
template <Decision D>
void check_file(std::string& file, const sim::Origin& where, sim::Faults& faults) {
  try {
    if (!file.empty()) (void)policy_for(env_of(D), file);
  } catch (const sim::ConfigError& error) {
    for (const sim::Fault& fault : error.faults())
      faults.add(where, fault.where.file.empty() ? fault.message : fault.where.file + ": " + fault.message, fault.hint);
  }
}

template <Decision D>
struct LearnedParams {
  std::string file;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::canonical(sim::field("file", &LearnedParams::file, sim::Unit::path, sim::any_value(),
                                                "Policy file written by `orrery train` (seed-N.policy)."),
                                     check_file<D>))};
  }
};

constexpr const char* kDoc = "Decides as a policy trained by `orrery train` and read from a file.";

}  // namespace

std::string decision_of(std::string_view env) {
  for (const DecisionEnv& one : kDecisionEnvs)
    if (env == one.env) return one.decision;
  return {};
}

void add_learned_policies(policies::Registries& policies) {
  LearnerRegistry registry("learner");
  register_learners(registry);
  const auto learners = std::make_shared<const LearnerRegistry>(std::move(registry));
  policies.routing.add<LearnedParams<Decision::routing>>(
      "learned", kDoc, [learners](const LearnedParams<Decision::routing>& params, sim::RandomStream) {
        return asking_router(port_of(policy_for(env_of(Decision::routing), params.file), learners));
      });
  policies.admission.add<LearnedParams<Decision::admission>>(
      "learned", kDoc, [learners](const LearnedParams<Decision::admission>& params) {
        return asking_admission(port_of(policy_for(env_of(Decision::admission), params.file), learners));
      });
  policies.scaling.add<LearnedParams<Decision::scaling>>(
      "learned", kDoc, [learners](const LearnedParams<Decision::scaling>& params) {
        return asking_scaling(port_of(policy_for(env_of(Decision::scaling), params.file), learners), 0);
      });
  policies.power.add<LearnedParams<Decision::clock>>(
      "learned", kDoc, [learners](const LearnedParams<Decision::clock>& params) {
        return asking_clock(port_of(policy_for(env_of(Decision::clock), params.file), learners), 0);
      });
  policies.expert_cache.add<LearnedParams<Decision::cache>>(
      "learned", kDoc,
      [learners](const LearnedParams<Decision::cache>& params, const policies::ExpertCacheSetup& setup) {
        return asking_expert_cache(port_of(policy_for(env_of(Decision::cache), params.file), learners), setup);
      });
  const auto others = std::make_shared<const policies::BatchingRegistry>(policies.batching);
  policies.batching.add<LearnedParams<Decision::batching>>(
      "learned", kDoc, [others, learners](const LearnedParams<Decision::batching>& params) {
        PolicyFile policy = policy_for(env_of(Decision::batching), params.file);
        std::vector<sim::Node> blocks;
        if (const sim::Node* choices = policy.env_params.find("choices"))
          blocks.assign(choices->items().begin(), choices->items().end());
        return asking_batching(port_of(std::move(policy), learners), batching_choices(blocks, *others));
      });
}

}  // namespace orrery::experiments::rl
