// Session affinity: requests of one conversation go to one replica, so that its cache has what was said before.
// Rendezvous hashing (Thaler and Ravishankar, 1998): of all replicas the one with the greatest hash of (session,
// replica); a replica that comes or goes moves only its own sessions. With a bound (Mirrokni et al., 2018: consistent
// hashing with bounded loads) a replica above `bound` x the mean load is passed over for the next in the session's
// order. Requests without a session go to the least loaded.
#include "policies/routing/load.hpp"

namespace orrery::policies {
namespace {

struct SessionAffinityParams {
  double bound = 1.25;
  LoadOf load = LoadOf::requests;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("bound", &SessionAffinityParams::bound, sim::Unit::ratio, sim::at_least(0),
                                      "Most load, as a multiple of the mean over replicas, at which a replica still "
                                      "takes its sessions; 0: no bound."),
                           sim::field("load", &SessionAffinityParams::load, "What counts as load of a replica.")};
  }
};

/// The finaliser of splitmix64.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class SessionAffinity final : public Router {
 public:
  explicit SessionAffinity(const SessionAffinityParams& params) : params_(params) {}
  std::size_t route(const RouteView& view) override {
    if (view.request.session < 0) return least_loaded(view.replicas, params_.load);
    double sum = 0;
    for (const ReplicaFacts& facts : view.replicas) sum += load_of(facts, params_.load);
    const double mean = (sum + added(view.request)) / static_cast<double>(view.replicas.size());
    const std::uint64_t key = mix(static_cast<std::uint64_t>(view.request.session));
    std::size_t best = view.replicas.size();
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < view.replicas.size(); ++i) {
      const ReplicaFacts& facts = view.replicas[i];
      if (params_.bound > 0 && load_of(facts, params_.load) > params_.bound * mean) continue;
      const std::uint64_t hash = mix(key ^ static_cast<std::uint64_t>(facts.replica));
      if (best < view.replicas.size() && hash <= most) continue;
      best = i;
      most = hash;
    }
    return best < view.replicas.size() ? best : least_loaded(view.replicas, params_.load);
  }
  bool reads_live() const override { return is_live(params_.load); }

 private:
  /// What the request at hand adds to the load of all, whoever takes it; as a share of a cache that is not known.
  double added(const RouteRequest& request) const {
    switch (params_.load) {
      case LoadOf::requests:
      case LoadOf::waiting:
        return 1;
      case LoadOf::queued_tokens:
      case LoadOf::tokens:
        return static_cast<double>(request.prefill_tokens);
      case LoadOf::kv:
        return 0;
    }
    return 0;
  }

  SessionAffinityParams params_;
};

}  // namespace

void add_session_affinity(RouterRegistry& registry) {
  registry.add<SessionAffinityParams>(
      "session_affinity", "Requests of one session (conversation) go to one replica.",
      [](const SessionAffinityParams& params, sim::RandomStream) { return std::make_unique<SessionAffinity>(params); });
}

}  // namespace orrery::policies
