#include "experiments/study/rows.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <bit>
#include <cmath>

#include "sim/base/fault.hpp"

namespace orrery::experiments::study {
namespace {

constexpr std::array<std::string_view, 6> kTables{"facts", "columns", "inputs", "runs", "points", "point_runs"};
constexpr int kMostTold = 5;

void add_bytes(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

/// A column of type REAL makes doubles of integers: the two are one where a double holds the integer.
void add_cell(std::string& bytes, const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) {
    bytes.push_back('t');
    add_bytes(bytes, text->size(), 4);
    bytes += *text;
    return;
  }
  const auto* integer = std::get_if<std::int64_t>(&cell);
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (integer != nullptr && (*integer > kExact || *integer < -kExact)) {
    bytes.push_back('i');
    add_bytes(bytes, static_cast<std::uint64_t>(*integer), 8);
  } else if (const double number = number_of(cell); std::isnan(number)) {
    bytes.push_back('n');
  } else {
    bytes.push_back('d');
    add_bytes(bytes, std::bit_cast<std::uint64_t>(number == 0 ? 0.0 : number), 8);
  }
}

std::int64_t count_of(Database& database, std::string_view table) {
  Statement count = database.prepare(fmt::format("SELECT count(*) FROM {}", table));
  (void)count.step();
  return count.integer(0);
}

class Checker {
 public:
  Checker(Database& database, const std::filesystem::path& file) : database_(database), file_(file) {}

  void table(std::string_view name) {
    Statement rows = database_.prepare(fmt::format("SELECT * FROM {}", name));
    const int columns = rows.columns() - 1;
    if (columns < 1 || rows.name(columns) != "checksum") return add(fmt::format("{} have no checksums", name));
    std::vector<Cell> cells(static_cast<std::size_t>(columns));
    for (std::int64_t number = 1; rows.step(); ++number) {
      for (int i = 0; i < columns; ++i) cells[static_cast<std::size_t>(i)] = rows.cell(i);
      if (rows.cell(columns) != Cell(row_checksum(name, cells)))
        add(fmt::format("row {} of {}, '{}', is not what was written: its checksum differs", number, name,
                        text_of(cells.front())));
      else if (name == "points" && rows.integer(0) != number)
        return add(fmt::format("point {} is missing", number));  // all that follow have another number
    }
  }

  void counts(const std::string& counted) {
    if (const std::string found = row_counts(database_); !counted.empty() && found != counted)
      add(fmt::format("expected {}, found {}", counted, found));
  }

  void throw_if_any() const {
    if (found_ == 0) return;
    throw sim::ConfigError(faults_);
  }

 private:
  void add(const std::string& message) {
    if (++found_ <= kMostTold)
      faults_.push_back({{file_.string(), ""}, message, "put a copy back, or --force to begin anew"});
  }

  Database& database_;
  const std::filesystem::path& file_;
  std::vector<sim::Fault> faults_;
  int found_ = 0;
};

}  // namespace

std::int64_t row_checksum(std::string_view table, std::span<const Cell> cells) {
  std::string bytes(table);
  bytes.push_back('\0');
  for (const Cell& cell : cells) add_cell(bytes, cell);
  return static_cast<std::int64_t>(crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

RowWriter::RowWriter(Database& database, std::string table, std::string_view verb) : table_(std::move(table)) {
  columns_ = static_cast<std::size_t>(database.prepare(fmt::format("SELECT * FROM {}", table_)).columns() - 1);
  std::string places;
  for (std::size_t i = 1; i <= columns_ + 1; ++i) places += fmt::format("{}?{}", i == 1 ? "" : ", ", i);
  insert_ = database.prepare(fmt::format("{} INTO {} VALUES({})", verb, table_, places));
}

void RowWriter::write(std::span<const Cell> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) insert_.bind(static_cast<int>(i + 1), cells[i]);
  insert_.bind(static_cast<int>(columns_ + 1), row_checksum(table_, cells));
  insert_.run();
}

std::string row_counts(Database& database) {
  return fmt::format("{} points, {} runs, {} inputs", count_of(database, "points"), count_of(database, "runs"),
                     count_of(database, "inputs"));
}

void check_rows(Database& database, const std::filesystem::path& file, const std::string& counted) {
  Checker checker(database, file);
  for (const std::string_view table : kTables) checker.table(table);
  checker.counts(counted);
  checker.throw_if_any();
}

}  // namespace orrery::experiments::study
