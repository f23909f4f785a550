#include "traces/decimal.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <limits>

namespace orrery::traces {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr int kMostDigits = 19;  // any 19 digits fit 64 bits without a sign

constexpr std::array<std::uint64_t, 20> kPowersOfTen = [] {
  std::array<std::uint64_t, 20> powers{1};
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Digits of a decimal number: value * 10^exponent; further digits are dropped (they lie past the 19th).
struct Digits {
  std::uint64_t value = 0;
  int count = 0;  // significant digits in value
  int exponent = 0;
  bool any = false;

  void take(char c, bool fraction) {
    any = true;
    if (count == kMostDigits) {
      if (!fraction) ++exponent;
      return;
    }
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
    if (value != 0) ++count;
    if (fraction) --exponent;
  }
};

/// Appends the digits at `at` to a number; returns where they end. Only up to 18 of them may be used.
const char* append_digits(const char* at, const char* stop, std::uint64_t& number) {
  for (; at != stop && is_digit(*at); ++at) number = number * 10 + static_cast<std::uint64_t>(*at - '0');
  return at;
}

/// value * 10^exponent, rounded half up, if it fits 63 bits.
std::optional<std::int64_t> scale(std::uint64_t value, int exponent) {
  if (value == 0 || exponent < -kMostDigits) return 0;  // value < 10^19: less than a tenth
  std::uint64_t scaled = 0;
  if (exponent >= 0) {
    if (exponent >= kMostDigits || value > kMax / kPowersOfTen[static_cast<std::size_t>(exponent)]) return std::nullopt;
    scaled = value * kPowersOfTen[static_cast<std::size_t>(exponent)];
  } else {
    const std::uint64_t divisor = kPowersOfTen[static_cast<std::size_t>(-exponent)];
    scaled = value / divisor + (value % divisor >= divisor - value % divisor ? 1 : 0);
  }
  if (scaled > kMax) return std::nullopt;
  return static_cast<std::int64_t>(scaled);
}

/// Exactly `width` digits at `text[at]`, or -1.
int fixed_digits(std::string_view text, std::size_t at, std::size_t width) {
  int value = 0;
  for (std::size_t i = at; i < at + width; ++i) {
    if (!is_digit(text[i])) return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<std::int64_t> parse_decimal(std::string_view text, int shift) {
  text = trim(text);
  const bool negative = text.starts_with('-');
  const auto with_sign = [&](std::optional<std::int64_t> magnitude) {
    return magnitude && negative ? std::optional(-*magnitude) : magnitude;
  };
  // The usual case, few digits and no exponent, without counting them one by one.
  const char* const stop = text.data() + text.size();
  const char* const first = text.data() + (negative ? 1 : 0);
  if (stop - first <= 18) {
    std::uint64_t value = 0;
    const char* const point = append_digits(first, stop, value);
    const char* const end = point != stop && *point == '.' ? append_digits(point + 1, stop, value) : point;
    const auto places = static_cast<int>(end == point ? 0 : end - point - 1);
    if (end == stop && (point != first || places > 0)) return with_sign(scale(value, shift - places));
  }
  std::size_t i = negative ? 1 : 0;
  Digits digits;
  for (; i < text.size() && is_digit(text[i]); ++i) digits.take(text[i], false);
  if (i < text.size() && text[i] == '.')
    for (++i; i < text.size() && is_digit(text[i]); ++i) digits.take(text[i], true);
  if (!digits.any) return std::nullopt;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i + 1 < text.size() && text[i] == '+' && is_digit(text[i + 1])) ++i;
    int exponent = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), exponent);
    if (error != std::errc{} || exponent > 1000 || exponent < -1000) return std::nullopt;
    digits.exponent += exponent;
    i = static_cast<std::size_t>(end - text.data());
  }
  if (i != text.size()) return std::nullopt;
  return with_sign(scale(digits.value, digits.exponent + shift));
}

std::optional<std::int64_t> parse_whole(std::string_view text) {
  text = trim(text);
  std::int64_t value = 0;
  const char* const stop = text.data() + text.size();
  const char* end = text.data();
  if (text.size() <= 18) {
    std::uint64_t digits = 0;
    end = append_digits(text.data(), stop, digits);
    value = static_cast<std::int64_t>(digits);
  }
  if (end == text.data()) {  // long, or with a sign
    const auto [after, error] = std::from_chars(text.data(), stop, value);
    if (error != std::errc{}) return std::nullopt;
    end = after;
  }
  if (end == stop) return value;
  if (*end != '.') return std::nullopt;
  for (const char* c = end + 1; c != stop; ++c)
    if (*c != '0') return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_utc(std::string_view text) {
  text = trim(text);
  if (text.ends_with('Z'))
    text.remove_suffix(1);
  else if (text.ends_with("+00:00"))
    text.remove_suffix(6);
  // 2023-11-16 18:15:46 is 19 characters, then perhaps a fraction.
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' ||
      text[16] != ':')
    return std::nullopt;
  const int year = fixed_digits(text, 0, 4), month = fixed_digits(text, 5, 2), day = fixed_digits(text, 8, 2);
  const int hour = fixed_digits(text, 11, 2), minute = fixed_digits(text, 14, 2), second = fixed_digits(text, 17, 2);
  if (year < 1700 || year > 2200 || month < 0 || day < 0 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
      second < 0 || second > 59)
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok()) return std::nullopt;
  std::int64_t fraction = 0;
  if (text.size() > 19) {
    if (text[19] != '.' || text.size() == 20) return std::nullopt;
    for (const char c : text.substr(20))
      if (!is_digit(c)) return std::nullopt;
    fraction = *parse_decimal(text.substr(19), 9);  // ".68" is a number too
  }
  const std::int64_t days = std::chrono::sys_days{date}.time_since_epoch().count();
  return ((days * 24 + hour) * 3600 + minute * 60 + second) * 1'000'000'000 + fraction;
}

std::string format_seconds(std::int64_t ns) {
  const bool negative = ns < 0;
  const std::uint64_t magnitude = negative ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  const std::uint64_t fraction = magnitude % 1'000'000'000;
  std::string text = fmt::format("{}{}", negative ? "-" : "", magnitude / 1'000'000'000);
  if (fraction == 0) return text;
  text += fmt::format(".{:09}", fraction);
  while (text.back() == '0') text.pop_back();
  return text;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 60;
  if (text.size() <= kShown) return fmt::format("'{}'", text);
  return fmt::format("'{}…'", text.substr(0, kShown));
}

}  // namespace orrery::traces
