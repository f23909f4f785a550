#include "experiments/study/explore.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/run_folder.hpp"
#include "experiments/base/stopped.hpp"
#include "experiments/search/unique.hpp"
#include "experiments/study/earlier.hpp"
#include "experiments/study/evaluator.hpp"
#include "experiments/study/selected.hpp"

namespace orrery::experiments::study {
namespace {

namespace fs = std::filesystem;
using search::Proposal;
using sim::Node;

// Points of a sweep are handed in by batches, the next when one of those that are out is done.
constexpr std::size_t kSweepBatch = 64, kSweepInFlight = 256;
constexpr std::size_t kClusterBatch = 2048;      ///< the way there costs little
constexpr std::size_t kClusterInFlight = 16384;  ///< that many workers have something to do
constexpr std::size_t kSample = 16;              ///< points of which one must be readable before anything runs
constexpr std::uint64_t kWalk = 1'000'000;       ///< most points of a grid worth walking for one that is allowed

/// Goes through points in order.
class ListDriver final : public search::StreamDriver {
 public:
  explicit ListDriver(std::vector<Point> points) : points_(std::move(points)) {}
  std::vector<Proposal> ask(std::size_t most) override {
    std::vector<Proposal> batch;
    for (; batch.size() < most && next_ < points_.size(); ++next_) batch.push_back({points_[next_]});
    return batch;
  }
  void tell(std::span<const search::Trial>) override {}

 private:
  std::vector<Point> points_;
  std::size_t next_ = 0;
};

/// Everything that decides rows: not the title, and of sweep and search only what is used.
std::string identity(const Study& study, bool search) {
  Node node = study.document;
  for (const char* key : {"title", "$schema", "base"}) node.erase(key);
  node.erase(search ? "sweep" : "search");
  if (search) {
    Node settings = sim::write_params(study.search);
    settings.erase("driver");
    if (study.search.in_flight <= study.search.batch) settings.erase("in_flight");  // it changes nothing
    node.set("search", std::move(settings));
    node.set("driver", search::DriverRegistry::write_block(study.search.driver));
  }
  return (search ? "search " : "sweep ") + node.dump() + study.base.dump();
}

/// An allowed point, however rare; nothing only if a walk of the whole grid or very many draws find none.
std::optional<Point> any_allowed(const Study& study) {
  sim::RandomStream random(1, "study/any");
  if (auto point = study.space.sample(random)) return point;
  const auto size = study.space.grid_size();
  if (size && *size <= kWalk)
    for (std::uint64_t i = 0; i < *size; ++i)
      if (Point point = study.space.grid_point(i); study.space.allowed(point)) return point;
  return std::nullopt;
}

std::string set_text(const std::vector<std::string>& assignments) {
  if (assignments.empty()) return {};
  Node list = Node::array();
  for (const std::string& one : assignments) list.push(Node::string(one));
  return list.dump();
}

}  // namespace

std::unique_ptr<search::Driver> make_driver(const Study& study, std::int64_t repeat) {
  const auto seed = static_cast<std::uint64_t>(study.search.seed + repeat);
  search::DriverSetup setup{.space = &study.space,
                            .objectives = study.objectives.size(),
                            .limits = study.limits.size(),
                            .budget = study.search.budget,
                            .random = {seed, "driver"}};
  for (const Bottleneck& bottleneck : study.bottlenecks) setup.remedies.emplace_back(bottleneck.name, bottleneck.move);
  return std::make_unique<search::UniqueDriver>(study.search.driver.make(std::move(setup)), study.space,
                                                sim::RandomStream(seed, "unique"));
}

search::SearchOptions search_options(const Study& study) {
  search::SearchOptions loop{.budget = study.search.budget,
                             .batch = static_cast<std::size_t>(study.search.batch),
                             .in_flight = static_cast<std::size_t>(study.search.in_flight),
                             .patience = study.search.patience,
                             .gain = study.search.gain};
  for (const Point& point : study.first) loop.first.push_back({point});
  return loop;
}

std::vector<Column> columns_of(const Study& study) {
  std::vector<Column> all;
  for (const auto& parameter : study.space.parameters())
    all.push_back({parameter.name, "parameter", std::string(sim::symbol(parameter.unit))});
  for (const auto& figure : study.space.derived())
    all.push_back({figure.name, "derived", std::string(sim::symbol(figure.unit))});
  for (const Measure& measure : study.measures) all.push_back({measure.name, "measure", measure.path});
  for (const Objective& objective : study.objectives)
    all.push_back({"objective_" + objective.name, "objective", objective.maximise ? "maximise" : "minimise"});
  for (const Limit& limit : study.limits) all.push_back({"limit_" + limit.name, "limit", ""});
  return all;
}

StoreFacts facts_of(const Study& study, bool search) {
  return {.study = study.name,
          .mode = search ? "search" : "sweep",
          .hash = fmt::format("{:016x}", sim::hash_text(identity(study, search))),
          .version = std::string(version()),
          .build = build_id(),
          .document = study.document.dump(),
          .columns = columns_of(study),
          .source = study.file,
          .set = set_text(study.assignments)};
}

fs::path default_store(const Study& study, bool search) {
  return fs::path("runs") / fmt::format("{}-{}.sqlite", study.name, facts_of(study, search).hash.substr(0, 8));
}

std::optional<std::int64_t> check_explorable(const Study& study, bool search) {
  const auto fault = [&](const char* pointer, const std::string& message, const std::string& hint = {}) {
    sim::throw_fault({study.file.string(), pointer}, message, hint);
  };
  if (search && study.objectives.empty()) fault("/objectives", "expected at least one objective to search for");
  if (search) check_selection(study);
  if (!search && study.sweep.empty())
    fault("/parameters", "the study has no sweep: a range of real numbers without 'steps', or too many points",
          "`orrery search` explores it");
  std::optional<std::int64_t> total;
  if (search) {
    if (!any_allowed(study)) fault("/constraints", "no point of the space meets them, as far as can be seen");
    total = study.search.budget * study.search.repeats;
  } else {
    total = std::ssize(sweep_points(study));
    if (*total == 0) fault("/constraints", "no point of the sweep meets them");
  }
  const std::vector<Point> sample = sample_points(study, !search, kSample);
  std::optional<sim::ConfigError> refused;
  for (const Point& point : sample) {
    try {
      check_experiments(study, std::span(&point, 1));
      return total;
    } catch (const sim::ConfigError& error) {
      if (!refused) refused = error;
    }
  }
  if (refused) throw sim::ConfigError(refused->faults());  // not one can be read: the study is at fault
  return total;
}

ExploreResult explore(const Study& study, const ExploreOptions& options) {
  const std::optional<std::int64_t> total = check_explorable(study, options.search);
  ExploreResult result;
  const Earlier earlier = read_earlier(study, options.from, options.any_build);
  StoreFacts facts = facts_of(study, options.search);
  facts.from = earlier.fact;
  Store store(options.out, facts, options.any_build);
  result.was_complete = store.complete();
  WorkerPool pool(std::max<std::size_t>(1, options.jobs));
  Evaluator evaluator(study, store, pool, options);
  evaluator.set_earlier(earlier.runs);
  result.earlier = std::ssize(earlier.known);
  const std::int64_t free = result.earlier * (options.search ? study.search.repeats : 1);
  evaluator.on_point = [&] {
    if (options.progress) options.progress(evaluator.points(), total ? std::optional(*total + free) : total);
  };
  const bool cluster = options.executor != nullptr;
  search::SearchOptions loop = options.search
                                   ? search_options(study)
                                   : search::SearchOptions{.budget = std::numeric_limits<std::int64_t>::max(),
                                                           .batch = cluster ? kClusterBatch : kSweepBatch,
                                                           .in_flight = cluster ? kClusterInFlight : kSweepInFlight};
  loop.keep = false;
  if (options.search) {
    loop.first.insert(loop.first.begin(), earlier.known.begin(), earlier.known.end());
    loop.free = earlier.known.size();
    loop.first.insert(loop.first.end(), earlier.guesses.begin(), earlier.guesses.end());
  }
  loop.known = [&](const Proposal& proposal) { return evaluator.known(proposal); };
  loop.stop = [&] {
    if (!options.stop || !options.stop()) return false;
    store.commit();
    throw Stopped{};
  };
  try {
    for (std::int64_t repeat = 0; repeat < (options.search ? study.search.repeats : 1); ++repeat) {
      evaluator.set_repeat(repeat);
      const auto driver = options.search ? make_driver(study, repeat)
                                         : std::make_unique<ListDriver>(sweep_points(study, &result.forbidden));
      (void)search::run_search(*driver, evaluator, loop);
    }
    store.finish();
  } catch (const Stopped&) {
    result.interrupted = true;
  }
  result.points = evaluator.points();
  result.known = evaluator.known_points();
  result.runs = evaluator.runs();
  result.notes = evaluator.absent();
  return result;
}

}  // namespace orrery::experiments::study
