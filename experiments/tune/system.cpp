#include "experiments/tune/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/figures.hpp"
#include "experiments/tune/by_driver.hpp"
#include "policies/placement/slapo_tune.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/csv_table.hpp"
#include "sim/statistics.hpp"

namespace orrery::experiments {
namespace tune {

enum class Search : std::uint8_t { coordinate_descent, exhaustive, driver };
constexpr auto enum_names(Search) {
  using enum Search;
  return sim::names<Search>(
      {{"coordinate_descent", coordinate_descent}, {"exhaustive", exhaustive}, {"driver", driver}});
}

namespace {

using policies::slapo::GridPoint;
using sim::Node;

struct AxisParams {
  std::string column;
  std::int64_t demand = 0;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::field("column", &AxisParams::column, "Column of the table.")),
        sim::field("demand", &AxisParams::demand, sim::Unit::none, sim::between(-1, 1),
                   "Effect on memory; 1: larger values need more, -1: less, 0: neither."),
    };
  }
};

struct WorkloadParams {
  std::string table, value;
  std::vector<AxisParams> axes;
  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::required(sim::field("table", &W::table, Unit::path, sim::any_value(), "CSV file with one row per point.")),
        sim::required(sim::field("value", &W::value, "Column that is maximised; a value of 0 means out of memory.")),
        sim::required(sim::field("axes", &W::axes, "Axes of the grid.")),
    };
  }
};

struct SearchParams {
  Search search = Search::coordinate_descent;
  bool error_stop = true;
  double tolerance = 0;
  std::int64_t restarts = 1;
  std::string driver = "bayesian";
  sim::Node settings;
  bool shuffled = false;
  static constexpr auto fields() {
    using P = SearchParams;
    return sim::FieldTable{
        sim::field("search", &P::search, "How points are chosen."),
        sim::field("error_stop", &P::error_stop,
                   "Whether a point out of memory ends a walk and excludes all points that need more memory."),
        sim::field("tolerance", &P::tolerance, sim::Unit::ratio, sim::between(0, 1),
                   "Loss that does not yet end a walk, as a share of the best value on it."),
        sim::field("restarts", &P::restarts, sim::Unit::count, sim::between(1, 1000),
                   "Number of descents; all but the first start from random points."),
        sim::field("driver", &P::driver, "Search driver of `search: driver` (orrery list driver)."),
        sim::field("settings", &P::settings, "Parameters of the driver."),
        sim::field(
            "shuffled", &P::shuffled,
            "Whether the driver gets the levels of every axis in random order, as a control in which no order helps."),
    };
  }
};

struct RunParams {
  std::int64_t seed = 1, replications = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("seed", &RunParams::seed, sim::Unit::none, sim::at_least(0),
                   "Seed of the order of axes and of the starts."),
        sim::field("replications", &RunParams::replications, sim::Unit::count, sim::between(1, 1'000'000),
                   "Number of searches, each with its own random draws."),
    };
  }
};

/// The table as a grid: values by point, which are all there.
struct Grid {
  policies::slapo::TuneSpace space;
  std::vector<std::vector<double>> levels;
  std::map<GridPoint, double> values;
  double best = 0;
  std::int64_t feasible = 0;
};

Grid read_grid(const std::filesystem::path& file, const WorkloadParams& params) {
  const sim::CsvTable table = sim::CsvTable::read(file.parent_path(), file.filename().string());
  Grid grid;
  for (const AxisParams& axis : params.axes) {
    std::vector<double> all = table.numbers(axis.column);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    grid.space.sizes.push_back(static_cast<std::int64_t>(all.size()));
    grid.space.demand.push_back(axis.demand);
    grid.levels.push_back(std::move(all));
  }
  for (std::size_t row = 0; row < table.rows(); ++row) {
    GridPoint point;
    for (std::size_t i = 0; i < grid.levels.size(); ++i)
      point.push_back(
          std::lower_bound(grid.levels[i].begin(), grid.levels[i].end(), table.number(row, params.axes[i].column)) -
          grid.levels[i].begin());
    const double value = table.number(row, params.value);
    grid.values.emplace(std::move(point), value);
    grid.best = std::max(grid.best, value);
    grid.feasible += value > 0 ? 1 : 0;
  }
  return grid;
}

struct Sections {
  WorkloadParams workload;
  SearchParams policies;
  RunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::required(sim::section("workload", &S::workload, "The table of measured points.")),
                           sim::section("policies", &S::policies, "The search method."),
                           sim::section("run", &S::run, "Seed and repetitions.")};
  }
};

class TuneExperiment final : public ConfigExperiment {
 public:
  TuneExperiment(const Node& root, const Systems& systems, sim::Faults& faults) {
    config_ = read_sections<Sections>(root, *systems.registries(), faults);
    const Node workload = section(root, "workload");
    if (config_.workload.axes.empty()) faults.add(place_of(workload, "axes"), "expected at least one axis");
    const Node policies = section(root, "policies");
    const Node* settings = policies.find("settings");
    driver_ = systems.registry<search::DriverRegistry>().prepare(config_.policies.driver, settings,
                                                                 place_of(policies, "driver"), faults);
    if (!faults.empty()) return;
    config_.policies.settings = driver_.params;
    inputs_ = {config_.workload.table};  // a path has been resolved against its file already
    seed_ = config_.run.seed;
    resolved_ = resolved_config("tune", config_);
  }

  Node identity() const override {
    Node node = resolved_;
    node.find("workload")->erase("table");
    return node;
  }

  Outcome run(const RunSink&) const override {
    const Grid grid = read_grid(inputs_.front(), config_.workload);
    std::size_t points = 1;
    for (const std::int64_t size : grid.space.sizes) points *= static_cast<std::size_t>(size);
    if (points != grid.values.size())
      sim::throw_fault(
          {inputs_.front().string(), ""},
          fmt::format("expected a row for each of {} points of the grid, got {}", points, grid.values.size()));
    const policies::slapo::Evaluate evaluate = [&grid](const GridPoint& point) -> std::optional<double> {
      const double value = grid.values.at(point);
      return value > 0 ? std::optional(value) : std::nullopt;
    };
    const sim::RandomStream random(static_cast<std::uint64_t>(config_.run.seed), "tune");
    Tally tally;
    for (std::int64_t i = 0; i < config_.run.replications; ++i)
      tally.add(search(grid, evaluate, random.child(static_cast<std::uint64_t>(i))), grid.best);
    Outcome outcome;
    outcome.summary = tally.summary(grid, points);
    return outcome;
  }

 private:
  policies::slapo::TuneResult search(const Grid& grid, const policies::slapo::Evaluate& evaluate,
                                     const sim::RandomStream& random) const {
    if (config_.policies.search == Search::exhaustive)
      return policies::slapo::exhaustive(grid.space, evaluate, config_.policies.error_stop);
    if (config_.policies.search == Search::driver)
      return search_with_driver(driver_, grid.levels, evaluate, grid.best, config_.policies.shuffled, random);
    return policies::slapo::coordinate_descent(
        grid.space, evaluate, {config_.policies.error_stop, config_.policies.tolerance, config_.policies.restarts},
        random);
  }

  struct Tally {
    sim::SampleStats all_to_best;
    double runs = 0, evaluations = 0, to_best = 0, failures = 0, found = 0, quality = 0, least = 0, most = 0;

    void add(const policies::slapo::TuneResult& result, double best) {
      const auto count = static_cast<double>(result.evaluations);
      least = runs == 0 ? count : std::min(least, count);
      most = std::max(most, count);
      ++runs;
      evaluations += count;
      to_best += static_cast<double>(result.evaluations_to_best);
      all_to_best.add(result.evaluations_to_best);
      failures += static_cast<double>(result.failures);
      found += result.value && *result.value >= best ? 1 : 0;
      quality += best > 0 ? result.value.value_or(0) / best : 0;
    }

    Node summary(const Grid& grid, std::size_t points) const {
      Node node = Node::object();
      node.set("status", Node::string("ok"));
      node.set("points", Node::integer(static_cast<std::int64_t>(points)));
      node.set("feasible", Node::integer(grid.feasible));
      node.set("best", Node::real(grid.best));
      Node& counts = node.set("evaluations", Node::object());
      counts.set("mean", Node::real(evaluations / runs));
      counts.set("min", Node::real(least));
      counts.set("max", Node::real(most));
      counts.set("to_best", Node::real(to_best / runs));
      counts.set("to_best_p25", Node::real(all_to_best.quantile(0.25)));
      counts.set("to_best_p50", Node::real(all_to_best.quantile(0.5)));
      counts.set("to_best_p75", Node::real(all_to_best.quantile(0.75)));
      counts.set("failed", Node::real(failures / runs));
      node.set("found", Node::real(found / runs));
      node.set("quality", Node::real(quality / runs));
      return node;
    }
  };

  Sections config_;
  search::DriverRegistry::Choice driver_;
};

}  // namespace
}  // namespace tune

System tune_system() {
  return {.name = "tune",
          .doc = "Searches a table of measured points, and counts evaluations.",
          .fields = describe_sections<tune::Sections>,
          .read = read_as<tune::TuneExperiment>};
}

}  // namespace orrery::experiments
