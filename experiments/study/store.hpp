// The store of a study: one SQLite file, a row a point, written by one process.
//
// Tables: `facts` (what the store is of), `columns` (what the columns of points mean), `inputs` (files that were read,
// with digests), `runs` (every distinct config once, by the hash of its resolved form), `points` (in the order of
// proposal; failed and infeasible ones too) and `point_runs` (which runs a point is made of). docs/explain/studies.md
// has the columns. Nothing in it tells of clocks, hosts or threads: equal studies give equal rows.
//
// Write-ahead log and transactions: whatever was committed is there after a kill at any moment. Runs carry the number
// of their submission, so that they may be written as they finish, in any order, and the rows come out the same.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/search/driver.hpp"
#include "experiments/study/rows.hpp"

namespace orrery::experiments::study {

/// What one run gave.
struct RunResult {
  search::TrialStatus status = search::TrialStatus::ok;
  std::string reason;
  std::vector<double> figures;  ///< a measure each; NaN: not there
};

struct Column {
  std::string name;
  std::string kind;    ///< parameter, derived, measure, objective, limit
  std::string detail;  ///< path of a measure, minimise or maximise, unit of a parameter
};

/// What the store is of.
struct StoreFacts {
  std::string study, mode;  ///< name; sweep or search
  std::string hash;         ///< of everything in the study that decides rows
  std::string version, build;
  std::string document;  ///< the study as JSON
  std::vector<Column> columns;
  std::filesystem::path source{};  ///< the study's file; the store tells the way to it from its own folder
  std::string from{};              ///< what it was told of earlier stores (earlier.hpp); empty if nothing was
  std::string set{};               ///< JSON list of what was laid over that file; empty if nothing was
};

struct PointRow {
  std::int64_t id = 0;  ///< from 1, in the order of proposal
  std::int64_t repeat = 0;
  std::string key;  ///< hash of its runs' keys; empty if a config of it was refused
  double fidelity = 1;
  search::TrialStatus status = search::TrialStatus::ok;
  std::string reason;
  double violation = 0;
  std::vector<Cell> cells;         ///< as StoreFacts::columns
  std::vector<std::int64_t> runs;  ///< of each seed
};

search::TrialStatus status_of(std::string_view text);

/// Of what is written. Format 1 had no checksums; it is still read.
inline constexpr int kStoreFormat = 2;
/// Throws sim::ConfigError for a file that is no store, or one of a later format.
int store_format(Database& database, const std::filesystem::path& file);

class Store {
 public:
  /// Opens the store of these facts, or makes it. Throws sim::ConfigError for a file that is another study's, another
  /// build's (unless `any_build`), damaged, or no store; StoreError if it cannot be written; both if another process
  /// writes it.
  Store(const std::filesystem::path& file, const StoreFacts& facts, bool any_build = false);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Removes a store and what SQLite keeps beside it; nothing where there is none. Throws sim::ConfigError for a file
  /// that is no store, or that another process writes.
  static void remove(const std::filesystem::path& file);

  bool fresh() const { return fresh_; }        ///< it was not there
  bool complete() const { return complete_; }  ///< finish() was called once
  std::int64_t points() const { return points_; }
  /// Number of the next run: 1 + the highest that a point is made of.
  std::int64_t next_run() const { return next_run_; }

  std::optional<std::pair<std::int64_t, RunResult>> find_run(const std::string& key);
  /// Throws sim::ConfigError if the number is taken by another config, which means that something it reads changed.
  void add_run(std::int64_t id, const std::string& key, const RunResult& result);
  void add_point(const PointRow& row);
  std::optional<PointRow> point(std::int64_t id);

  std::map<std::string, std::string> inputs();
  void add_input(const std::string& path, const std::string& digest);

  /// Whatever was added is there for good.
  void commit();
  /// commit(), if the last one was a while ago.
  void commit_if_due();
  /// Commits, says that the study is complete, and leaves one plain file.
  void finish();

 private:
  void create(const StoreFacts& facts);
  void check(const StoreFacts& facts, bool any_build);
  void prepare(const StoreFacts& facts);
  void begin();
  std::optional<std::string> fact(std::string_view name);
  void set_fact(std::string_view name, const std::string& value);

  std::filesystem::path file_;
  int lock_ = -1;
  std::optional<Database> database_;
  std::size_t columns_ = 0, measures_ = 0;
  Statement find_run_, get_point_;
  RowWriter facts_, inputs_, runs_, points_table_, point_runs_;
  bool fresh_ = false, complete_ = false, open_ = false;
  std::int64_t points_ = 0, next_run_ = 1;
  std::int64_t rows_ = 0;  ///< since the last commit
  std::chrono::steady_clock::time_point last_;
};

}  // namespace orrery::experiments::study
