// Units: the dimensions that a parameter can have and how they are written in JSON ("80 GiB", "3.35 TB/s", "15 us").
// And the two integer types of the engine, Time and Duration, in ticks.
//
// A quantity in a config is a string of number and unit. Bare numbers are accepted only where there is no dimension
// (counts, ratios). Prefixes are decimal (k, M, G, T, P; m, u, n, p) or binary (Ki, Mi, Gi, Ti). Inside the program
// every quantity is in SI units (bytes, seconds, bytes/s, FLOP/s, W, J, Hz).
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace orrery::sim {

/// Dimension of a parameter. Those of the first group take bare numbers and differ for the reader alone.
enum class Unit : std::uint8_t {
  none,
  ratio,
  count,
  tokens,
  requests,
  sequences,
  blocks,
  iterations,
  layers,  // bare numbers
  bytes,
  seconds,
  bytes_per_s,
  flop_per_s,
  watts,
  joules,
  hertz,
  per_s,  // number and unit
  text,
  path,
  reference,  // strings; a path resolves against its file, a reference is a name of the catalog or a path
};

/// True where JSON must give a string with a unit.
bool has_dimension(Unit unit);
/// Short name of the unit for docs and messages: "bytes", "s", "B/s", "tokens" … (empty for none).
std::string_view symbol(Unit unit);
/// An example of how a value is written, for messages: "80 GiB".
std::string_view example(Unit unit);
/// The dimension of a symbol: "B/s" is bytes_per_s; none for a text that is no symbol of one.
Unit unit_of_symbol(std::string_view text);
/// The dimension that the name of a figure says, a dotted path or a column: "ttft_s.p99" is seconds, "memory_bytes.peak"
/// bytes, "bandwidth_bytes_per_s" bytes_per_s; none where it says none.
Unit unit_of_figure(std::string_view path);

/// Parses "1.5 us" as a quantity of `unit`, in SI. Nothing if the text is not a number with a unit of that dimension.
std::optional<double> parse_quantity(std::string_view text, Unit unit);
/// Writes an SI value so that parse_quantity gives it back exactly: "1.5e-06 s". Dimensionless: the number alone.
std::string format_quantity(double value, Unit unit);
/// Writes a value for people, with a prefix and four digits: "1.5 us", "74.5 GiB".
std::string humanise(double value, Unit unit);

/// A span of simulated time in ticks.
struct Duration {
  std::int64_t ticks = 0;
  friend constexpr auto operator<=>(Duration, Duration) = default;
  constexpr Duration& operator+=(Duration other) {
    ticks += other.ticks;
    return *this;
  }
  friend constexpr Duration operator+(Duration a, Duration b) { return {a.ticks + b.ticks}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return {a.ticks - b.ticks}; }
  friend constexpr Duration operator*(Duration a, std::int64_t n) { return {a.ticks * n}; }
};

/// A point of simulated time, in ticks since the start of the run.
struct Time {
  std::int64_t ticks = 0;
  friend constexpr auto operator<=>(Time, Time) = default;
  friend constexpr Time operator+(Time t, Duration d) { return {t.ticks + d.ticks}; }
  friend constexpr Time operator-(Time t, Duration d) { return {t.ticks - d.ticks}; }
  friend constexpr Duration operator-(Time a, Time b) { return {a.ticks - b.ticks}; }
};

/// A time that never comes.
inline constexpr Time kNever{std::numeric_limits<std::int64_t>::max()};

/// Length of a tick, and the only place where seconds become ticks (rounded up, so that no work is free).
class TickScale {
 public:
  /// `ps_per_tick` >= 1: 1 is a picosecond, 1000 a nanosecond.
  explicit TickScale(std::int64_t ps_per_tick = 1) : ps_per_tick_(ps_per_tick) {}
  std::int64_t ps_per_tick() const { return ps_per_tick_; }
  /// Seconds to ticks, rounded up. Throws std::overflow_error that names the coarser tick to set.
  Duration duration(double seconds) const;
  /// Nanoseconds (exact integers, as traces hold them) divided by `rate_scale`, to ticks, rounded up; errors as above.
  Time from_ns(std::int64_t ns, double rate_scale = 1.0) const;
  double seconds(Duration d) const { return static_cast<double>(d.ticks) * 1e-12 * static_cast<double>(ps_per_tick_); }
  double seconds(Time t) const { return seconds(Duration{t.ticks}); }
  /// Seconds of an exact 128-bit sum of ticks.
  double seconds_of_sum(__int128 ticks) const {
    return static_cast<double>(ticks) * 1e-12 * static_cast<double>(ps_per_tick_);
  }

 private:
  std::int64_t ps_per_tick_;
};

}  // namespace orrery::sim
