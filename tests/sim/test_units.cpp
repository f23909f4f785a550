#include <catch2/catch.hpp>
#include <limits>
#include <stdexcept>
#include <string>

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

TEST_CASE("every dimension has a symbol and an example that reads", "[unit]") {
  struct Row {
    Unit unit;
    const char* symbol;
    const char* example;
    double value;  // of the example
  };
  for (const Row& row : {Row{Unit::bytes, "B", "80 GiB", 85899345920.0},
                         {Unit::seconds, "s", "1 s", 1},
                         {Unit::bytes_per_s, "B/s", "900 GB/s", 900e9},
                         {Unit::flop_per_s, "FLOP/s", "312 TFLOP/s", 312e12},
                         {Unit::watts, "W", "400 W", 400},
                         {Unit::joules, "J", "1.2 pJ", 1.2e-12},
                         {Unit::hertz, "Hz", "1.41 GHz", 1.41e9},
                         {Unit::per_s, "1/s", "2.5 req/s", 2.5}}) {
    CAPTURE(row.symbol);
    CHECK(has_dimension(row.unit));
    CHECK(symbol(row.unit) == row.symbol);
    CHECK(example(row.unit) == row.example);
    CHECK(parse_quantity(example(row.unit), row.unit) == row.value);
    CHECK(unit_of_symbol(row.symbol) == row.unit);
  }
  for (const auto& [unit, name] : {std::pair{Unit::none, ""},
                                   {Unit::ratio, "ratio"},
                                   {Unit::count, "count"},
                                   {Unit::tokens, "tokens"},
                                   {Unit::requests, "requests"},
                                   {Unit::sequences, "sequences"},
                                   {Unit::blocks, "blocks"},
                                   {Unit::iterations, "iterations"},
                                   {Unit::layers, "layers"},
                                   {Unit::text, ""},
                                   {Unit::path, ""},
                                   {Unit::reference, ""}}) {
    CHECK_FALSE(has_dimension(unit));
    CHECK(symbol(unit) == name);
    CHECK(unit_of_symbol(name) == Unit::none);
  }
  CHECK(example(Unit::ratio) == "0.9");
  CHECK(example(Unit::path) == "trace.csv");
  CHECK(example(Unit::reference) == "catalog:NAME");
}

TEST_CASE("every prefix has its factor", "[unit]") {
  for (const auto& [prefix, factor] : {std::pair{"", 1.0},
                                       {"k", 1e3},
                                       {"K", 1e3},
                                       {"M", 1e6},
                                       {"G", 1e9},
                                       {"T", 1e12},
                                       {"P", 1e15},
                                       {"m", 1e-3},
                                       {"u", 1e-6},
                                       {"n", 1e-9},
                                       {"p", 1e-12},
                                       {"Ki", 1024.0},
                                       {"Mi", 1048576.0},
                                       {"Gi", 1073741824.0},
                                       {"Ti", 1099511627776.0}}) {
    CAPTURE(prefix);
    CHECK(parse_quantity("2 " + std::string(prefix) + "B", Unit::bytes) == 2 * factor);
    CHECK_FALSE(parse_quantity("2 " + std::string(prefix) + "B", Unit::watts).has_value());
  }
  CHECK(parse_quantity("1.5e-1 kB", Unit::bytes) == 150);
  CHECK(parse_quantity("2E3 MB", Unit::bytes) == 2e9);
  CHECK(parse_quantity("1e-3 mW", Unit::watts) == 1e-6);
  CHECK_FALSE(parse_quantity("2 kkB", Unit::bytes).has_value());
  CHECK_FALSE(parse_quantity("2 xB", Unit::bytes).has_value());
}

TEST_CASE("times are told in minutes, hours and days too, rates by requests", "[unit]") {
  CHECK(parse_quantity("1.5 min", Unit::seconds) == 90);
  CHECK(parse_quantity("2 h", Unit::seconds) == 7200);
  CHECK(parse_quantity("0.5 d", Unit::seconds) == 43200);
  CHECK(parse_quantity("2 ms", Unit::seconds) == 2e-3);
  CHECK_FALSE(parse_quantity("2 kmin", Unit::seconds).has_value());
  CHECK_FALSE(parse_quantity("2 h", Unit::per_s).has_value());
  CHECK(parse_quantity("3 /s", Unit::per_s) == 3);
  CHECK(parse_quantity("3 1/s", Unit::per_s) == 3);
  CHECK(parse_quantity("3 k1/s", Unit::per_s) == 3000);
  CHECK_FALSE(parse_quantity("3 req/s", Unit::hertz).has_value());
  CHECK_FALSE(parse_quantity("3 /s", Unit::bytes_per_s).has_value());
  CHECK(parse_quantity("  80   GB  ", Unit::bytes) == 80e9);
  CHECK(parse_quantity(" 0.5 ", Unit::ratio) == 0.5);
  CHECK_FALSE(parse_quantity("0.5 ratio", Unit::ratio).has_value());
  CHECK_FALSE(parse_quantity("inf", Unit::ratio).has_value());
}

TEST_CASE("a formatted quantity has the unit, and none where there is none", "[unit]") {
  CHECK(format_quantity(1.5e-6, Unit::seconds) == "1.5e-06 s");
  CHECK(format_quantity(2e9, Unit::bytes_per_s) == "2000000000 B/s");
  CHECK(format_quantity(0.25, Unit::ratio) == "0.25");
}

TEST_CASE("values for people: the prefix changes just at its factor", "[unit]") {
  CHECK(humanise(1023, Unit::bytes) == "1023 B");
  CHECK(humanise(1024, Unit::bytes) == "1 KiB");
  CHECK(humanise(-1536, Unit::bytes) == "-1.5 KiB");
  CHECK(humanise(1048575, Unit::bytes) == "1024 KiB");
  CHECK(humanise(1048576, Unit::bytes) == "1 MiB");
  CHECK(humanise(1073741824, Unit::bytes) == "1 GiB");
  CHECK(humanise(1099511627776, Unit::bytes) == "1 TiB");
  CHECK(humanise(1, Unit::bytes) == "1 B");
  CHECK(humanise(0.5, Unit::bytes) == "500 mB");
  // 0.99999 of a prefix is one of it in four digits; less is not.
  CHECK(humanise(999.99, Unit::watts) == "1 kW");
  CHECK(humanise(999.98, Unit::watts) == "1000 W");
  CHECK(humanise(1e15, Unit::flop_per_s) == "1 PFLOP/s");
  CHECK(humanise(2.5e12, Unit::flop_per_s) == "2.5 TFLOP/s");
  CHECK(humanise(-3e9, Unit::hertz) == "-3 GHz");
  CHECK(humanise(1.41e6, Unit::hertz) == "1.41 MHz");
  CHECK(humanise(1, Unit::joules) == "1 J");
  CHECK(humanise(2e-3, Unit::joules) == "2 mJ");
  CHECK(humanise(2e-6, Unit::joules) == "2 uJ");
  CHECK(humanise(2e-9, Unit::joules) == "2 nJ");
  CHECK(humanise(2e-12, Unit::joules) == "2 pJ");
  CHECK(humanise(2e-15, Unit::joules) == "2e-15 J");
  CHECK(humanise(1000, Unit::seconds) == "1000 s");  // no ks
  CHECK(humanise(0.0123456, Unit::seconds) == "12.35 ms");
  CHECK(humanise(9999.4, Unit::none) == "9999");
  CHECK(humanise(10'000, Unit::none) == "10000");
  CHECK(humanise(-99'999, Unit::none) == "-99999");
  CHECK(humanise(100'000, Unit::count) == "100 k");
  CHECK(humanise(999'990, Unit::count) == "1 M");
  CHECK(humanise(0.12345, Unit::ratio) == "0.1235");
  CHECK(humanise(std::numeric_limits<double>::quiet_NaN(), Unit::none) == "nan");
  CHECK(humanise(150'000, Unit::per_s) == "150 k/s");
}

TEST_CASE("the name of a figure tells its unit by its last ending", "[unit]") {
  for (const auto& [path, unit] : {std::pair{"compute_flops_per_s", Unit::flop_per_s},
                                   {"clock_hz", Unit::hertz},
                                   {"mean_power_w", Unit::watts},
                                   {"energy_j", Unit::joules},
                                   {"requests_per_s.mean", Unit::none},
                                   {"bytes", Unit::bytes},
                                   {"moved.bytes", Unit::bytes},
                                   {"bytes_read", Unit::bytes},
                                   {"bytesread", Unit::none},
                                   {"wait_s.count", Unit::none},
                                   {"wait_s.hit_ratio", Unit::none},
                                   {"wait_s.fragmentation", Unit::none},
                                   {"count.wait_s", Unit::seconds},
                                   {"wait_s.share.p50", Unit::seconds},  // bare names count last only
                                   {"a_bytes.b_s", Unit::seconds},       // the last piece goes first
                                   {"", Unit::none}}) {
    CAPTURE(path);
    CHECK(unit_of_figure(path) == unit);
  }
}

TEST_CASE("times and spans add, scale and compare", "[unit]") {
  CHECK((Time{5} + Duration{3}) == Time{8});
  CHECK((Time{5} - Duration{3}) == Time{2});
  CHECK((Time{5} - Time{3}) == Duration{2});
  CHECK((Duration{5} + Duration{3}) == Duration{8});
  CHECK((Duration{5} - Duration{3}) == Duration{2});
  CHECK((Duration{5} * 3) == Duration{15});
  Duration sum{1};
  sum += Duration{2};
  sum += Duration{4};
  CHECK(sum == Duration{7});
  CHECK(Time{1} < kNever);
  const TickScale us(1'000'000);
  CHECK(us.ps_per_tick() == 1'000'000);
  CHECK(us.seconds(Time{3}) == Approx(3e-6));
  CHECK(us.seconds_of_sum(__int128{5}) == Approx(5e-6));
}

TEST_CASE("nanoseconds of a trace become ticks, rounded up, at any tick and rate", "[unit]") {
  CHECK(TickScale(1).from_ns(7) == Time{7000});
  CHECK(TickScale(3).from_ns(1) == Time{334});        // 1000 / 3
  CHECK(TickScale(2000).from_ns(4) == Time{2});       // just
  CHECK(TickScale(2000).from_ns(3) == Time{2});       // 1.5
  CHECK(TickScale(1000).from_ns(3, 2.0) == Time{2});  // 1.5 ns
  CHECK(TickScale(1000).from_ns(3, 0.4) == Time{8});
  // 9.2e18 ticks are the last that fit.
  CHECK(TickScale(1).from_ns(9'200'000'000'000'000) == Time{9'200'000'000'000'000'000});
  CHECK_THROWS_AS(TickScale(1).from_ns(9'200'000'000'000'001), std::overflow_error);
  CHECK(TickScale(1).duration(9'199'999.0).ticks == 9'199'999'000'000'000'000);
  CHECK_THROWS_AS(TickScale(1).duration(9'200'000.0), std::overflow_error);
}

TEST_CASE("the coarser tick that is named is one that fits", "[unit]") {
  // At 1 ns 9e18 ticks are 9e9 s.
  CHECK_THROWS_WITH(TickScale(1).duration(8.9e9),
                    "a time of 8.9e+09 s does not fit 63 bits of 1 ps ticks: set run.tick to \"1 ns\"");
  CHECK_THROWS_WITH(TickScale(1).duration(9.1e9),
                    "a time of 9.1e+09 s does not fit 63 bits of 1 ps ticks: set run.tick to \"1 us\"");
  CHECK_THROWS_WITH(TickScale(1000).duration(9.5e9),
                    "a time of 9.5e+09 s does not fit 63 bits of 1000 ps ticks: set run.tick to \"1 us\"");
  CHECK_THROWS_WITH(TickScale(1000).from_ns(9'223'372'036'854'775'807, 0.5), Catch::Contains("\"1 us\""));
}

}  // namespace test_units
