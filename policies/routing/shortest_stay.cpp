// Shortest stay: the replica with the least (1 + time that the request would take there alone, in s) x (1 + requests
// there / weight), the first of equals. The time alone, stretched by how many share the replica: a long request goes
// where the device is fast though it is fuller, a short one where few are, slow or not.
//
// Found, not derived: it is what is left of weighted sums of nine figures of a replica that `orrery train` found on two
// A100 and three A40 (docs/explain/trained-policies.md), of which these two decide most. Among like replicas it is
// least_loaded by requests. It knows neither prefixes nor sessions nor targets; without a price of iterations all times
// are 0.
#include "policies/routing/load.hpp"
#include "policies/routing/request_times.hpp"

namespace orrery::policies {
namespace {

class ShortestStay final : public Router {
 public:
  std::size_t route(const RouteView& view) override {
    const std::span<const double> alone_s = times_.alone_s(view);
    std::size_t best = 0;
    double least = 0;
    for (std::size_t i = 0; i < view.replicas.size(); ++i) {
      const double stay = (1 + alone_s[i]) * (1 + load_of(view.replicas[i], LoadOf::requests));
      if (i > 0 && stay >= least) continue;
      least = stay;
      best = i;
    }
    return best;
  }

 private:
  RequestTimes times_;
};

}  // namespace

void add_shortest_stay(RouterRegistry& registry) {
  registry.add<sim::NoParams>("shortest_stay",
                              "The replica with the least product of its number of requests and the time that the "
                              "request would take there alone.",
                              [](const sim::NoParams&, sim::RandomStream) { return std::make_unique<ShortestStay>(); });
}

}  // namespace orrery::policies
