// Exact numbers from text.
#include "sim/base/random.hpp"
#include "support.hpp"
#include "traces/decimal.hpp"

namespace test_decimal {

using namespace orrery::traces;

TEST_CASE("decimal seconds become exact nanoseconds", "[unit]") {
  CHECK(parse_decimal("0", 9) == 0);
  CHECK(parse_decimal("0.0", 9) == 0);
  CHECK(parse_decimal("4.314579", 9) == 4'314'579'000);
  CHECK(parse_decimal("9223372036.854775807", 9) == 9'223'372'036'854'775'807);  // the last that fits
  CHECK_FALSE(parse_decimal("9223372036.854775808", 9).has_value());
  CHECK(parse_decimal("1700000000.123456789", 9) == 1'700'000'000'123'456'789);
  CHECK(parse_decimal("00000000000000000000001.50000000000000000000000", 9) == 1'500'000'000);
  CHECK(parse_decimal("0.0000000005", 9) == 1);
  CHECK(parse_decimal("9999999999999999999e-19", 0) == 1);
  CHECK(parse_decimal("4999999999999999999e-19", 0) == 0);
  CHECK(parse_decimal(" 1.5\t", 9) == 1'500'000'000);
  CHECK(parse_decimal("0.1", 9) == 100'000'000);
  CHECK(parse_decimal("18406079.000000001", 9) ==
        18'406'079'000'000'001);  // 213 days: a double would lose the last digit
  CHECK(parse_decimal("0.098189000000000004", 9) == 98'189'000);
  CHECK(parse_decimal("27482", 6) == 27'482'000'000);  // milliseconds
  CHECK(parse_decimal("-1.5", 9) == -1'500'000'000);
  CHECK(parse_decimal("1.5e-05", 9) == 15'000);
  CHECK(parse_decimal("1.5E+2", 9) == 150'000'000'000);
  CHECK(parse_decimal("0e999", 9) == 0);
  CHECK(parse_decimal("1e-500", 9) == 0);
}

TEST_CASE("digits past the nanosecond round half up", "[unit]") {
  CHECK(parse_decimal("0.0000000014", 9) == 1);
  CHECK(parse_decimal("0.0000000015", 9) == 2);
  CHECK(parse_decimal("0.00000000149999999999", 9) == 1);
  CHECK(parse_decimal("0.9999999999", 9) == 1'000'000'000);
  CHECK(parse_decimal("-0.0000000015", 9) == -2);
}

TEST_CASE("text that is no number of that range is none", "[unit]") {
  for (const char* text : {"",      " ",    ".",     "-",   "e5",         "1e",    "1e+",
                           "1e+-5", "abc",  "1.2.3", "nan", "NaN",        "inf",   "-inf",
                           "1,5",   "0x10", "1 2",   "+1",  "9300000000", "1e300", "99999999999999999999",
                           "--1"})
    CHECK_FALSE(parse_decimal(text, 9).has_value());
}

TEST_CASE("token counts are whole numbers, as integers or as data frames write them", "[unit]") {
  CHECK(parse_whole("374") == 374);
  CHECK(parse_whole("374.0") == 374);
  CHECK(parse_whole(" 374.000 ") == 374);
  CHECK(parse_whole("-3") == -3);
  for (const char* text : {"", "374.5", "x", "12x", "1e3", "nan", "99999999999999999999", "0x1", ".0", "3.0.0"})
    CHECK_FALSE(parse_whole(text).has_value());
}

TEST_CASE("calendar times count from 1970 in UTC", "[unit]") {
  CHECK(parse_utc("1970-01-01 00:00:00") == 0);
  // 2023-11-16: 19677 days (53 years of 365 days, 13 leap days, 304 days of January to October, 15 of November).
  constexpr std::int64_t kDay = 86'400'000'000'000;
  CHECK(parse_utc("2023-11-16 00:00:00") == (53 * 365 + 13 + 304 + 15) * kDay);
  CHECK(*parse_utc("2023-11-16 18:15:46.6805900") - *parse_utc("2023-11-16 18:15:46") == 680'590'000);
  CHECK(*parse_utc("2023-11-17 00:00:00.5") - *parse_utc("2023-11-16 23:59:59.75") == 750'000'000);
  CHECK(*parse_utc("2024-03-01 00:00:00") - *parse_utc("2024-02-28 00:00:00") == 2 * kDay);  // a leap year
  CHECK(*parse_utc("2023-03-01 00:00:00") - *parse_utc("2023-02-28 00:00:00") == kDay);
  CHECK(*parse_utc("2100-03-01 00:00:00") - *parse_utc("2100-02-28 00:00:00") == kDay);  // no leap year
  CHECK(*parse_utc("2024-01-01 00:00:00") - *parse_utc("2023-12-31 00:00:00") == kDay);
  CHECK(parse_utc("2024-05-10T00:00:00.009930+00:00") == *parse_utc("2024-05-10 00:00:00") + 9'930'000);
  CHECK(parse_utc("2024-05-10T00:00:00Z") == parse_utc("2024-05-10 00:00:00"));
  for (const char* text : {"", "2023-11-16", "2023-02-29 00:00:00", "2023-13-01 00:00:00", "2023-11-31 00:00:00",
                           "2023-11-16 24:00:00", "2023-11-16 23:60:00", "2023-11-16 23:59:60", "2023-11-16 18:15:46.",
                           "2023-11-16 18:15:46.x", "2023/11/16 18:15:46", "2023-11-16 18:15:46+02:00",
                           "0000-11-16 18:15:46", "2023-1a-16 18:15:46", "9999-11-16 18:15:46", "34"})
    CHECK_FALSE(parse_utc(text).has_value());
}

TEST_CASE("seconds written are read back the same", "[unit][prop]") {
  CHECK(format_seconds(0) == "0");
  CHECK(format_seconds(8'629'158'000) == "8.629158");
  CHECK(format_seconds(1) == "0.000000001");
  CHECK(format_seconds(-500'000'000) == "-0.5");
  orrery::sim::RandomStream random(1, "test");
  for (int i = 0; i < 20'000; ++i) {
    // Any size up to 63 bits.
    const auto ns = static_cast<std::int64_t>(random.bits() >> (1 + random.below(62)));
    REQUIRE(parse_decimal(format_seconds(ns), 9) == ns);
  }
}

}  // namespace test_decimal
