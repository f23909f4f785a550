// Routing: the learner sends every request that arrives to a replica.
//
// It sees of every replica requests, tokens to prefill and tokens there, each by its weight, requests in its queue, the
// share of KV blocks in use, how much of the prompt its cache has, how long the request would take there alone, how long
// the requests that were sent there and have not left would take one after the other, and its weight; of the request its
// prompt and predicted output. Counts, tokens and seconds are ln(1 + x). Replicas that take no requests are masked, and
// 0. All replicas have the same entries, so that a learner may judge each by one rule (AgentSpec::per_choice).
#include <limits>
#include <unordered_map>

#include "experiments/rl/envs/serving_env.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr const char* kOfReplica[] = {"requests",     "queued_tokens", "tokens",  "waiting", "kv_share",
                                      "cached_share", "alone_s",       "ahead_s", "weight"};
constexpr std::size_t kWidth = std::size(kOfReplica);
constexpr std::int64_t kOutput = 128;  ///< of a request for which nothing is predicted

struct ServingRoutingParams : ServingEnvParams {
  static constexpr auto fields() { return sim::inherited<ServingRoutingParams>(ServingEnvParams::fields()); }
};

class AskingRouter final : public policies::Router {
 public:
  explicit AskingRouter(SharedPort port) : port_(std::move(port)) {}

  std::size_t route(const policies::RouteView& view) override {
    if (ahead_s_.empty()) {
      port_->begin(routing_spec(view.cluster));
      ahead_s_.resize(static_cast<std::size_t>(view.cluster), 0);
    }
    const std::span<double> seen = port_->observation();
    const std::span<std::uint8_t> mask = port_->mask();
    std::fill(mask.begin(), mask.end(), std::uint8_t{0});
    std::fill(seen.begin(), seen.end(), 0.0);
    alone_s_.clear();
    for (const policies::ReplicaFacts& facts : view.replicas) {
      const auto replica = static_cast<std::size_t>(facts.replica);
      mask[replica] = 1;
      alone_s_.push_back(alone_s(view, facts));
      const double total = static_cast<double>(std::max<std::int64_t>(1, facts.kv_total));
      const double weight = facts.weight > 0 ? facts.weight : 1;
      const double of_it[kWidth] = {squeezed(static_cast<double>(facts.requests) / weight),
                                    squeezed(static_cast<double>(facts.queued_tokens) / weight),
                                    squeezed(static_cast<double>(facts.tokens) / weight),
                                    squeezed(static_cast<double>(facts.waiting)),
                                    static_cast<double>(facts.kv_blocks) / total,
                                    cached_share(view, facts),
                                    squeezed(alone_s_.back()),
                                    squeezed(std::max(0.0, ahead_s_[replica])),
                                    facts.weight};
      std::copy(std::begin(of_it), std::end(of_it), seen.begin() + static_cast<std::ptrdiff_t>(replica * kWidth));
    }
    const std::size_t at = mask.size() * kWidth;
    seen[at] = squeezed(static_cast<double>(view.request.prefill_tokens));
    seen[at + 1] = squeezed(static_cast<double>(view.request.predicted_tokens));
    const double chosen = port_->ask(view.now)[0];
    for (std::size_t place = 0; place < view.replicas.size(); ++place) {
      if (view.replicas[place].replica != static_cast<std::int32_t>(chosen)) continue;
      const auto replica = static_cast<std::size_t>(chosen);
      ahead_s_[replica] += alone_s_[place];
      placed_[view.request.id] = {replica, alone_s_[place]};
      return place;
    }
    return 0;  // a masked choice was refused before
  }
  void left(std::int64_t request) override {
    const auto found = placed_.find(request);
    if (found == placed_.end()) return;
    ahead_s_[found->second.replica] -= found->second.alone_s;
    placed_.erase(found);
  }
  bool reads_live() const override { return true; }

 private:
  struct Placed {
    std::size_t replica;
    double alone_s;
  };

  /// 0 where nobody knows what iterations cost. Replicas of a group share what prices them, and its answer.
  double alone_s(const policies::RouteView& view, const policies::ReplicaFacts& facts) const {
    if (facts.pricer == nullptr) return 0;
    for (std::size_t i = 0; i < alone_s_.size(); ++i)
      if (view.replicas[i].pricer == facts.pricer) return alone_s_[i];
    const policies::RouteRequest& request = view.request;
    const std::int64_t output = request.predicted_tokens > 0 ? request.predicted_tokens : kOutput;
    return 1e-12 * static_cast<double>(
                       policies::alone_ps(*facts.pricer, request.prefill_tokens, request.ready_tokens, output));
  }
  static double cached_share(const policies::RouteView& view, const policies::ReplicaFacts& facts) {
    const policies::Text* text = view.request.text;
    if (text == nullptr || text->empty() || view.request.prefill_tokens <= 0) return 0;
    return static_cast<double>(facts.match(*text)) / static_cast<double>(view.request.prefill_tokens);
  }

  SharedPort port_;
  std::vector<double> ahead_s_;                      ///< by number of the replica
  std::vector<double> alone_s_;                      ///< of the request at hand, by place
  std::unordered_map<std::int64_t, Placed> placed_;  ///< by request; never walked
};

}  // namespace

EnvSpec routing_spec(std::int64_t replicas) {
  AgentSpec agent{.name = "router", .action = ActionSpace::discrete(replicas), .per_choice = kWidth};
  const double endless = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < replicas; ++i)
    for (const char* name : kOfReplica)
      agent.observation.push_back({std::string(name) + "_" + std::to_string(i), 0, endless});
  for (const char* name : {"prompt_tokens", "predicted_tokens"}) agent.observation.push_back({name, 0, endless});
  return {.agents = {std::move(agent)}, .masked = true};
}

std::unique_ptr<policies::Router> asking_router(SharedPort port) {
  return std::make_unique<AskingRouter>(std::move(port));
}

void add_serving_routing_env(EnvRegistry& registry) {
  registry.add<ServingRoutingParams>(
      "serving_routing", "Which replica every request of a serving run goes to.",
      [](const ServingRoutingParams& params, const Systems& systems) {
        const auto spec = [](const ServingConfig& config) {
          std::int64_t replicas = 0;
          for (const ReplicaGroup& group : config.groups) replicas += group.params.count;
          return routing_spec(replicas);
        };
        return std::make_unique<ServingEnv>(params, systems, spec, [](ServingConfig& config, const SharedPort& port) {
          config.policies.routing.make = [port](sim::RandomStream) { return asking_router(port); };
        });
      });
}

}  // namespace orrery::experiments::rl
