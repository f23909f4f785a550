// none: nobody proposes anything.
#include <memory>

#include "policies/speculation/speculation.hpp"

namespace orrery::policies {
namespace {

class NoSpeculation final : public Speculator {
 public:
  Drafter drafter() const override { return Drafter::none; }
  std::int64_t length(std::int64_t, std::int64_t) override { return 0; }
  std::int64_t accepted(const Sequence&, std::int64_t) override { return 0; }
};

}  // namespace

void add_no_speculation(SpeculationRegistry& registry) {
  registry.add<sim::NoParams>(
      "none", "No speculation: each decode yields one token per iteration.",
      [](const sim::NoParams&, const StepPrices&, std::uint64_t) { return std::make_unique<NoSpeculation>(); });
}

}  // namespace orrery::policies
