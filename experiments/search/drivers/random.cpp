// Random search: allowed points, uniform over the unit cube. The baseline that every driver must beat; good where few
// of many parameters matter (Bergstra and Bengio 2012).
#include "experiments/search/proposing.hpp"

namespace orrery::experiments::search {
namespace {

class RandomDriver final : public StreamDriver {
 public:
  explicit RandomDriver(const DriverSetup& setup) : space_(*setup.space), random_(setup.random) {}

  std::vector<Proposal> ask(std::size_t most) override {
    return proposals(most, [&] { return space_.sample(random_); });
  }
  void tell(std::span<const Trial>) override {}

 private:
  const Space& space_;
  sim::RandomStream random_;
};

}  // namespace

void add_random_driver(DriverRegistry& registry) {
  registry.add<sim::NoParams>(
      "random", "Draws allowed points uniformly at random.",
      [](const sim::NoParams&, const DriverSetup& setup) { return std::make_unique<RandomDriver>(setup); });
}

}  // namespace orrery::experiments::search
