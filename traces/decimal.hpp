// Exact numbers from text: decimal seconds to whole nanoseconds, token counts, calendar times.
//
// A time goes from its digits to an integer without a double in between, so that "0.1" is 100,000,000 ns and two
// readings of a file never differ. Digits past the nanosecond round half up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orrery::traces {

/// `text` without spaces and tabs at its ends.
std::string_view trim(std::string_view text);

/// The decimal number `text` ("12", "-0.5", "1.5e-05") times 10^shift, rounded half up in magnitude. Nothing if the
/// text is no such number (empty, "nan", "inf", other characters) or the result does not fit 64 bits.
std::optional<std::int64_t> parse_decimal(std::string_view text, int shift);

/// A whole number: "374", "-1", or "374.0" as data frames write it. Nothing for "374.5" or anything else.
std::optional<std::int64_t> parse_whole(std::string_view text);

/// Nanoseconds since 1970 of "2023-11-16 18:15:46.6805900" ('T' between date and time, and a final "Z" or "+00:00", are
/// fine too). Nothing if it is no such text, no real date (years 1700 to 2200), or another time zone.
std::optional<std::int64_t> parse_utc(std::string_view text);

/// Writes nanoseconds as decimal seconds without loss: "8.629158", "0", "-0.5".
std::string format_seconds(std::int64_t ns);

/// `text` in quotes for a message, cut if it is long.
std::string quoted(std::string_view text);

}  // namespace orrery::traces
