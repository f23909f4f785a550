// Routing: the learner sends every request that arrives to a replica.
//
// It sees of every replica requests, tokens to prefill and tokens there, each by its weight, requests in its queue, the
// share of KV blocks in use, how much of the prompt its cache has, how long the request would take there alone, how
// long the requests that were sent there and have not left would take one after the other, and its weight; of the
// request its prompt and predicted output. Counts, tokens and seconds are ln(1 + x). Replicas that take no requests are
// masked, and 0. All replicas have the same entries, so that a learner may judge each by one rule
// (AgentSpec::per_choice).
#include <limits>

#include "experiments/rl/envs/serving_env.hpp"
#include "policies/routing/request_times.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr const char* kOfReplica[] = {"requests",     "queued_tokens", "tokens",  "waiting", "kv_share",
                                      "cached_share", "alone_s",       "ahead_s", "weight"};
constexpr std::size_t kWidth = std::size(kOfReplica);

struct ServingRoutingParams : ServingEnvParams {
  static constexpr auto fields() { return sim::inherited<ServingRoutingParams>(ServingEnvParams::fields()); }
};

class AskingRouter final : public policies::Router {
 public:
  AskingRouter(SharedPort port, std::unique_ptr<policies::Router> rule)
      : port_(std::move(port)), rule_(std::move(rule)) {}

  std::size_t route(const policies::RouteView& view) override {
    if (!begun_) port_->begin(routing_spec(view.cluster));
    begun_ = true;
    const std::span<double> seen = port_->observation();
    const std::span<std::uint8_t> mask = port_->mask();
    std::fill(mask.begin(), mask.end(), std::uint8_t{0});
    std::fill(seen.begin(), seen.end(), 0.0);
    const std::span<const double> alone_s = times_.alone_s(view);
    for (std::size_t place = 0; place < view.replicas.size(); ++place) {
      const policies::ReplicaFacts& facts = view.replicas[place];
      const auto replica = static_cast<std::size_t>(facts.replica);
      mask[replica] = 1;
      const double total = static_cast<double>(std::max<std::int64_t>(1, facts.kv_total));
      const double weight = facts.weight > 0 ? facts.weight : 1;
      const double of_it[kWidth] = {squeezed(static_cast<double>(facts.requests) / weight),
                                    squeezed(static_cast<double>(facts.queued_tokens) / weight),
                                    squeezed(static_cast<double>(facts.tokens) / weight),
                                    squeezed(static_cast<double>(facts.waiting)),
                                    static_cast<double>(facts.kv_blocks) / total,
                                    cached_share(view, facts),
                                    squeezed(alone_s[place]),
                                    squeezed(times_.ahead_s(facts)),
                                    facts.weight};
      std::copy(std::begin(of_it), std::end(of_it), seen.begin() + static_cast<std::ptrdiff_t>(replica * kWidth));
    }
    const std::size_t at = mask.size() * kWidth;
    seen[at] = squeezed(static_cast<double>(view.request.prefill_tokens));
    seen[at + 1] = squeezed(static_cast<double>(view.request.predicted_tokens));
    const std::span<double> advice = port_->advice();
    const std::size_t advised = rule_ == nullptr || advice.empty() ? view.replicas.size() : rule_->route(view);
    if (advised < view.replicas.size()) advice[0] = static_cast<double>(view.replicas[advised].replica);
    const double chosen = port_->ask(view.now)[0];
    for (std::size_t place = 0; place < view.replicas.size(); ++place) {
      if (view.replicas[place].replica != static_cast<std::int32_t>(chosen)) continue;
      times_.sent(view, place);
      if (advised < view.replicas.size() && place != advised) rule_->sent_elsewhere(view, place);
      return place;
    }
    return 0;  // a masked choice was refused before
  }
  void left(std::int64_t request) override {
    times_.left(request);
    if (rule_ != nullptr) rule_->left(request);
  }
  bool reads_live() const override { return true; }
  bool reads_reports() const override { return rule_ != nullptr && rule_->reads_reports(); }

 private:
  static double cached_share(const policies::RouteView& view, const policies::ReplicaFacts& facts) {
    const policies::Text* text = view.request.text;
    if (text == nullptr || text->empty() || view.request.prefill_tokens <= 0) return 0;
    return static_cast<double>(facts.match(*text)) / static_cast<double>(view.request.prefill_tokens);
  }

  SharedPort port_;
  std::unique_ptr<policies::Router> rule_;
  bool begun_ = false;
  policies::RequestTimes times_;
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

std::unique_ptr<policies::Router> asking_router(SharedPort port, std::unique_ptr<policies::Router> rule) {
  return std::make_unique<AskingRouter>(std::move(port), std::move(rule));
}

void add_serving_routing_env(EnvRegistry& registry) {
  registry.add<ServingRoutingParams>(
      "serving_routing", "Chooses the replica for every request of a serving run.",
      [](const ServingRoutingParams& params, const Systems& systems) {
        const auto spec = [](const ServingConfig& config) {
          std::int64_t replicas = 0;
          for (const ReplicaGroup& group : config.groups) replicas += group.params.count;
          EnvSpec shown = routing_spec(replicas);
          shown.rule = config.policies.routing.name;
          return shown;
        };
        return std::make_unique<ServingEnv>(
            "serving_routing", params, systems, spec, [](ServingConfig& config, const SharedPort& port) {
              config.policies.routing.make = [port, own = config.policies.routing.make](sim::RandomStream random) {
                return asking_router(port, own(std::move(random)));
              };
            });
      });
}

}  // namespace orrery::experiments::rl
