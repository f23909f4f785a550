// What stores say: the best points of one or several, and all of them as tables.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "experiments/study/store.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments::study {

/// A store that is only read; another process may be writing it.
class StoreReader {
 public:
  /// Reads every row once. Throws sim::ConfigError for a file that is no store, or a damaged one.
  explicit StoreReader(const std::filesystem::path& file);

  const std::filesystem::path& file() const { return file_; }
  const std::string& study() const { return study_; }
  /// What the store says of itself (store.hpp): "mode", "document" …; empty if it does not.
  std::string fact(std::string_view name);
  const std::vector<Column>& columns() const { return columns_; }
  bool complete() const { return complete_; }
  /// Every point in order.
  void for_each(const std::function<void(const PointRow&)>& visit);
  /// Every run with its key.
  void for_each_run(const std::function<void(const std::string& key, RunResult)>& visit);

 private:
  std::filesystem::path file_;
  Database database_;
  std::string study_;
  std::vector<Column> columns_;
  bool complete_ = false;
};

/// A point that is among the best, with the store it is in.
struct BestPoint {
  std::size_t store = 0;
  PointRow row;
  std::vector<double> objectives;  ///< all to be minimised
};

struct StoreCounts {
  std::int64_t points = 0, ok = 0, infeasible = 0, failed = 0, over = 0;  ///< over: ok, but beyond a limit
  std::string first_reason;                                               ///< of the first that is not ok
};

struct BestPoints {
  std::vector<std::filesystem::path> files;
  std::vector<std::string> studies;
  std::vector<StoreCounts> counts;
  std::vector<std::vector<Column>> columns;  ///< of each store
  std::vector<Column> objectives;
  std::vector<BestPoint> points;        ///< best first; of several objectives the front, sorted by the first
  bool beyond = false;                  ///< no point meets every limit: these break them least
  std::vector<double> best_of_repeats;  ///< of one objective, as the user sees it: one a repeat and store
};

/// What people call a column: an objective by its own name.
std::string heading(const Column& column);

/// A number for people: five digits of what has no dimension, so that points that are near each other can be told
/// apart.
std::string number_text(double value, sim::Unit unit);

/// The dimension of its values: a parameter brings its own, of a measure the path says it, of an objective the measure
/// of its name (of a formula: none).
sim::Unit unit_of(const Column& column, const std::vector<Column>& columns);

/// Objectives among columns, in order.
std::vector<Column> objectives_of(const std::vector<Column>& columns);
/// Throws sim::ConfigError where a store has other objectives than the first one, of study `first`.
void check_objectives(const StoreReader& store, const std::vector<Column>& expected, const std::string& first);

/// The best points of all stores together: all that no other dominates, or the best of one objective. Throws
/// sim::ConfigError where stores have other objectives than the first.
BestPoints best_points(std::span<const std::filesystem::path> files, std::size_t most);
/// As a table for people, and as JSON.
std::string best_text(const BestPoints& best);
sim::Node best_json(const BestPoints& best);

/// Rows as aligned columns, headings first.
std::string table_text(const std::vector<std::vector<std::string>>& rows);
/// Median, or "median (lower … upper quartile)" of several values; "-" of none.
std::string spread_text(std::vector<double> values, sim::Unit unit = sim::Unit::none);

/// All points of all stores, the columns of all side by side; what a store does not have stays empty.
void export_csv(std::span<const std::filesystem::path> files, std::ostream& out);
void export_jsonl(std::span<const std::filesystem::path> files, std::ostream& out);

}  // namespace orrery::experiments::study
