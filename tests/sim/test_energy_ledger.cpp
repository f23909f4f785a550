// The energy ledger: shares that add up, accounts and series that agree to the last picojoule.
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

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

TEST_CASE("shares of an entry by where they begin and end", "[unit][energy]") {
  // 7 pJ over [10, 14): E = 0, 1, 3, 5, 7 after 0 … 4 ticks.
  const auto share = [](std::int64_t a, std::int64_t b) {
    return energy_share(7, Time{10}, Time{14}, Time{a}, Time{b});
  };
  CHECK(share(10, 11) == 1);
  CHECK(share(11, 12) == 2);
  CHECK(share(12, 14) == 4);
  CHECK(share(0, 10) == 0);
  CHECK(share(14, 20) == 0);
  CHECK(share(0, 12) == 3);
  CHECK(share(13, 99) == 2);
  CHECK(share(12, 12) == 0);
  CHECK(share(13, 11) == 0);  // backwards: nothing
  CHECK(energy_share(7, Time{10}, Time{10}, Time{9}, Time{11}) == 7);
  CHECK(energy_share(7, Time{10}, Time{10}, Time{11}, Time{12}) == 0);
  CHECK(energy_share(7, Time{10}, Time{9}, Time{10}, Time{11}) == 7);  // no length either
  // 128 bits in between: 9e18 pJ over 9e18 ticks.
  constexpr std::int64_t large = 9'000'000'000'000'000'000;
  CHECK(energy_share(large, Time{0}, Time{large}, Time{0}, Time{large / 3}) == large / 3);
}

TEST_CASE("picojoules are rounded to the nearest, up to what 63 bits hold", "[unit][energy]") {
  CHECK(picojoules(1) == 1'000'000'000'000);
  CHECK(picojoules(0) == 0);
  CHECK(picojoules(1.4e-12) == 1);
  CHECK(picojoules(1.6e-12) == 2);
  CHECK(picojoules(-1.6e-12) == -2);
  CHECK(picojoules(9.1e6) == 9'100'000'000'000'000'000);
  CHECK_THROWS_WITH(picojoules(9.3e6), "an entry of the energy ledger exceeds 2^63 pJ: book shorter spans");
  CHECK(energy_of(2, Duration{3}, TickScale(1000)) == 6000);  // 2 W for 3 ns
}

TEST_CASE("a power series begins at its start and grows bin by bin", "[unit][energy]") {
  PowerSeries series(Time{100}, Duration{10});
  CHECK(series.start() == Time{100});
  CHECK(series.bin() == Duration{10});
  CHECK(series.bins_pj().empty());
  series.add(6, Time{100}, Time{100});  // an instant
  CHECK(series.bins_pj() == std::vector<std::int64_t>{6});
  series.add(4, Time{110}, Time{120});  // ends where a bin does: none is added behind
  CHECK(series.bins_pj() == std::vector<std::int64_t>{6, 4});
  series.add(9, Time{119}, Time{122});  // 3 a tick
  CHECK(series.bins_pj() == std::vector<std::int64_t>{6, 7, 6});
  series.add(1, Time{105}, Time{106});
  CHECK(series.bins_pj() == std::vector<std::int64_t>{7, 7, 6});
  series.add(5, Time{140}, Time{140});
  CHECK(series.bins_pj() == std::vector<std::int64_t>{7, 7, 6, 0, 5});
  CHECK(series.watts(0, TickScale(1)) == 0.7);
  CHECK(series.watts(2, TickScale(1000)) == 0.0006);
  CHECK_THROWS_AS(series.watts(5, TickScale(1)), std::out_of_range);
  CHECK_THROWS_WITH(series.add(1, Time{99}, Time{101}), "energy drawn before the start of the power series");
}

TEST_CASE("accounts differ by device and by class, and a ledger without a series has totals only", "[unit][energy]") {
  EnergyLedger ledger;
  const auto a = ledger.account("gpu[0]", "compute");
  const auto b = ledger.account("gpu[0]", "idle");
  const auto c = ledger.account("gpu[1]", "compute");
  CHECK(std::vector<std::uint32_t>{a.index, b.index, c.index} == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(ledger.account("gpu[1]", "compute").index == 2);
  CHECK(ledger.account("gpu[0]", "idle").index == 1);
  ledger.draw(b, 5, Time{3}, Time{10});
  ledger.draw(b, 6, Time{3}, Time{3});
  ledger.draw(c, 7, Time{0}, Time{1});
  REQUIRE(ledger.accounts().size() == 3);
  CHECK(ledger.accounts()[1].device == "gpu[0]");
  CHECK(ledger.accounts()[1].category == "idle");
  CHECK(ledger.accounts()[1].pj == 11);
  CHECK(ledger.accounts()[1].busy_ticks == 7);
  CHECK(ledger.accounts()[0].pj == 0);
  CHECK(ledger.device_pj("gpu[0]") == 11);
  CHECK(ledger.device_pj("gpu[1]") == 7);
  CHECK(ledger.device_pj("gpu[2]") == 0);
  CHECK(ledger.total_pj() == 18);
  CHECK(ledger.series() == nullptr);
  CHECK(ledger.balances());
  CHECK_THROWS_AS(ledger.draw({3}, 1, Time{0}, Time{1}), std::out_of_range);
}

}  // namespace test_energy_ledger
