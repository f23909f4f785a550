// Round robin: one replica after the other, whatever their load; those that fail or leave are skipped.
#include "policies/routing/routing.hpp"

namespace orrery::policies {
namespace {

class RoundRobin final : public Router {
 public:
  std::size_t route(const RouteView& view) override {
    // The first whose number is past the last one's, so that replicas that come and go do not upset the turn.
    std::size_t place = 0;
    while (place < view.replicas.size() && view.replicas[place].replica <= last_) ++place;
    if (place == view.replicas.size()) place = 0;
    last_ = view.replicas[place].replica;
    return place;
  }

 private:
  std::int32_t last_ = -1;
};

}  // namespace

void add_round_robin(RouterRegistry& registry) {
  registry.add<sim::NoParams>("round_robin", "The replicas in turn.",
                              [](const sim::NoParams&, sim::RandomStream) { return std::make_unique<RoundRobin>(); });
}

}  // namespace orrery::policies
