// What the terminal can show: its width, and whether it takes colours.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace orrery::tools {

/// Columns of the terminal on stdout (COLUMNS goes before it); nothing where stdout is a file or a pipe.
std::optional<std::size_t> terminal_width();
/// Whether text on a stream may have colours: it is a terminal, NO_COLOR is not set (no-color.org), TERM is not "dumb".
bool takes_colour(std::FILE* stream);

/// A table for people with the first words of its lines set off, and what is wrong in colour.
std::string coloured_table(const std::string& table);
/// "file:/place: message (hint)" with the place set off.
std::string coloured_fault(const std::string& fault);

/// A column of a table.
struct Column {
  std::string head;
  bool to_left = false;  ///< texts; numbers stand to the right
  int leaves = 0;        ///< where there is no room, columns of the highest number go first; 0: never
};

/// Rows of as many cells as there are columns; a row with fewer ends in a text of any length.
class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// The lines, two blanks between columns. Where `width` is given, columns are left out until they fit; a last line
  /// says which.
  std::string text(std::optional<std::size_t> width) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace orrery::tools
