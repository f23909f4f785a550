// Join the shortest queue: the replica with the fewest requests, those in service counted as in queueing theory.
// Equals are drawn from, so that an idle cluster does not send all to its first replica.
#include "policies/routing/load.hpp"

namespace orrery::policies {
namespace {

class ShortestQueue final : public Router {
 public:
  explicit ShortestQueue(sim::RandomStream random) : random_(std::move(random)) {}
  std::size_t route(const RouteView& view) override {
    double least = load_of(view.replicas[0], LoadOf::requests);
    std::size_t best = 0;
    std::uint64_t equals = 1;
    for (std::size_t i = 1; i < view.replicas.size(); ++i) {
      const double load = load_of(view.replicas[i], LoadOf::requests);
      if (load > least) continue;
      equals = load < least ? 1 : equals + 1;
      least = load;
      if (equals == 1 || random_.below(equals) == 0) best = i;
    }
    return best;
  }

 private:
  sim::RandomStream random_;
};

}  // namespace

void add_jsq(RouterRegistry& registry) {
  registry.add<sim::NoParams>("jsq", "Join the shortest queue: the replica with the fewest requests.",
                              [](const sim::NoParams&, sim::RandomStream random) {
                                return std::make_unique<ShortestQueue>(std::move(random));
                              });
}

}  // namespace orrery::policies
