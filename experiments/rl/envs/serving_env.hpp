// A serving run as an environment: it stops wherever one of its policies is asked, and goes on with the learner's
// answer.
//
// Every decision has an environment of its own (serving_routing, serving_batching …), which puts a policy into the
// config that shows what it sees and asks the learner through a DecisionPort. An episode is one run of the config, with
// the episode's seed added to the config's. The reward of a step is what happened since the decision before: a sum
// over the requests that ended. Nothing in the engine knows of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "experiments/rl/core/env.hpp"
#include "experiments/rl/core/pausable.hpp"
#include "experiments/systems/serving/config/config.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments {
class ServingSetup;
}

namespace orrery::experiments::rl {

/// What a request is worth when it ends.
enum class ServingReward : std::uint8_t {
  ttft,        ///< - its TTFT in s
  e2e,         ///< - its latency in s
  normalised,  ///< - its latency per output token in s
  slo          ///< 1 if its TTFT is within the config's target and its mean time between tokens within that of TBT
};
constexpr auto enum_names(ServingReward) {
  using enum ServingReward;
  return sim::names<ServingReward>({{"ttft", ttft}, {"e2e", e2e}, {"normalised", normalised}, {"slo", slo}});
}

/// What all environments of serving share.
struct ServingEnvParams {
  std::string config;
  sim::Node override_;
  std::int64_t requests = 200;
  ServingReward reward = ServingReward::e2e;
  double rejected = -10;

  static constexpr auto fields() {
    using P = ServingEnvParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("config", &P::config, Unit::path, sim::any_value(),
                   "A serving config; empty: the study first_light that ships."),
        sim::field("override", &P::override_, "Laid over it."),
        sim::field("requests", &P::requests, Unit::requests, sim::between(1, 1e9), "Of an episode."),
        sim::field("reward", &P::reward, "What a request is worth when it ends."),
        sim::field("rejected", &P::rejected, Unit::none, sim::any_value(), "What one is worth that is turned away."),
    };
  }
};

/// Where a policy meets the learner. The spans are of the step under way; ask() comes back with the action.
class DecisionPort {
 public:
  std::span<double> observation() { return step_->observation; }
  std::span<std::uint8_t> mask() { return step_->mask; }
  /// Adds to the reward of the step under way.
  void add_reward(double reward) { reward_ += reward; }
  /// Stops the run until the learner has acted.
  std::span<const double> ask(sim::Time now);

 private:
  friend class ServingEnv;
  PausableRun* run_ = nullptr;
  TimeStep* step_ = nullptr;
  std::span<const double> action_;
  sim::Time now_;
  double reward_ = 0;
};

class ServingEnv final : public Env {
 public:
  /// `install` puts the asking policy into the config; the port outlives what it makes. Throws sim::ConfigError for
  /// faults of the config, std::invalid_argument for a design that does not fit.
  ServingEnv(const ServingEnvParams& params, const Systems& systems,
             const std::function<EnvSpec(const ServingConfig&)>& spec,
             const std::function<void(ServingConfig&, DecisionPort&)>& install);
  ~ServingEnv() override;

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::uint64_t seed, TimeStep& out) override;
  void step(std::span<const double> action, TimeStep& out) override;

 private:
  class Meter;
  void advance(TimeStep& out);

  ServingEnvParams params_;
  EnvSpec spec_;
  DecisionPort port_;
  std::unique_ptr<Meter> meter_;
  std::unique_ptr<ServingSetup> setup_;
  bool over_ = false;  // the run is
  std::unique_ptr<PausableRun> run_;
};

/// ln(1 + x): counts and tokens on a scale that learners like.
double squeezed(double x);

}  // namespace orrery::experiments::rl
