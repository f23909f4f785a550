#include "experiments/study/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "sim/base/fault.hpp"

namespace orrery::experiments::study {
namespace {

namespace fs = std::filesystem;
using search::TrialStatus;

constexpr auto kCommitAfter = std::chrono::milliseconds(200);
constexpr std::int64_t kCommitRows = 20'000;

/// Holds the file against a second writer; goes with the process, however that ends.
int lock_file(const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error) && !fs::is_regular_file(file, error))
    sim::throw_fault({file.string(), ""}, "expected a place for a store: a file or nothing, found something else");
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), error);
  const int lock = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock < 0)
    sim::throw_fault({file.string(), ""},
                     fmt::format("expected a place that can be written: {}", std::strerror(errno)));
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock);
    sim::throw_fault({file.string(), ""}, "another process writes this store", "wait for it, or give another --out");
  }
  return lock;
}

/// Nothing in the place of an empty text.
Cell text_cell(const std::string& text) {
  return text.empty() ? Cell() : Cell(text);
}

std::string format_name(int format) {
  return fmt::format("orrery study {}", format);
}

std::string type_of(const std::string& kind) {
  return kind == "parameter" || kind == "derived" ? "" : " REAL";  // a categorical's column holds texts
}

}  // namespace

int store_format(Database& database, const fs::path& file) {
  Statement tables = database.prepare("SELECT count(*) FROM sqlite_master WHERE name = 'facts'");
  (void)tables.step();
  std::string found;
  if (tables.integer(0) > 0) {
    Statement read = database.prepare("SELECT value FROM facts WHERE name = 'format'");
    if (read.step()) found = read.text(0);
  }
  for (int format = 1; format <= kStoreFormat; ++format)
    if (found == format_name(format)) return format;
  if (found.starts_with("orrery study "))
    sim::throw_fault({file.string(), ""},
                     fmt::format("expected a store of format 1 to {}, found '{}'", kStoreFormat, found),
                     "a later orrery wrote it: read it with that one");
  sim::throw_fault({file.string(), ""}, "expected a store of orrery, found something else");
}

TrialStatus status_of(std::string_view text) {
  return sim::value_named<TrialStatus>(text).value_or(TrialStatus::failed);
}

Store::Store(const fs::path& file, const StoreFacts& facts, bool any_build)
    : file_(file), lock_(lock_file(file)), last_(std::chrono::steady_clock::now()) {
  try {
    database_.emplace(file, true);
    Statement tables = database_->prepare("SELECT count(*) FROM sqlite_master");
    (void)tables.step();
    fresh_ = tables.integer(0) == 0;
    tables.reset();
    if (!fresh_) check(facts, any_build);  // first: what is refused stays as it is, to the byte
    database_->execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY");
    if (fresh_) create(facts);
    prepare(facts);
  } catch (const StoreError& error) {
    const bool other = std::string_view(error.what()).find("not a database") != std::string_view::npos;
    database_.reset();
    ::close(lock_);
    if (other) sim::throw_fault({file.string(), ""}, "expected a store of orrery, found something else");
    throw;
  } catch (...) {
    database_.reset();
    ::close(lock_);
    throw;
  }
}

Store::~Store() {
  // What was not committed is dropped: after an error half of a point may be in it.
  for (Statement* statement : {&find_run_, &get_point_}) *statement = Statement();
  for (RowWriter* writer : {&facts_, &inputs_, &runs_, &points_table_, &point_runs_}) *writer = RowWriter();
  database_.reset();  // before the lock: closing a file drops SQLite's own locks on it
  ::close(lock_);
}

void Store::remove(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return;
  const int lock = lock_file(file);
  try {
    Database database(file, false);
    Statement tables = database.prepare("SELECT count(*), coalesce(sum(name = 'facts'), 0) FROM sqlite_master");
    // One without tables was killed as it began.
    if (tables.step() && tables.integer(0) > 0 && tables.integer(1) == 0) throw StoreError("no store");
  } catch (const StoreError&) {
    ::close(lock);
    sim::throw_fault({file.string(), ""}, "expected a store of orrery, found something else");
  }
  for (const char* end : {"", "-wal", "-shm"}) fs::remove(file.string() + end, ignored);
  ::close(lock);
}

void Store::create(const StoreFacts& facts) {
  std::string measures, columns;
  for (const Column& column : facts.columns) {
    const std::string text = fmt::format(", {}{}", sql_name(column.name), type_of(column.kind));
    columns += text;
    if (column.kind == "measure") measures += text;
  }
  database_->execute(fmt::format(
      "BEGIN;"
      "CREATE TABLE facts(name TEXT PRIMARY KEY, value TEXT, checksum INTEGER) WITHOUT ROWID;"
      "CREATE TABLE columns(place INTEGER PRIMARY KEY, name TEXT, kind TEXT, detail TEXT, checksum INTEGER);"
      "CREATE TABLE inputs(path TEXT PRIMARY KEY, digest TEXT, checksum INTEGER) WITHOUT ROWID;"
      "CREATE TABLE runs(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, status TEXT, reason TEXT{}, checksum "
      "INTEGER);"
      "CREATE TABLE points(id INTEGER PRIMARY KEY, repeat INTEGER, key TEXT, fidelity REAL, status TEXT, reason TEXT, "
      "violation REAL{}, checksum INTEGER);"
      "CREATE TABLE point_runs(point INTEGER, place INTEGER, run INTEGER, checksum INTEGER, PRIMARY KEY(point, place)) "
      "WITHOUT ROWID",
      measures, columns));
  open_ = true;
  facts_ = RowWriter(*database_, "facts", "INSERT OR REPLACE");
  set_fact("format", format_name(kStoreFormat));
  set_fact("study", facts.study);
  set_fact("mode", facts.mode);
  set_fact("hash", facts.hash);
  set_fact("version", facts.version);
  set_fact("build", facts.build);
  set_fact("document", facts.document);
  if (!facts.source.empty()) {
    std::error_code ignored;
    const fs::path source = fs::proximate(fs::absolute(facts.source), fs::absolute(file_).parent_path(), ignored);
    if (!ignored) set_fact("source", source.generic_string());
  }
  if (!facts.set.empty()) set_fact("set", facts.set);
  if (!facts.from.empty()) set_fact("from", facts.from);
  RowWriter add(*database_, "columns");
  for (std::size_t i = 0; i < facts.columns.size(); ++i) {
    const Column& column = facts.columns[i];
    add.write(std::array<Cell, 4>{static_cast<std::int64_t>(i), column.name, column.kind, column.detail});
  }
  commit();
}

void Store::check(const StoreFacts& facts, bool any_build) {
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    sim::throw_fault({file_.string(), ""}, message, hint);
  };
  if (const int format = store_format(*database_, file_); format < kStoreFormat)
    refuse(
        fmt::format("the store has format {}, of an earlier orrery; this one writes format {}", format, kStoreFormat),
        "`orrery export` reads it; give another --out, or --force to begin anew");
  if (fact("study") != facts.study || fact("mode") != facts.mode)
    refuse(fmt::format("the store is of the {} '{}', not of the {} '{}'", fact("mode").value_or("?"),
                       fact("study").value_or("?"), facts.mode, facts.study),
           "give another --out, or --force to replace it");
  if (fact("hash") != facts.hash)
    refuse(fmt::format("the store is of another version of '{}': the study has changed since", facts.study),
           "give another --out, or --force to replace it");
  if (const std::string from = fact("from").value_or(""); from != facts.from)
    refuse(fmt::format("the store was begun with {} of other stores, not with {}", from.empty() ? "nothing" : from,
                       facts.from.empty() ? "nothing" : facts.from),
           "the same --from goes on with it; give another --out, or --force to replace it");
  if (!any_build && (fact("version") != facts.version || fact("build") != facts.build))
    refuse("the store was begun by another build of orrery, whose results may differ",
           "--any-build goes on all the same, --force replaces it");
  complete_ = fact("complete").has_value();
  check_rows(*database_, file_, fact("rows").value_or(""));
}

void Store::prepare(const StoreFacts& facts) {
  columns_ = facts.columns.size();
  std::string names, measures;
  for (const Column& column : facts.columns) {
    names += ", " + sql_name(column.name);
    if (column.kind != "measure") continue;
    measures += ", " + sql_name(column.name);
    ++measures_;
  }
  find_run_ = database_->prepare(fmt::format("SELECT id, status, reason{} FROM runs WHERE key = ?1", measures));
  get_point_ = database_->prepare(
      fmt::format("SELECT id, repeat, key, fidelity, status, reason, violation{} FROM points WHERE id = ?1", names));
  facts_ = RowWriter(*database_, "facts", "INSERT OR REPLACE");
  inputs_ = RowWriter(*database_, "inputs", "INSERT OR IGNORE");
  runs_ = RowWriter(*database_, "runs");
  points_table_ = RowWriter(*database_, "points");
  point_runs_ = RowWriter(*database_, "point_runs");
  Statement count = database_->prepare("SELECT coalesce(max(id), 0) FROM points");
  (void)count.step();
  points_ = count.integer(0);
  Statement last = database_->prepare("SELECT coalesce(max(run), 0) FROM point_runs");
  (void)last.step();
  next_run_ = last.integer(0) + 1;
}

std::optional<std::pair<std::int64_t, RunResult>> Store::find_run(const std::string& key) {
  find_run_.bind(1, key);
  std::optional<std::pair<std::int64_t, RunResult>> found;
  if (find_run_.step()) {
    found.emplace(find_run_.integer(0), RunResult{status_of(find_run_.text(1)), find_run_.text(2), {}});
    for (std::size_t i = 0; i < measures_; ++i)
      found->second.figures.push_back(number_of(find_run_.cell(static_cast<int>(3 + i))));
  }
  find_run_.reset();
  return found;
}

void Store::add_run(std::int64_t id, const std::string& key, const RunResult& result) {
  begin();
  std::vector<Cell> cells{id, key, std::string(sim::to_string(result.status)), text_cell(result.reason)};
  for (const double figure : result.figures) cells.push_back(number_cell(figure));
  runs_.write(cells);
  ++rows_;
}

void Store::add_point(const PointRow& row) {
  begin();
  std::vector<Cell> cells{row.id,
                          row.repeat,
                          text_cell(row.key),
                          row.fidelity,
                          std::string(sim::to_string(row.status)),
                          text_cell(row.reason),
                          row.status == TrialStatus::ok ? Cell(row.violation) : Cell()};
  cells.insert(cells.end(), row.cells.begin(), row.cells.end());
  points_table_.write(cells);
  for (std::size_t i = 0; i < row.runs.size(); ++i)
    point_runs_.write(std::array<Cell, 3>{row.id, static_cast<std::int64_t>(i), row.runs[i]});
  points_ = row.id;
  ++rows_;
}

std::optional<PointRow> Store::point(std::int64_t id) {
  if (id > points_) return std::nullopt;
  get_point_.bind(1, id);
  std::optional<PointRow> row;
  if (get_point_.step()) {
    row = PointRow{.id = id,
                   .repeat = get_point_.integer(1),
                   .key = get_point_.text(2),
                   .fidelity = number_of(get_point_.cell(3)),
                   .status = status_of(get_point_.text(4)),
                   .reason = get_point_.text(5),
                   .violation = number_of(get_point_.cell(6))};
    for (std::size_t i = 0; i < columns_; ++i) row->cells.push_back(get_point_.cell(static_cast<int>(7 + i)));
  }
  get_point_.reset();
  return row;
}

std::map<std::string, std::string> Store::inputs() {
  std::map<std::string, std::string> all;
  Statement read = database_->prepare("SELECT path, digest FROM inputs ORDER BY path");
  while (read.step()) all.emplace(read.text(0), read.text(1));
  return all;
}

void Store::add_input(const std::string& path, const std::string& digest) {
  begin();
  inputs_.write(std::array<Cell, 2>{path, digest});
}

void Store::begin() {
  if (open_) return;
  database_->execute("BEGIN");
  open_ = true;
}

void Store::commit() {
  rows_ = 0;
  last_ = std::chrono::steady_clock::now();
  if (!open_) return;
  open_ = false;
  database_->execute("COMMIT");
}

void Store::commit_if_due() {
  if (rows_ >= kCommitRows || std::chrono::steady_clock::now() - last_ >= kCommitAfter) commit();
}

void Store::finish() {
  if (!complete_) {
    begin();
    set_fact("complete", "yes");
    set_fact("rows", row_counts(*database_));
  }
  commit();
  complete_ = true;
  try {
    // One plain file, readable from where nobody can write; a reader that is at it keeps the log a while longer.
    database_->execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE");
  } catch (const StoreError&) {
    // the log stays beside the file: all is there
  }
}

std::optional<std::string> Store::fact(std::string_view name) {
  Statement read = database_->prepare("SELECT value FROM facts WHERE name = ?1");
  read.bind(1, std::string(name));
  return read.step() ? std::optional(read.text(0)) : std::nullopt;
}

void Store::set_fact(std::string_view name, const std::string& value) {
  facts_.write(std::array<Cell, 2>{std::string(name), value});
}

}  // namespace orrery::experiments::study
