// Cells of CSV files (RFC 4180): names come from configs and may hold anything.
#pragma once

#include <string>
#include <string_view>

namespace orrery::sim {

/// Appends a text as a cell: in quotes, with its own doubled, where it holds a comma, a quote or the end of a line.
inline void append_csv_cell(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  out += '"';
}

inline std::string csv_cell(std::string_view text) {
  std::string out;
  append_csv_cell(out, text);
  return out;
}

}  // namespace orrery::sim
