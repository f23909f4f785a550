// A table of a CSV file whose columns are found by name, never by position: measurements, mostly.
//
// Lines that start with '#' are comments; quotes keep commas together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::sim {

/// What becomes of a row with other than the header's number of cells: a fault, or left out and counted.
enum class Ragged : std::uint8_t { fault, leave_out };

/// Reading is whole; numbers of a column are parsed once, when first asked for (not from several threads at once).
class CsvTable {
 public:
  /// Reads `folder / name`. Throws sim::ConfigError where it cannot be read, has no header, or a row has other than
  /// the header's number of cells (the fault names the line) and such rows are not to be left out.
  static CsvTable read(const std::filesystem::path& folder, const std::string& name, Ragged ragged = Ragged::fault);
  /// The same from text in memory, for tests.
  static CsvTable parse(std::string_view text, const std::string& name, Ragged ragged = Ragged::fault);

  /// The rows that `keep` marks, as a table of the same name.
  CsvTable subset(const std::vector<char>& keep) const;

  const std::string& name() const { return name_; }            ///< relative path, "gemm/a100.csv"
  const std::filesystem::path& root() const { return root_; }  ///< the folder `name` counts from; empty for text
  std::string folder() const;                                  ///< "gemm"
  std::string stem() const;                                    ///< "h100_sxm": file name up to its first dot
  std::size_t rows() const { return rows_; }
  std::size_t left_out() const { return left_out_; }  ///< rows with another number of cells than the header
  bool has(std::string_view column) const { return columns_.contains(column); }
  std::vector<std::string> columns() const;  ///< names, sorted
  /// Throws sim::ConfigError for a column that is not there or a cell that is no number; other rows do not matter.
  double number(std::size_t row, std::string_view column) const;
  /// A finite number above 0.
  double positive(std::size_t row, std::string_view column) const;
  std::int64_t integer(std::size_t row, std::string_view column) const;
  /// A whole number of at least `least`: sizes, counts.
  std::int64_t count(std::size_t row, std::string_view column, std::int64_t least = 1) const;
  const std::string& text(std::size_t row, std::string_view column) const;
  /// A whole column as numbers, parsed once. Throws sim::ConfigError where any of its cells is no number.
  const std::vector<double>& numbers(std::string_view column) const;

 private:
  struct Column {
    std::vector<std::string> cells;
    mutable std::unique_ptr<std::vector<double>> numbers;  ///< NaN for a cell that is none
  };
  const Column& column(std::string_view name) const;
  static const std::vector<double>& parsed(const Column& column);
  [[noreturn]] void throw_cell(std::size_t row, std::string_view column, std::string_view expected) const;

  std::string name_;
  std::filesystem::path root_;
  std::size_t rows_ = 0, left_out_ = 0;
  std::map<std::string, Column, std::less<>> columns_;
  std::vector<std::size_t> lines_;  ///< of the file, for messages
};

}  // namespace orrery::sim
