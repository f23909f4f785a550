// Sobol's sequence over the unit cube: evenly spread for any number of points, in any number of dimensions
// (experiments/search/sobol.hpp has sources and properties). Points that are not allowed are left out.
#include "experiments/search/sobol.hpp"

#include "experiments/search/proposing.hpp"

namespace orrery::experiments::search {
namespace {

struct SobolParams {
  bool scrambled = true;
  std::int64_t skip = 0;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("scrambled", &SobolParams::scrambled, "Whether the seed scrambles the sequence."),
                           sim::field("skip", &SobolParams::skip, sim::Unit::count, sim::between(0, 1e6),
                                      "Points skipped at the start of the sequence.")};
  }
};

class SobolDriver final : public StreamDriver {
 public:
  SobolDriver(const SobolParams& params, const DriverSetup& setup)
      : space_(*setup.space),
        sequence_(space_.size(), params.scrambled, sim::RandomStream(setup.random).child("sobol").bits()) {
    for (std::int64_t i = 0; i < params.skip; ++i) (void)sequence_.next();
  }

  std::vector<Proposal> ask(std::size_t most) override {
    return allowed_proposals(space_, most, [&] { return space_.from_units(sequence_.next()); });
  }
  void tell(std::span<const Trial>) override {}

 private:
  const Space& space_;
  SobolSequence sequence_;
};

}  // namespace

void add_sobol_driver(DriverRegistry& registry) {
  registry.add<SobolParams>(
      "sobol", "Sobol's sequence, scrambled by the seed.",
      [](const SobolParams& params, const DriverSetup& setup) { return std::make_unique<SobolDriver>(params, setup); });
}

}  // namespace orrery::experiments::search
