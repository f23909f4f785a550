// A thin owner of SQLite handles: statements prepared once, errors as exceptions that say what happened to the file.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace orrery::experiments::study {

/// A value of a column.
using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;

/// A number that is NaN is not there.
Cell number_cell(double value);
/// NaN for what is not a number.
double number_of(const Cell& cell);
/// As CSV and tables show it; empty for nothing.
std::string text_of(const Cell& cell);

/// A store that cannot be read or written: no room, no right, no database.
class StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Statement {
 public:
  Statement() = default;
  Statement(sqlite3* database, std::string_view sql);

  Statement& bind(int column, const Cell& value);  ///< columns of parameters count from 1
  /// Takes a step; true if there is a row to read.
  bool step();
  /// To the start again, parameters forgotten.
  void reset();
  /// One step of a statement without rows, then reset.
  void run();

  int columns() const { return sqlite3_column_count(statement_.get()); }
  std::string name(int column) const { return sqlite3_column_name(statement_.get(), column); }
  Cell cell(int column) const;  ///< columns of results count from 0
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string text(int column) const;

 private:
  struct Finalise {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  sqlite3* database_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalise> statement_;
};

class Database {
 public:
  /// Throws StoreError.
  Database(const std::filesystem::path& file, bool writable);
  void execute(const std::string& sql);
  Statement prepare(std::string_view sql) { return {handle_.get(), sql}; }

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
};

/// A name as SQL quotes it.
std::string sql_name(std::string_view name);

}  // namespace orrery::experiments::study
