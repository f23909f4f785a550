// A measured table as a space of two ordinals, and how many evaluations a driver takes to find its best row.
#pragma once

#include <algorithm>
#include <map>

#include "experiments/search/unique.hpp"
#include "sim/csv_table.hpp"
#include "spaces.hpp"

namespace orrery::experiments::search::test {

struct TableGrid {
  Space space;
  std::map<Point, double> values;  ///< by canonical point; 0: does not fit
  double best = 0;
};

/// `shuffle`: the levels of both axes stand in a random order.
inline TableGrid read_table_grid(const std::string& file, const std::string& value, std::uint64_t shuffle = 0) {
  const sim::CsvTable table = sim::CsvTable::read(std::string(ORRERY_SHARED_DIR) + "/data/systems", file);
  TableGrid grid;
  const std::vector<std::string> axes{"batch_size", "ckpt_ratio"};
  std::vector<std::vector<double>> levels;
  for (const std::string& axis : axes) {
    std::vector<double> all = table.numbers(axis);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (shuffle != 0) {
      sim::RandomStream random(shuffle, axis);
      random.shuffle(std::span(all));
    }
    add(grid.space, ordinal(axis, all));
    levels.push_back(std::move(all));
  }
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Point point;
    for (std::size_t i = 0; i < axes.size(); ++i)
      point.push_back(
          double(std::find(levels[i].begin(), levels[i].end(), table.number(row, axes[i])) - levels[i].begin()));
    grid.values[point] = table.number(row, value);
    grid.best = std::max(grid.best, grid.values[point]);
  }
  return grid;
}

/// Evaluations until the best row was seen.
inline std::size_t evaluations_to_best(const TableGrid& grid, const std::string& driver, std::uint64_t seed) {
  UniqueDriver unique(make_driver(driver, {.space = &grid.space,
                                           .budget = std::ssize(grid.values),
                                           .random = sim::RandomStream(seed, "driver")}),
                      grid.space, {seed, "unique"});
  std::size_t taken = 0;
  bool found = false;
  const auto evaluate = [&](const Proposal& proposal) -> Evaluation {
    const double value = grid.values.at(proposal.point);
    ++taken;
    found = value == grid.best;
    if (value == 0) return {.status = TrialStatus::infeasible};
    return {.objectives = {-value}};
  };
  (void)run_search(unique, on_threads(evaluate, 1), {.budget = std::ssize(grid.values), .stop = [&] { return found; }});
  return taken;
}

}  // namespace orrery::experiments::search::test
