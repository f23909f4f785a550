// Routing: the learner sends every request that arrives to a replica.
//
// It sees, replica by replica, requests, queued and resident tokens (as ln(1 + x)) and the share of KV blocks in use as
// of the last event there, and of the request its prompt and predicted output. Replicas that take no requests are
// masked.
#include "experiments/rl/envs/serving_env.hpp"

#include <limits>

namespace orrery::experiments::rl {
namespace {

constexpr std::size_t kOfReplica = 4, kOfRequest = 2;

struct ServingRoutingParams : ServingEnvParams {
  static constexpr auto fields() { return sim::inherited<ServingRoutingParams>(ServingEnvParams::fields()); }
};

class AskingRouter final : public policies::Router {
 public:
  explicit AskingRouter(DecisionPort& port) : port_(port) {}

  std::size_t route(const policies::RouteView& view) override {
    const std::span<double> seen = port_.observation();
    const std::span<std::uint8_t> mask = port_.mask();
    std::fill(mask.begin(), mask.end(), std::uint8_t{0});
    for (const policies::ReplicaFacts& facts : view.replicas) {
      const auto replica = static_cast<std::size_t>(facts.replica);
      mask[replica] = 1;
      const std::size_t at = replica * kOfReplica;
      seen[at] = squeezed(static_cast<double>(facts.requests));
      seen[at + 1] = squeezed(static_cast<double>(facts.queued_tokens));
      seen[at + 2] = squeezed(static_cast<double>(facts.tokens));
      seen[at + 3] =
          facts.kv_total > 0 ? static_cast<double>(facts.kv_blocks) / static_cast<double>(facts.kv_total) : 0;
    }
    const std::size_t at = mask.size() * kOfReplica;
    seen[at] = squeezed(static_cast<double>(view.request.prefill_tokens));
    seen[at + 1] = squeezed(static_cast<double>(view.request.predicted_tokens));
    const double chosen = port_.ask(view.now)[0];
    for (std::size_t place = 0; place < view.replicas.size(); ++place)
      if (view.replicas[place].replica == static_cast<std::int32_t>(chosen)) return place;
    return 0;  // a masked choice was refused before
  }
  bool reads_live() const override { return true; }

 private:
  DecisionPort& port_;
};

EnvSpec routing_spec(const ServingConfig& config) {
  std::int64_t replicas = 0;
  for (const ReplicaGroup& group : config.groups) replicas += group.params.count;
  AgentSpec agent{.name = "router", .action = ActionSpace::discrete(replicas)};
  const double endless = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < replicas; ++i) {
    for (const char* name : {"requests", "queued_tokens", "tokens"})
      agent.observation.push_back({std::string(name) + "_" + std::to_string(i), 0, endless});
    agent.observation.push_back({"kv_share_" + std::to_string(i), 0, 1});
  }
  for (const char* name : {"prompt_tokens", "predicted_tokens"}) agent.observation.push_back({name, 0, endless});
  static_assert(kOfRequest == 2);
  return {.agents = {std::move(agent)}, .masked = true};
}

}  // namespace

void add_serving_routing_env(EnvRegistry& registry) {
  registry.add<ServingRoutingParams>("serving_routing", "Which replica every request of a serving run goes to.",
                                     [](const ServingRoutingParams& params, const Systems& systems) {
                                       return std::make_unique<ServingEnv>(
                                           params, systems, routing_spec,
                                           [](ServingConfig& config, DecisionPort& port) {
                                             config.policies.routing.make = [&port](sim::RandomStream) {
                                               return std::make_unique<AskingRouter>(port);
                                             };
                                           });
                                     });
}

}  // namespace orrery::experiments::rl
