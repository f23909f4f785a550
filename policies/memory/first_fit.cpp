// First fit: buffers in order of allocation, each at the lowest gap that holds it. What a simple run-time allocator
// does, with all lifetimes unknown; its worst case grows with the logarithm of the largest size over the smallest
// (Robson 1977, "Worst case fragmentation of first fit and best fit storage allocation strategies").
#include "policies/memory/online.hpp"
#include "policies/memory/planner.hpp"

namespace orrery::policies {
namespace {

class FirstFit final : public MemoryPlanner {
  std::vector<std::int64_t> place(std::span<const Buffer> buffers) const override {
    return place_online(buffers, lowest_gap);
  }
};

}  // namespace

void add_first_fit(MemoryPlannerRegistry& registry) {
  registry.add<sim::NoParams>("first_fit", "In order of allocation, each buffer into the lowest gap that holds it.",
                              [](const sim::NoParams&) { return std::make_unique<FirstFit>(); });
}

}  // namespace orrery::policies
