// Energy of launches: accounts by hand, and a power series that holds the same energy.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "hw/coupling/launch_energy.hpp"

namespace test_launch_energy {

using namespace orrery;
using namespace orrery::hw;

namespace {

/// Every kernel takes 3 uJ of compute and 1 uJ of memory.
class Flat final : public CostModel {
 public:
  Cost cost(const Kernel&) const override {
    Cost cost;
    cost.time_s = 1e-6;
    cost.compute_energy_j = 3e-6;
    cost.memory_energy_j = 1e-6;
    return cost;
  }
};

}  // namespace

TEST_CASE("idle power from the first call to the last end, kernels while they run", "[unit][coupling][energy]") {
  const sim::TickScale scale;  // 1 ps
  const auto us = [](double t) { return sim::Time{static_cast<std::int64_t>(t * 1e6)}; };
  const std::vector<LaunchedKernel> kernels(2, LaunchedKernel{"k", {}, true, 0});
  const std::vector<CommandTiming> timings{{us(0), us(1), us(2), us(3), us(5)}, {us(2), us(3), us(4), us(8), us(10)}};
  const sim::EnergyLedger ledger = launch_energy("gpu", 2.0, Flat{}, kernels, timings, scale, sim::Duration{5'000'000});
  // Idle: 2 W for 10 us = 20 uJ. Kernels: 2 x 3 uJ and 2 x 1 uJ. In bins of 5 us: 10 + 4 and 10 + 4.
  CHECK(ledger.total_pj() == 28'000'000);
  CHECK(ledger.accounts()[0].pj == 20'000'000);
  CHECK(ledger.accounts()[1].pj == 6'000'000);
  CHECK(ledger.accounts()[2].pj == 2'000'000);
  CHECK(ledger.series()->bins_pj() == std::vector<std::int64_t>{14'000'000, 14'000'000});
  CHECK(ledger.series()->watts(0, scale) == Approx(2.8));
  CHECK(ledger.balances());
  CHECK(launch_energy("gpu", 2.0, Flat{}, {}, {}, scale).total_pj() == 0);
  CHECK_THROWS_AS(launch_energy("gpu", 2.0, Flat{}, kernels, {}, scale), std::invalid_argument);
}

}  // namespace test_launch_energy
