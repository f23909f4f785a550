// Best fit: buffers in order of allocation, each into the smallest gap that holds it (of equal ones the lowest); the
// arena grows only if none does. What caching allocators of frameworks approximate.
#include "policies/memory/online.hpp"
#include "policies/memory/planner.hpp"

namespace orrery::policies {
namespace {

class BestFit final : public MemoryPlanner {
  std::vector<std::int64_t> place(std::span<const Buffer> buffers) const override {
    return place_online(buffers, smallest_gap);
  }
};

}  // namespace

void add_best_fit(MemoryPlannerRegistry& registry) {
  registry.add<sim::NoParams>("best_fit", "In order of allocation, each buffer into the smallest gap that holds it.",
                              [](const sim::NoParams&) { return std::make_unique<BestFit>(); });
}

}  // namespace orrery::policies
