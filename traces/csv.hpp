// Traces in comma-separated tables: columns are found by the names in the first line, never by position, and columns
// that no field asks for are ignored. A field may stand in double quotes (with "" for a quote), but not span lines.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/file_trace.hpp"

namespace orrery::traces {

/// Splits a line into at most `out.size()` fields, without the quotes around them; returns how many fields the line
/// has.
std::size_t split_csv(std::string_view line, std::vector<std::string_view>& out);
/// True if `line` is a header with all of these columns.
bool has_columns(std::string_view line, std::initializer_list<std::string_view> names);

/// What a CSV format calls its columns, and what it means by them. A name may be several, "a|b": the first that is
/// there counts.
struct CsvFormat {
  enum class Clock : std::uint8_t { seconds, utc };
  std::string_view arrival;
  Clock clock = Clock::seconds;
  bool arrival_optional = false;
  std::string_view prompt;
  std::string_view output;
  std::string_view session = {};       ///< optional column; empty: the format has none
  bool extras = false;                 ///< optional columns prefix_blocks ("7 8 9"), priority, tenant, predicted_tokens
  bool zero_output_is_failed = false;  ///< rows without output are failed requests, to be skipped and counted
  bool zero_output_is_sent = false;    ///< or take one token, where there was a prompt
  bool from_first = false;             ///< seconds count from the earliest record
  bool any_order = false;              ///< rows need not stand by arrival
};

/// Parser of a CSV format.
std::unique_ptr<LineParser> make_csv_parser(const CsvFormat& format);

}  // namespace orrery::traces
