// The energy ledger: shares that add up, accounts and series that agree to the last picojoule.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "sim/base/random.hpp"
#include "sim/energy_ledger.hpp"

namespace test_energy_ledger {

using namespace orrery::sim;

TEST_CASE("a span is shared out over bins without loss", "[unit][energy]") {
  // 10 pJ over [0, 3): E(1) = floor(10/3) = 3, E(2) = floor(20/3) = 6, E(3) = 10, so the ticks hold 3, 3, 4.
  CHECK(energy_share(10, Time{0}, Time{3}, Time{0}, Time{1}) == 3);
  CHECK(energy_share(10, Time{0}, Time{3}, Time{1}, Time{2}) == 3);
  CHECK(energy_share(10, Time{0}, Time{3}, Time{2}, Time{3}) == 4);
  CHECK(energy_share(10, Time{0}, Time{3}, Time{-5}, Time{50}) == 10);
  CHECK(energy_share(10, Time{0}, Time{3}, Time{3}, Time{9}) == 0);
  // An instant belongs to the span that holds it: its start, not its end.
  CHECK(energy_share(7, Time{5}, Time{5}, Time{5}, Time{6}) == 7);
  CHECK(energy_share(7, Time{5}, Time{5}, Time{4}, Time{5}) == 0);
}

TEST_CASE("one watt is one picojoule a picosecond", "[unit][energy]") {
  const TickScale ps(1), ns(1000);
  CHECK(energy_of(300, Duration{1000}, ps) == 300'000);  // 300 W for 1 ns: 300 nJ
  CHECK(energy_of(300, Duration{1}, ns) == 300'000);
  CHECK(energy_of(0.4, Duration{1}, ps) == 0);
  CHECK(energy_of(0.6, Duration{1}, ps) == 1);
  CHECK_THROWS_AS(energy_of(1e3, Duration{1'000'000'000'000'000'000}, ps), std::overflow_error);
  PowerSeries series(Time{0}, Duration{100});
  series.add(30'000, Time{0}, Time{100});
  CHECK(series.watts(0, ps) == 300);
  CHECK_THROWS_AS(series.add(1, Time{-1}, Time{3}), std::invalid_argument);
}

TEST_CASE("accounts of a device and a class of work", "[unit][energy]") {
  EnergyLedger ledger(Time{0}, Duration{10});
  const auto compute = ledger.account("gpu[0]", "compute"), memory = ledger.account("gpu[0]", "memory");
  const auto idle = ledger.account("gpu[1]", "idle");
  CHECK(ledger.account("gpu[0]", "compute").index == compute.index);
  ledger.draw(compute, 100, Time{0}, Time{20});
  ledger.draw(memory, 11, Time{5}, Time{15});
  ledger.draw(idle, 3, Time{0}, Time{40});
  CHECK(ledger.total_pj() == 114);
  CHECK(ledger.device_pj("gpu[0]") == 111);
  CHECK(ledger.accounts()[compute.index].busy_ticks == 20);
  // Bins of 10: 50 + 5 + 0, 50 + 6 + 1, 0 + 1, 0 + 1 (idle: E(10) = 0, E(20) = 1, E(30) = 2, E(40) = 3).
  CHECK(ledger.series()->bins_pj() == std::vector<std::int64_t>{55, 57, 1, 1});
  CHECK(ledger.balances());
  CHECK(EnergyLedger().balances());
  CHECK(EnergyLedger().series() == nullptr);
}

TEST_CASE("random entries balance to the last picojoule", "[prop][energy]") {
  RandomStream random(7, "ledger");
  EnergyLedger ledger(Time{1000}, Duration{977});
  __int128 booked = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto from = static_cast<std::int64_t>(1000 + random.uniform() * 1e6);
    const auto length = static_cast<std::int64_t>(random.uniform() * 5e4);
    const auto pj = static_cast<std::int64_t>(random.uniform() * 1e12);
    const auto account = ledger.account("device[" + std::to_string(i % 7) + "]", i % 2 == 0 ? "compute" : "memory");
    ledger.draw(account, pj, Time{from}, Time{from + length});
    booked += pj;
  }
  CHECK(ledger.total_pj() == booked);
  CHECK(ledger.balances());
  __int128 devices = 0;
  for (int i = 0; i < 7; ++i) devices += ledger.device_pj("device[" + std::to_string(i) + "]");
  CHECK(devices == booked);
}

}  // namespace test_energy_ledger
