#include "experiments/study/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/fault.hpp"

namespace orrery::experiments::study {
namespace {

namespace fs = std::filesystem;
using search::TrialStatus;

Database open_store(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error))
    sim::throw_fault({file.string(), ""}, "expected a store of orrery, found none");
  return {file, false};
}

/// Points no other of which dominates, after a sort in which whoever dominates comes first: of two objectives
/// O(points), since the last kept has the least second one; of more O(points x front).
void keep_front(std::vector<BestPoint>& points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const BestPoint& a, const BestPoint& b) { return a.objectives < b.objectives; });
  std::vector<BestPoint> front;
  for (BestPoint& point : points) {
    const auto beats = [&](const BestPoint& other) {
      bool better = false;
      for (std::size_t i = 0; i < point.objectives.size(); ++i) {
        if (other.objectives[i] > point.objectives[i]) return false;
        better = better || other.objectives[i] < point.objectives[i];
      }
      return better;
    };
    const bool last_alone = point.objectives.size() == 2 && !front.empty();
    if (std::none_of(last_alone ? std::prev(front.end()) : front.begin(), front.end(), beats))
      front.push_back(std::move(point));
  }
  points = std::move(front);
}

/// Takes in the points of one store.
class Collector {
 public:
  Collector(BestPoints& best, std::vector<BestPoint>& meeting, std::vector<BestPoint>& breaking)
      : best_(best), meeting_(meeting), breaking_(breaking) {}

  void add(StoreReader& store) {
    const std::size_t index = best_.files.size();
    if (best_.files.empty()) best_.objectives = objectives_of(store.columns());
    check_objectives(store, best_.objectives, best_.studies.empty() ? store.study() : best_.studies.front());
    best_.files.push_back(store.file());
    best_.studies.push_back(store.study());
    best_.columns.push_back(store.columns());
    StoreCounts& counts = best_.counts.emplace_back();
    std::map<std::int64_t, double> of_repeat;
    store.for_each([&](const PointRow& row) {
      count(row, counts);
      if (row.status != TrialStatus::ok || row.fidelity < 1) return;
      BestPoint point{.store = index, .row = row};
      for (std::size_t i = 0; i < store.columns().size(); ++i)
        if (store.columns()[i].kind == "objective")
          point.objectives.push_back((store.columns()[i].detail == "maximise" ? -1 : 1) * number_of(row.cells[i]));
      if (row.violation == 0 && point.objectives.size() == 1) {
        const auto [place, fresh] = of_repeat.emplace(row.repeat, point.objectives[0]);
        if (!fresh) place->second = std::min(place->second, point.objectives[0]);
      }
      (row.violation == 0 ? meeting_ : breaking_).push_back(std::move(point));
      thin(row.violation == 0 ? meeting_ : breaking_, row.violation == 0);
    });
    for (const auto& [repeat, value] : of_repeat)
      best_.best_of_repeats.push_back(best_.objectives[0].detail == "maximise" ? -value : value);
  }

  /// Keeps memory in bounds: nothing that is dropped can be among the best.
  void thin(std::vector<BestPoint>& points, bool meets) {
    constexpr std::size_t kMany = 100'000;
    if (points.size() < kMany || best_.objectives.empty()) return;
    if (!meets) {
      sort_breaking(points);
      points.resize(kMany / 2);
    } else if (best_.objectives.size() > 1) {
      keep_front(points);
    } else {
      sort_by_objective(points);
      points.resize(kMany / 2);
    }
  }
  static void sort_breaking(std::vector<BestPoint>& points) {
    std::stable_sort(points.begin(), points.end(),
                     [](const BestPoint& a, const BestPoint& b) { return a.row.violation < b.row.violation; });
  }
  static void sort_by_objective(std::vector<BestPoint>& points) {
    std::stable_sort(points.begin(), points.end(),
                     [](const BestPoint& a, const BestPoint& b) { return a.objectives < b.objectives; });
  }

 private:
  static void count(const PointRow& row, StoreCounts& counts) {
    ++counts.points;
    counts.ok += row.status == TrialStatus::ok;
    counts.infeasible += row.status == TrialStatus::infeasible;
    counts.failed += row.status == TrialStatus::failed;
    counts.over += row.status == TrialStatus::ok && row.violation > 0;
    if (counts.first_reason.empty() && row.status != TrialStatus::ok) counts.first_reason = row.reason;
  }

  BestPoints& best_;
  std::vector<BestPoint>&meeting_, &breaking_;
};

}  // namespace

std::string heading(const Column& column) {
  constexpr std::string_view kObjective = "objective_";
  return column.kind == "objective" ? column.name.substr(kObjective.size()) : column.name;
}

sim::Unit unit_of(const Column& column, const std::vector<Column>& columns) {
  if (column.kind == "parameter" || column.kind == "derived") return sim::unit_of_symbol(column.detail);
  if (column.kind == "measure") return sim::unit_of_figure(column.detail);
  if (column.kind != "objective") return sim::Unit::none;
  const std::string name = heading(column);
  for (const Column& measure : columns)
    if (measure.kind == "measure" && measure.name == name) return sim::unit_of_figure(measure.detail);
  return sim::unit_of_figure(name);
}

StoreReader::StoreReader(const fs::path& file) : file_(file), database_(open_store(file)) {
  int format = 0;
  try {
    format = store_format(database_, file);
    study_ = fact("study");
    Statement complete = database_.prepare("SELECT 1 FROM facts WHERE name = 'complete'");
    complete_ = complete.step();
    Statement columns = database_.prepare("SELECT name, kind, detail FROM columns ORDER BY place");
    while (columns.step()) columns_.push_back({columns.text(0), columns.text(1), columns.text(2)});
    if (format >= 2) check_rows(database_, file, fact("rows"));
  } catch (const StoreError& error) {
    if (format == 0) sim::throw_fault({file.string(), ""}, "expected a store of orrery, found something else");
    sim::throw_fault({file.string(), ""}, "expected a whole store, found a damaged one", error.what());
  }
}

std::vector<Column> objectives_of(const std::vector<Column>& columns) {
  std::vector<Column> all;
  for (const Column& column : columns)
    if (column.kind == "objective") all.push_back(column);
  return all;
}

void check_objectives(const StoreReader& store, const std::vector<Column>& expected, const std::string& first) {
  const std::vector<Column> own = objectives_of(store.columns());
  const auto same = [](const Column& a, const Column& b) { return a.name == b.name && a.detail == b.detail; };
  if (std::equal(own.begin(), own.end(), expected.begin(), expected.end(), same)) return;
  std::string names;
  for (const Column& column : expected) names += fmt::format(" {} {}", column.detail, heading(column));
  sim::throw_fault({store.file().string(), ""}, fmt::format("expected the objectives of '{}':{}", first, names),
                   "`orrery export` puts any studies side by side");
}

std::string StoreReader::fact(std::string_view name) {
  Statement facts = database_.prepare("SELECT value FROM facts WHERE name = ?1");
  facts.bind(1, std::string(name));
  return facts.step() ? facts.text(0) : std::string();
}

void StoreReader::for_each(const std::function<void(const PointRow&)>& visit) {
  std::string names;
  for (const Column& column : columns_) names += ", " + sql_name(column.name);
  Statement read = database_.prepare(
      fmt::format("SELECT id, repeat, key, fidelity, status, reason, violation{} FROM points ORDER BY id", names));
  while (read.step()) {
    PointRow row{.id = read.integer(0),
                 .repeat = read.integer(1),
                 .key = read.text(2),
                 .fidelity = number_of(read.cell(3)),
                 .status = status_of(read.text(4)),
                 .reason = read.text(5),
                 .violation = number_of(read.cell(6))};
    for (std::size_t i = 0; i < columns_.size(); ++i) row.cells.push_back(read.cell(static_cast<int>(7 + i)));
    visit(row);
  }
}

void StoreReader::for_each_run(const std::function<void(const std::string&, RunResult)>& visit) {
  std::string names;
  int measures = 0;
  for (const Column& column : columns_)
    if (column.kind == "measure") {
      names += ", " + sql_name(column.name);
      ++measures;
    }
  Statement read = database_.prepare(fmt::format("SELECT key, status, reason{} FROM runs ORDER BY id", names));
  while (read.step()) {
    RunResult result{status_of(read.text(1)), read.text(2), {}};
    for (int i = 0; i < measures; ++i) result.figures.push_back(number_of(read.cell(3 + i)));
    visit(read.text(0), std::move(result));
  }
}

BestPoints best_points(std::span<const fs::path> files, std::size_t most) {
  BestPoints best;
  std::vector<BestPoint> meeting, breaking;
  Collector collector(best, meeting, breaking);
  for (const fs::path& file : files) {
    StoreReader store(file);
    collector.add(store);
  }
  best.beyond = meeting.empty() && !breaking.empty();
  if (best.beyond)
    Collector::sort_breaking(breaking);
  else if (best.objectives.size() > 1)
    keep_front(meeting);
  else if (!best.objectives.empty())
    Collector::sort_by_objective(meeting);
  best.points = std::move(best.beyond ? breaking : meeting);
  if ((best.objectives.size() <= 1 || best.beyond) && best.points.size() > most) best.points.resize(most);
  return best;
}

}  // namespace orrery::experiments::study
