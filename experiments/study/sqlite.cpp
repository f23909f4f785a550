#include "experiments/study/sqlite.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace orrery::experiments::study {
namespace {

constexpr int kPatience = 3000;  ///< ms to wait for another program that has the file open

[[noreturn]] void fail(sqlite3* database) {
  const char* file = sqlite3_db_filename(database, "main");
  const int code = sqlite3_errcode(database);
  const bool room = code == SQLITE_FULL || code == SQLITE_IOERR;
  const char* hint = room                  ? " (is the disk full? What was committed before is whole)"
                     : code == SQLITE_BUSY ? " (another program has it open)"
                                           : "";
  throw StoreError(fmt::format("{}: {}{}", file != nullptr ? file : "", sqlite3_errmsg(database), hint));
}

}  // namespace

Cell number_cell(double value) {
  return std::isnan(value) ? Cell{} : Cell{value};
}

double number_of(const Cell& cell) {
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return static_cast<double>(*integer);
  return std::numeric_limits<double>::quiet_NaN();
}

std::string text_of(const Cell& cell) {
  if (const auto* real = std::get_if<double>(&cell)) return fmt::format("{}", *real);
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *integer);
  const auto* text = std::get_if<std::string>(&cell);
  return text != nullptr ? *text : "";
}

std::string sql_name(std::string_view name) {
  return fmt::format("\"{}\"", name);  // names of formulas: no quotes in them
}

Statement::Statement(sqlite3* database, std::string_view sql) : database_(database) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement,
                         nullptr) != SQLITE_OK)
    fail(database);
  statement_.reset(statement);
}

Statement& Statement::bind(int column, const Cell& value) {
  sqlite3_stmt* s = statement_.get();
  int code = SQLITE_OK;
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    code = sqlite3_bind_int64(s, column, *integer);
  else if (const auto* real = std::get_if<double>(&value))
    code = sqlite3_bind_double(s, column, *real);
  else if (const auto* text = std::get_if<std::string>(&value))
    code = sqlite3_bind_text(s, column, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
  else
    code = sqlite3_bind_null(s, column);
  if (code != SQLITE_OK) fail(database_);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  fail(database_);
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

void Statement::run() {
  (void)step();
  reset();
}

Cell Statement::cell(int column) const {
  switch (sqlite3_column_type(statement_.get(), column)) {
    case SQLITE_INTEGER:
      return integer(column);
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement_.get(), column);
    case SQLITE_TEXT:
      return text(column);
    default:
      return {};
  }
}

std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return text == nullptr ? ""
                         : std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

Database::Database(const std::filesystem::path& file, bool writable) {
  sqlite3* handle = nullptr;
  const int flags =
      (writable ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(file.c_str(), &handle, flags, nullptr);
  handle_.reset(handle);
  if (code != SQLITE_OK)
    throw StoreError(fmt::format("{}: {}", file.string(), handle != nullptr ? sqlite3_errmsg(handle) : "no memory"));
  sqlite3_extended_result_codes(handle, 0);
  sqlite3_busy_timeout(handle, kPatience);
  // A quoted name that no column has is a fault, not a text: the name in a damaged schema may have changed.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
}

void Database::execute(const std::string& sql) {
  if (sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail(handle_.get());
}

}  // namespace orrery::experiments::study
