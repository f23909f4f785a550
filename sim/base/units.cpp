#include "sim/base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace orrery::sim {
namespace {

struct UnitInfo {
  Unit unit;
  bool dimension;
  std::string_view symbol;
  std::string_view example;
};

constexpr std::array kUnits{
    UnitInfo{Unit::none, false, "", "1"},
    UnitInfo{Unit::ratio, false, "ratio", "0.9"},
    UnitInfo{Unit::count, false, "count", "1"},
    UnitInfo{Unit::tokens, false, "tokens", "512"},
    UnitInfo{Unit::requests, false, "requests", "128"},
    UnitInfo{Unit::sequences, false, "sequences", "128"},
    UnitInfo{Unit::blocks, false, "blocks", "16"},
    UnitInfo{Unit::iterations, false, "iterations", "1"},
    UnitInfo{Unit::layers, false, "layers", "32"},
    UnitInfo{Unit::bytes, true, "B", "80 GiB"},
    UnitInfo{Unit::seconds, true, "s", "1 s"},
    UnitInfo{Unit::bytes_per_s, true, "B/s", "900 GB/s"},
    UnitInfo{Unit::flop_per_s, true, "FLOP/s", "312 TFLOP/s"},
    UnitInfo{Unit::watts, true, "W", "400 W"},
    UnitInfo{Unit::joules, true, "J", "1.2 pJ"},
    UnitInfo{Unit::hertz, true, "Hz", "1.41 GHz"},
    UnitInfo{Unit::per_s, true, "1/s", "2.5 req/s"},
    UnitInfo{Unit::text, false, "", "name"},
    UnitInfo{Unit::path, false, "", "trace.csv"},
    UnitInfo{Unit::reference, false, "", "catalog:NAME"},
};

const UnitInfo& info(Unit unit) {
  return kUnits[static_cast<std::size_t>(unit)];
}

struct Prefix {
  std::string_view text;
  int exponent;   // of ten
  double binary;  // or a power of two (1 for decimal prefixes)
};

// Longest first, so that "Gi" is not read as "G".
constexpr std::array kPrefixes{Prefix{"Ki", 0, 1024.0},
                               Prefix{"Mi", 0, 1048576.0},
                               Prefix{"Gi", 0, 1073741824.0},
                               Prefix{"Ti", 0, 1099511627776.0},
                               Prefix{"k", 3, 1},
                               Prefix{"K", 3, 1},
                               Prefix{"M", 6, 1},
                               Prefix{"G", 9, 1},
                               Prefix{"T", 12, 1},
                               Prefix{"P", 15, 1},
                               Prefix{"m", -3, 1},
                               Prefix{"u", -6, 1},
                               Prefix{"n", -9, 1},
                               Prefix{"p", -12, 1}};

/// number * 10^exponent, rounded once: "2.039" and 12 give the double nearest to 2.039e12, which a product may miss.
double scaled(std::string_view number, int exponent) {
  int own = 0;
  if (const auto e = number.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view digits = number.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::from_chars(digits.data(), digits.data() + digits.size(), own);
    number = number.substr(0, e);
  }
  const std::string text = fmt::format("{}e{}", number, own + exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Factor of "min", "h" and the like, which take no prefix.
std::optional<double> long_time(std::string_view text) {
  if (text == "min") return 60.0;
  if (text == "h") return 3600.0;
  if (text == "d") return 86400.0;
  return std::nullopt;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

[[noreturn]] void throw_horizon(double seconds, std::int64_t ps_per_tick) {
  const double ps_needed = seconds * 1e12 / 9.0e18;
  const char* tick = ps_needed <= 1e3 && ps_per_tick < 1000 ? "1 ns" : "1 us";
  throw std::overflow_error(fmt::format(
      "a time of {:.6g} s does not fit 63 bits of {} ps ticks: set run.tick to \"{}\"", seconds, ps_per_tick, tick));
}

}  // namespace

bool has_dimension(Unit unit) {
  return info(unit).dimension;
}
std::string_view symbol(Unit unit) {
  return info(unit).symbol;
}
std::string_view example(Unit unit) {
  return info(unit).example;
}

std::optional<double> parse_quantity(std::string_view text, Unit unit) {
  text = trim(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  const std::string_view number = text.substr(0, static_cast<std::size_t>(end - text.data()));
  const std::string_view rest = trim(text.substr(number.size()));
  if (!has_dimension(unit)) return rest.empty() ? std::optional(value) : std::nullopt;
  const std::string_view base = symbol(unit);
  if (rest == base) return value;
  if (unit == Unit::seconds) {
    if (const auto factor = long_time(rest)) return value * *factor;
  }
  if (unit == Unit::per_s && (rest == "req/s" || rest == "/s")) return value;
  for (const Prefix& prefix : kPrefixes) {
    if (rest.starts_with(prefix.text) && rest.substr(prefix.text.size()) == base) {
      return prefix.binary > 1 ? value * prefix.binary : scaled(number, prefix.exponent);
    }
  }
  return std::nullopt;
}

std::string format_quantity(double value, Unit unit) {
  if (!has_dimension(unit)) return fmt::format("{}", value);
  return fmt::format("{} {}", value, symbol(unit));
}

namespace {

struct ShownPrefix {
  std::string_view text;
  double factor;
};
constexpr std::array<ShownPrefix, 5> kShownBinary{
    {{"Ti", 1099511627776.0}, {"Gi", 1073741824.0}, {"Mi", 1048576.0}, {"Ki", 1024.0}, {"", 1.0}}};
constexpr std::array<ShownPrefix, 10> kShownDecimal{{{"P", 1e15},
                                                     {"T", 1e12},
                                                     {"G", 1e9},
                                                     {"M", 1e6},
                                                     {"k", 1e3},
                                                     {"", 1.0},
                                                     {"m", 1e-3},
                                                     {"u", 1e-6},
                                                     {"n", 1e-9},
                                                     {"p", 1e-12}}};

/// "812", "12345", "123.5 k", "1.2 M".
std::string humanise_count(double value) {
  constexpr double kFour = 1e4, kLongest = 1e5;  // digits that {:.4g} shows, and what people still read one by one
  const double magnitude = std::fabs(value);
  if (magnitude < kFour) return fmt::format("{:.4g}", value);
  if (magnitude < kLongest) return fmt::format("{:.0f}", value);
  for (const auto& [prefix, factor] : kShownDecimal)
    if (magnitude >= factor * 0.99999) return fmt::format("{:.4g} {}", value / factor, prefix);
  return fmt::format("{:.4g}", value);  // not a number
}

}  // namespace

std::string humanise(double value, Unit unit) {
  if (!has_dimension(unit)) return humanise_count(value);
  if (unit == Unit::per_s) {
    std::string text = humanise_count(value);
    return text + (text.find(' ') == std::string::npos ? " 1/s" : "/s");  // "2.5 1/s", "1.2 M/s"
  }
  const double magnitude = std::fabs(value);
  if (unit == Unit::bytes) {
    for (const auto& [prefix, factor] : kShownBinary)
      if (magnitude >= factor) return fmt::format("{:.4g} {}B", value / factor, prefix);
  }
  for (const auto& [prefix, factor] : kShownDecimal) {
    if (unit == Unit::seconds && factor > 1) continue;  // 851.6 s, not 0.85 ks
    if (magnitude >= factor * 0.99999) return fmt::format("{:.4g} {}{}", value / factor, prefix, symbol(unit));
  }
  return fmt::format("{:.4g} {}", value, symbol(unit));
}

Unit unit_of_symbol(std::string_view text) {
  const auto found =
      std::ranges::find_if(kUnits, [&](const UnitInfo& one) { return has_dimension(one.unit) && one.symbol == text; });
  return found == kUnits.end() ? Unit::none : found->unit;
}

Unit unit_of_figure(std::string_view path) {
  // The longer endings first. A share or a count has none, whatever stands before it.
  constexpr std::array<std::pair<std::string_view, Unit>, 8> kEndings{{{"_bytes_per_s", Unit::bytes_per_s},
                                                                       {"_flops_per_s", Unit::flop_per_s},
                                                                       {"_per_s", Unit::none},
                                                                       {"_bytes", Unit::bytes},
                                                                       {"_hz", Unit::hertz},
                                                                       {"_s", Unit::seconds},
                                                                       {"_j", Unit::joules},
                                                                       {"_w", Unit::watts}}};
  constexpr std::array<std::string_view, 4> kBare{"count", "ratio", "share", "fragmentation"};
  for (bool last = true; !path.empty(); last = false) {
    const std::size_t dot = path.rfind('.');
    const std::string_view piece = dot == std::string_view::npos ? path : path.substr(dot + 1);
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
    if (last && std::ranges::any_of(kBare, [&](std::string_view bare) { return piece.ends_with(bare); }))
      return Unit::none;
    for (const auto& [ending, unit] : kEndings)
      if (piece.ends_with(ending)) return unit;
    if (piece == "bytes" || piece.starts_with("bytes_")) return Unit::bytes;
  }
  return Unit::none;
}

Duration TickScale::duration(double seconds) const {
  const double ticks = std::ceil(seconds * 1e12 / static_cast<double>(ps_per_tick_));
  if (!(ticks < 9.2e18)) throw_horizon(seconds, ps_per_tick_);
  return {static_cast<std::int64_t>(ticks)};
}

Time TickScale::from_ns(std::int64_t ns, double rate_scale) const {
  if (rate_scale == 1.0) {  // exact, however long the trace
    const __int128 ps = static_cast<__int128>(ns) * 1000;
    const __int128 ticks = (ps + ps_per_tick_ - 1) / ps_per_tick_;
    if (ticks > static_cast<__int128>(9.2e18)) throw_horizon(static_cast<double>(ns) * 1e-9, ps_per_tick_);
    return {static_cast<std::int64_t>(ticks)};
  }
  return Time{0} + duration(static_cast<double>(ns) / rate_scale * 1e-9);
}

}  // namespace orrery::sim
