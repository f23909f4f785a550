// Scaling: the learner says at even intervals how many replicas should be up.
//
// It sees replicas up and starting, requests that wait for one, the share of the last interval in which those up had
// work, and their mean requests and queued tokens (as ln(1 + x)). Choice i stands for least + i replicas. Beside the
// requests' worth, `replica_cost` is paid for every replica and second.
#include <algorithm>
#include <limits>

#include "experiments/rl/envs/serving_env.hpp"

namespace orrery::experiments::rl {
namespace {

struct ServingScalingParams : ServingEnvParams {
  double replica_cost = 0.1;
  static constexpr auto fields() {
    return sim::joined(
        sim::inherited<ServingScalingParams>(ServingEnvParams::fields()),
        sim::FieldTable{sim::field(
            "replica_cost", &ServingScalingParams::replica_cost, sim::Unit::none, sim::at_least(0),
            "Cost per second of a replica that is up or starting; if `relative` is set, `energy` replaces it.")});
  }
};

class AskingScaling final : public policies::Scaling {
 public:
  AskingScaling(SharedPort port, double cost) : port_(std::move(port)), cost_(cost) {}

  std::int64_t wanted(const policies::ScalingView& view) override {
    if (!begun_) port_->begin(scaling_spec(view.most));
    begun_ = true;
    const double since = static_cast<double>((view.now - last_).ticks * view.ps_per_tick) * 1e-12;
    port_->add_reward(-cost_ * static_cast<double>(up_) * since);
    double requests = 0, queued = 0;
    for (const policies::ReplicaFacts& facts : view.replicas) {
      requests += static_cast<double>(facts.requests);
      queued += static_cast<double>(facts.queued_tokens);
    }
    const auto up = static_cast<double>(std::max<std::size_t>(1, view.replicas.size()));
    const double seen[] = {static_cast<double>(view.replicas.size()),
                           static_cast<double>(view.starting),
                           squeezed(static_cast<double>(view.parked)),
                           std::clamp(view.busy, 0.0, 1.0),
                           squeezed(requests / up),
                           squeezed(queued / up)};
    std::copy(std::begin(seen), std::end(seen), port_->observation().begin());
    last_ = view.now;
    const std::int64_t wanted = view.least + static_cast<std::int64_t>(port_->ask(view.now)[0]);
    up_ = std::max(wanted, view.up());
    return wanted;
  }

 private:
  SharedPort port_;
  bool begun_ = false;
  double cost_;
  sim::Time last_;
  std::int64_t up_ = 0;
};

}  // namespace

EnvSpec scaling_spec(std::int64_t replicas) {
  const double endless = std::numeric_limits<double>::infinity();
  AgentSpec agent{.name = "scaling", .action = ActionSpace::discrete(replicas)};
  for (const char* name : {"up", "starting", "parked"}) agent.observation.push_back({name, 0, endless});
  agent.observation.push_back({"busy", 0, 1});
  for (const char* name : {"mean_requests", "mean_queued_tokens"}) agent.observation.push_back({name, 0, endless});
  return {.agents = {std::move(agent)}};
}

std::unique_ptr<policies::Scaling> asking_scaling(SharedPort port, double cost) {
  return std::make_unique<AskingScaling>(std::move(port), cost);
}

void add_serving_scaling_env(EnvRegistry& registry) {
  registry.add<ServingScalingParams>("serving_scaling", "Chooses how many replicas of a serving run are up.",
                                     [](const ServingScalingParams& params, const Systems& systems) {
                                       const auto spec = [](const ServingConfig& config) {
                                         std::int64_t replicas = 0;
                                         for (const ReplicaGroup& group : config.groups) replicas += group.params.count;
                                         return scaling_spec(replicas);
                                       };
                                       return std::make_unique<ServingEnv>(
                                           "serving_scaling", params, systems, spec,
                                           [cost = params.replica_cost](ServingConfig& config, const SharedPort& port) {
                                             config.policies.scaling.name = "learner";
                                             config.policies.scaling.make = [port, cost] {
                                               return asking_scaling(port, cost);
                                             };
                                           });
                                     });
}

}  // namespace orrery::experiments::rl
