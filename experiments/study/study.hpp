// A study: one experiment, the parameters in which its points differ, what is measured of each, and what is best.
//
// The reader turns a file of kind "study" into this plain struct and reports every fault (docs/explain/studies.md). A
// point of its space becomes a config, one a seed; figures of summary.json become measures; formulas over parameters
// and measures become objectives, limits and shares of bottlenecks. Nothing here runs anything or knows any system.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/search/driver.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::study {

using search::Point;
using search::TrialStatus;

/// How figures of several seeds become one.
enum class Statistic : std::uint8_t { mean, median };
constexpr auto enum_names(Statistic) {
  using enum Statistic;
  return sim::names<Statistic>({{"mean", mean}, {"median", median}});
}

struct Objective {
  std::string name;
  bool maximise = false;
  sim::Formula value;  ///< over parameters, derived figures and measures
};

/// What a point must meet: value <= most, value >= least.
struct Limit {
  std::string name;
  sim::Formula value;
  std::optional<double> most, least;
  std::optional<RunEnd> end;  ///< runs end where it is certain that the value is this far above the bound

  /// By how much a value breaks it, as a share of the bound where that is not 0; at or below 0 it is met, with so
  /// much room. Of two bounds the nearer one's.
  double margin(double x) const;
};

/// A place where the time may go, how much of it goes there, and the parameters that would change it.
struct Bottleneck {
  std::string name;
  sim::Formula share;
  std::vector<std::size_t> move;
};

struct SeedsParams {
  std::int64_t count = 1, first = 1;
  std::string path = "run.seed";
  Statistic statistic = Statistic::mean;

  static constexpr auto fields() {
    using sim::Unit;
    using S = SeedsParams;
    return sim::FieldTable{
        sim::field("count", &S::count, Unit::count, sim::between(1, 1000), "Runs of a point, each with its own seed."),
        sim::field("first", &S::first, Unit::none, sim::at_least(0), "First seed; the others follow it."),
        sim::field("path", &S::path, Unit::text, sim::any_value(), "Dotted path of the seed in the config."),
        sim::field("statistic", &S::statistic, "Statistic that combines a measure over the seeds.")};
  }
};

struct SearchParams {
  std::int64_t budget = 100, batch = 8, in_flight = 0, seed = 1, repeats = 1, patience = 0;
  double gain = 1e-3;
  std::vector<sim::Node> first;
  search::DriverRegistry::Choice driver;

  static constexpr auto fields() {
    using sim::Unit;
    using S = SearchParams;
    return sim::FieldTable{
        sim::field("budget", &S::budget, Unit::count, sim::between(1, 1e7),
                   "Number of points that a search evaluates."),
        sim::field("batch", &S::batch, Unit::count, sim::between(1, 1e5),
                   "Points that the driver proposes at once; it gets their results together."),
        sim::field("in_flight", &S::in_flight, Unit::count, sim::between(0, 1e5),
                   "Most points that are out at a time. As soon as the oldest `batch` of them are done, the driver is "
                   "told and asked for more. Up to `batch`: it waits for the whole batch."),
        sim::field("seed", &S::seed, Unit::none, sim::at_least(0), "Seed of the driver's random numbers."),
        sim::field("repeats", &S::repeats, Unit::count, sim::between(1, 1000),
                   "Independent searches, with seeds from `seed` on."),
        sim::field("patience", &S::patience, Unit::count, sim::between(0, 1e7),
                   "Points without a gain after which a search ends; 0: it runs to its budget."),
        sim::field("gain", &S::gain, Unit::ratio, sim::between(0, 1),
                   "Relative improvement of the best value that counts as a gain. With several objectives, a point is "
                   "a gain if no earlier one reaches it in all objectives, up to this share of their ranges."),
        sim::field("first", &S::first,
                   "Points to evaluate before the driver is asked, as parameters by name; those not named have their "
                   "first or lowest value."),
        sim::choice("driver", &S::driver, "auto", "Search driver that proposes points.")};
  }
};

/// Shorter runs for drivers that ask for them: the value of `path` is this share of `full`.
struct Fidelity {
  std::string path;
  sim::Node full;
  double number = 0;  ///< of `full`
  sim::Unit unit = sim::Unit::none;
};

/// A part of a sweep: for each of its rows the values of some parameters. A sweep is the product of its parts, the last
/// one fastest.
struct SweepPart {
  std::vector<std::size_t> parameters;
  std::vector<std::vector<double>> rows;
};

/// What makes a run a share of a full one.
Assignment at_fidelity(const Fidelity& fidelity, double share);

struct Study {
  std::string name;  ///< stem of the file
  std::filesystem::path file;
  std::string title;
  std::vector<std::string> assignments;  ///< that were laid over the file
  sim::Node document, base;
  search::Space space;
  std::vector<SweepPart> sweep;
  std::vector<Measure> measures;
  std::vector<Objective> objectives;
  std::vector<Limit> limits;
  std::vector<Bottleneck> bottlenecks;
  SeedsParams seeds;
  SearchParams search;
  std::vector<Point> first;  ///< of search.first
  std::optional<Fidelity> fidelity;
  /// Of the limits.
  std::vector<RunEnd> ends() const;
  /// Judges a point whose run ended early, by the figures that are known: ok if these are enough for the objectives,
  /// else infeasible. A limit that they are not enough for counts as just met.
  search::Evaluation judge_ended(const Point& point, std::span<const double> measured, std::string reason) const;
  /// How the config of a point becomes an experiment; called by several threads.
  std::function<std::unique_ptr<Experiment>(const sim::Node&)> read;

  /// The config of a canonical point. Throws sim::ConfigError for an assignment that cannot be made.
  sim::Node config(const Point& point, double fidelity, std::int64_t seed) const;
  /// What the formulas say of a point whose measures are these (NaN: not there). A value that is no number makes the
  /// evaluation a failed one.
  search::Evaluation judge(const Point& point, std::span<const double> measured) const;
};

/// Whether a file says that it is a study. Throws sim::ConfigError if it is no JSON.
bool is_study(const std::filesystem::path& file);
/// Reads a study with assignments laid over it ("base.…" goes to the base). Throws sim::ConfigError with all faults but
/// those of the experiments that it makes.
Study read_study(const Systems& systems, const std::filesystem::path& file,
                 const std::vector<std::string>& assignments = {});
/// The same for a document in memory, without assignments to its base; `file` gives the study its name, and its folder
/// is what paths in a store are relative to.
Study read_study(const Systems& systems, sim::Node document, const std::filesystem::path& file,
                 const std::vector<std::string>& assignments);

/// Points of the sweep in order, canonical, each once, those that the constraints forbid left out.
/// `forbidden`, if given, is how many of these there were.
std::vector<Point> sweep_points(const Study& study, std::size_t* forbidden = nullptr);
/// Some allowed points, spread over the sweep or, where that is not wanted, over the space.
std::vector<Point> sample_points(const Study& study, bool of_sweep, std::size_t most);
/// Reads the experiments of points without running them. Throws sim::ConfigError with the faults of all.
void check_experiments(const Study& study, std::span<const Point> points);

/// A study that ships, as text.
std::string study_text(const Systems& systems, const std::string& name);
/// JSON Schema of a study.
sim::Node study_schema(const sim::RegistrySet& registries);

}  // namespace orrery::experiments::study
