#include <catch2/catch.hpp>
#include <stdexcept>

#include "sim/base/units.hpp"

namespace test_units {

using namespace orrery::sim;

TEST_CASE("quantities are read with prefix and unit", "[unit]") {
  CHECK(*parse_quantity("80 GiB", Unit::bytes) == 80.0 * 1024 * 1024 * 1024);
  CHECK(*parse_quantity("80GB", Unit::bytes) == 80e9);
  CHECK(*parse_quantity("3.35 TB/s", Unit::bytes_per_s) == 3.35e12);
  CHECK(*parse_quantity("15 us", Unit::seconds) == 15e-6);
  CHECK(*parse_quantity("2.039 TB/s", Unit::bytes_per_s) == 2.039e12);  // 2.039 * 1e12 would miss it by a bit
  CHECK(*parse_quantity("1.5e+1 kB", Unit::bytes) == 15000);
  CHECK(*parse_quantity("2 min", Unit::seconds) == 120);
  CHECK(*parse_quantity("312 TFLOP/s", Unit::flop_per_s) == 312e12);
  CHECK(*parse_quantity("1.2 pJ", Unit::joules) == 1.2e-12);
  CHECK(*parse_quantity("1.41 GHz", Unit::hertz) == 1.41e9);
  CHECK(*parse_quantity("2.5 req/s", Unit::per_s) == 2.5);
  CHECK(*parse_quantity("-1 GB/s", Unit::bytes_per_s) == -1e9);
  CHECK(*parse_quantity("512", Unit::tokens) == 512);
}

TEST_CASE("what is no quantity of the unit is refused", "[unit]") {
  for (const char* text : {"", "GiB", "80", "80 GiB/s", "80 gib", "80 GiB x", "1e999 B", "nan B"})
    CHECK_FALSE(parse_quantity(text, Unit::bytes).has_value());
  CHECK_FALSE(parse_quantity("80 GB", Unit::bytes_per_s).has_value());
  CHECK_FALSE(parse_quantity("5 s", Unit::tokens).has_value());
}

TEST_CASE("formatted quantities read back exactly", "[prop]") {
  for (const double value : {0.0, 1.0, 1.0 / 3.0, 2.62e-6, 85899345920.0, 1.5e-300, -7.25})
    for (const Unit unit : {Unit::bytes, Unit::seconds, Unit::flop_per_s, Unit::watts, Unit::joules, Unit::ratio})
      CHECK(*parse_quantity(format_quantity(value, unit), unit) == value);
}

TEST_CASE("values for people carry a prefix", "[unit]") {
  CHECK(humanise(80.0 * 1024 * 1024 * 1024, Unit::bytes) == "80 GiB");
  CHECK(humanise(1.5e-6, Unit::seconds) == "1.5 us");
  CHECK(humanise(851.6, Unit::seconds) == "851.6 s");
  CHECK(humanise(3.35e12, Unit::bytes_per_s) == "3.35 TB/s");
  CHECK(humanise(0, Unit::seconds) == "0 s");
  CHECK(humanise(9'999, Unit::none) == "9999");
  CHECK(unit_of_symbol("B/s") == Unit::bytes_per_s);
  CHECK(unit_of_symbol("tokens") == Unit::none);  // a count
  CHECK(unit_of_symbol("") == Unit::none);
  for (const auto& [path, unit] : {std::pair{"ttft_s.p99", Unit::seconds},
                                   {"memory_bytes.peak", Unit::bytes},
                                   {"bandwidth_bytes_per_s", Unit::bytes_per_s},
                                   {"throughput.requests_per_s", Unit::none},
                                   {"bytes_moved.total", Unit::bytes},
                                   {"energy_per_output_token_j", Unit::joules},
                                   {"bandwidth_bytes_per_s.share", Unit::none},
                                   {"slo.attainment", Unit::none}})
    CHECK(unit_of_figure(path) == unit);
  CHECK(humanise(12'345, Unit::none) == "12345");
  CHECK(humanise(123'456, Unit::tokens) == "123.5 k");
  CHECK(humanise(-2.5e6, Unit::none) == "-2.5 M");
  CHECK(humanise(1.2e6, Unit::per_s) == "1.2 M/s");
  CHECK(humanise(2.5, Unit::per_s) == "2.5 1/s");
}

TEST_CASE("seconds become ticks in one place, rounded up", "[unit]") {
  const TickScale ps(1);
  CHECK(ps.duration(1e-12).ticks == 1);
  CHECK(ps.duration(1.2e-12).ticks == 2);  // no work is free
  CHECK(ps.duration(0).ticks == 0);
  const TickScale ns(1000);
  CHECK(ns.duration(1e-12).ticks == 1);
  CHECK(ns.duration(2.5e-9).ticks == 3);
  CHECK(ns.seconds(Duration{3}) == Approx(3e-9));
  // 1,234,567,890.123456789 s in ns is exact although a double of seconds is not.
  CHECK(ns.from_ns(1'234'567'890'123'456'789).ticks == 1'234'567'890'123'456'789);
  CHECK(ns.from_ns(3'000'000'000, 2.0).ticks == 1'500'000'000);
}

TEST_CASE("a horizon that does not fit names the tick to set", "[unit]") {
  // 213 days are 1.84e7 s = 1.84e19 ps, past 63 bits.
  CHECK_THROWS_WITH(TickScale(1).duration(213 * 86400.0), Catch::Contains("set run.tick to \"1 ns\""));
  CHECK_NOTHROW(TickScale(1000).duration(213 * 86400.0));
  CHECK_THROWS_WITH(TickScale(1).from_ns(213LL * 86400 * 1'000'000'000), Catch::Contains("run.tick"));
  CHECK_THROWS_AS(TickScale(1).duration(1e30), std::overflow_error);
}

}  // namespace test_units
