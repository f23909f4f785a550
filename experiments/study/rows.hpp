// Rows with a checksum: what is read from a store is what was written, or it is told.
//
// The last column of every table is the CRC-32 of its name, a zero byte and the cells before: for each a letter and
// its value, little-endian: n nothing; d a number, as a double; i an integer that no double holds, 8 bytes; t a text,
// its length in 4 bytes and its UTF-8. SQLite notices a damaged page only where its structure breaks.
#pragma once

#include <span>

#include "experiments/study/sqlite.hpp"

namespace orrery::experiments::study {

std::int64_t row_checksum(std::string_view table, std::span<const Cell> cells);

/// Writes rows of a table, each with its checksum.
class RowWriter {
 public:
  RowWriter() = default;
  /// `verb`: what becomes of a row that is there: INSERT (StoreError), INSERT OR IGNORE, INSERT OR REPLACE.
  RowWriter(Database& database, std::string table, std::string_view verb = "INSERT");
  void write(std::span<const Cell> cells);

 private:
  std::string table_;
  std::size_t columns_ = 0;  ///< without the checksum
  Statement insert_;
};

/// "9 points, 3 runs, 1 inputs": what a complete store says that it has.
std::string row_counts(Database& database);

/// Reads every row. Throws sim::ConfigError that names damaged ones, points that are missing, and what `counted`
/// (empty: unknown) has and the tables have not.
void check_rows(Database& database, const std::filesystem::path& file, const std::string& counted);

}  // namespace orrery::experiments::study
