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
#include <string>
#include <vector>

#include "experiments/rl/core/env.hpp"
#include "experiments/rl/envs/training_port.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments {
class ServingSetup;
struct RunChange;
}  // namespace orrery::experiments

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

/// A config to compare an episode with, beside the environment's own.
struct AgainstParams {
  std::string name;
  sim::Node override_;

  static constexpr auto fields() {
    using P = AgainstParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("name", &P::name, Unit::text, sim::any_value(),
                                 "Name in front of its figures: NAME_mean_gain, NAME_worst_gain, NAME_energy_saved.")),
        sim::field("override", &P::override_, "Changes to the environment's config, such as another policy."),
    };
  }
};

/// What all environments of serving share.
struct ServingEnvParams {
  std::string config;
  sim::Node override_;
  std::int64_t requests = 200, windows = 1;
  ServingReward reward = ServingReward::e2e;
  double rejected = -10, tail = 0, energy = 0;
  bool relative = false;
  std::vector<AgainstParams> against;

  static constexpr auto fields() {
    using P = ServingEnvParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("config", &P::config, Unit::path, sim::any_value(),
                   "Serving config; empty: the built-in study first_light."),
        sim::field("override", &P::override_, "Changes to the config."),
        sim::field("requests", &P::requests, Unit::requests, sim::between(1, 1e9), "Requests of an episode."),
        sim::field("windows", &P::windows, Unit::count, sim::between(1, 1e6),
                   "Number of evenly spaced positions in the config's trace, one of which the seed chooses as the "
                   "start of an episode; 1: always the beginning."),
        sim::field("reward", &P::reward, "Measure by which a request is rewarded when it ends."),
        sim::field("rejected", &P::rejected, Unit::none, sim::any_value(), "Reward of a request that is rejected."),
        sim::field("relative", &P::relative,
                   "Whether there is one reward, at the end of an episode: the relative gain of the mean over the "
                   "config's own policy on the same requests."),
        sim::field(
            "tail", &P::tail, Unit::ratio, sim::at_least(0),
            "With `relative`: weight of the same gain for the worst hundredth of requests; the mean has weight 1."),
        sim::field("energy", &P::energy, Unit::ratio, sim::at_least(0),
                   "With `relative`: weight of the relative energy saving over the config's own policy."),
        sim::field("against", &P::against,
                   "With `relative`: further configs to compare each episode with, on the same requests. They do not "
                   "count in the reward."),
    };
  }
};

/// The config of a run that an environment plays: the file (empty: the study first_light that ships) with an object
/// laid over it (null: none; of `serving_clock` without a file, devices that have clocks). Throws sim::ConfigError if
/// it cannot be read.
sim::Node serving_config_of(std::string_view env, const std::string& file, const sim::Node& over);

class ServingEnv final : public Env {
 public:
  /// `name` is the environment's; `install` puts the asking policy into the config. Throws sim::ConfigError for
  /// faults of the config, std::invalid_argument for a design that does not fit.
  ServingEnv(std::string_view name, const ServingEnvParams& params, const Systems& systems,
             const std::function<EnvSpec(const ServingConfig&)>& spec,
             const std::function<void(ServingConfig&, const SharedPort&)>& install);
  ~ServingEnv() override;

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::uint64_t seed, TimeStep& out) override;
  void step(std::span<const double> action, TimeStep& out) override;

 private:
  class Meter;
  struct Rival;
  void run_rival(Rival& rival, std::uint64_t seed);
  void advance(TimeStep& out);
  RunChange change(std::uint64_t seed) const;

  ServingEnvParams params_;
  EnvSpec spec_;
  std::shared_ptr<TrainingPort> port_ = std::make_shared<TrainingPort>();
  std::unique_ptr<Meter> meter_;
  std::unique_ptr<ServingSetup> setup_;
  std::vector<Rival> rivals_;  ///< the config's own policy, then `against`
  double joules_ = 0;
  std::int64_t last_window_ = 0;  // requests before it
};

}  // namespace orrery::experiments::rl
