// Random: every replica alike, whatever its load. The baseline of the theory (n independent queues).
#include "policies/routing/routing.hpp"

namespace orrery::policies {
namespace {

class RandomRouter final : public Router {
 public:
  explicit RandomRouter(sim::RandomStream random) : random_(std::move(random)) {}
  std::size_t route(const RouteView& view) override {
    return static_cast<std::size_t>(random_.below(view.replicas.size()));
  }

 private:
  sim::RandomStream random_;
};

}  // namespace

void add_random_router(RouterRegistry& registry) {
  registry.add<sim::NoParams>(
      "random", "A replica drawn at random, all with equal probability.",
      [](const sim::NoParams&, sim::RandomStream random) { return std::make_unique<RandomRouter>(std::move(random)); });
}

}  // namespace orrery::policies
