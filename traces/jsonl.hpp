// Traces with one JSON object a line: keys in any order, unknown ones ignored.
#pragma once

#include <memory>
#include <string_view>

#include "traces/file_trace.hpp"

namespace orrery::traces {

/// What a JSONL format calls its keys. A name may be several, "a|b".
struct JsonlFormat {
  std::string_view arrival;
  int arrival_shift = 9;  ///< power of ten from its unit to nanoseconds: 9 for seconds, 6 for milliseconds
  std::string_view prompt;
  std::string_view output;
  std::string_view session = {};  ///< optional key (string or whole number); empty: the format has none
  std::string_view prefix = {};   ///< optional key, an array of whole numbers
  bool extras = false;            ///< optional keys priority, tenant, predicted_tokens
  bool any_order = false;         ///< lines need not stand by arrival; they count from the earliest
};

/// True if `line` begins an object that has the key.
bool has_key(std::string_view line, std::string_view key);

/// Parser of a JSONL format.
std::unique_ptr<LineParser> make_jsonl_parser(const JsonlFormat& format);

}  // namespace orrery::traces
