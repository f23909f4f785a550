#include "experiments/study/search_system.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/quartiles.hpp"
#include "experiments/claims/figure.hpp"
#include "experiments/search/search.hpp"
#include "experiments/study/explore.hpp"

namespace orrery::experiments::study {
namespace {

using sim::Node;

struct StudyParams {
  std::string file;
  std::vector<std::string> set;
  static constexpr auto fields() {
    using P = StudyParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("file", &P::file, Unit::path, sim::any_value(), "Study file (kind study).")),
        sim::field("set", &P::set, Unit::text, sim::any_value(), "Changes to the study, as for --set."),
    };
  }
};

struct GoalParams {
  std::optional<double> best;
  double within = 0.05;
  static constexpr auto fields() {
    using P = GoalParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("best", &P::best, Unit::none, sim::any_value(), "Known best of the first objective; null: none."),
        sim::field("within", &P::within, Unit::ratio, sim::at_least(0),
                   "Distance from the known best that counts as close, as a share of it."),
    };
  }
};

struct RunParams {
  std::int64_t seed = 1, repeats = 5;
  static constexpr auto fields() {
    using P = RunParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("seed", &P::seed, Unit::none, sim::at_least(0),
                   "Seed of the driver of the first search; the others follow it."),
        sim::field("repeats", &P::repeats, Unit::count, sim::between(1, 1000), "Number of independent searches."),
    };
  }
};

struct Sections {
  StudyParams study;
  GoalParams goal;
  RunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::required(sim::section("study", &S::study, "The study that is searched.")),
                           sim::section("goal", &S::goal, "When a search counts as close to the best."),
                           sim::section("run", &S::run, "Seeds.")};
  }
};

class SearchExperiment final : public Experiment {
 public:
  SearchExperiment(const Node& root, const Systems& systems, sim::Faults& faults) {
    config_ = read_sections<Sections>(root, *systems.registries(), faults);
    const Node written = section(root, "study");
    if (!faults.empty()) return;
    study_ = read_study(systems, config_.study.file, config_.study.set);
    study_->search.seed = config_.run.seed;
    if (study_->objectives.empty()) faults.add(place_of(written, "file"), "expected a study with an objective");
    if (study_->fidelity) faults.add(place_of(written, "file"), "expected a study without fidelity: all runs are full");
    resolved_ = resolved_config("search", config_);
  }

  const Node& resolved() const override { return resolved_; }
  std::vector<std::filesystem::path> inputs() const override { return {config_.study.file}; }
  Node identity() const override {
    Node root = resolved_;
    root.find("study")->set("file", Node::string("an input"));
    return root;
  }
  std::int64_t seed() const override { return config_.run.seed; }

  Outcome run(const RunSink& sink) const override {
    std::vector<double> best, evaluations;
    std::int64_t missed = 0, points = 0;
    std::map<std::string, search::Evaluation> known;
    for (std::int64_t repeat = 0; repeat < config_.run.repeats; ++repeat) {
      const auto driver = make_driver(*study_, repeat);
      const search::SearchOptions loop = search_options(*study_);
      const auto trials = search::run_search(
          *driver, search::on_threads([&](const search::Proposal& proposal) { return look(proposal.point, known); }, 1),
          loop);
      double least = std::nan(""), reached = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < trials.size(); ++i) {
        const search::Evaluation& result = trials[i].result;
        if (!result.feasible()) continue;
        if (!(least <= result.objectives[0])) least = result.objectives[0];
        if (std::isinf(reached) && close(least)) reached = static_cast<double>(i + 1);
      }
      points += std::ssize(trials);
      best.push_back(study_->objectives[0].maximise ? -least : least);
      evaluations.push_back(reached);
      missed += std::isinf(reached) ? 1 : 0;
      if (sink.progress) sink.progress({.done = repeat + 1, .total = config_.run.repeats, .what = "searches"});
    }
    Outcome outcome;
    outcome.summary = Node::object();
    outcome.summary.set("status", Node::string("ok"));
    outcome.summary.set("driver", Node::string(study_->search.driver.name));
    outcome.summary.set("points", Node::integer(points));
    outcome.summary.set("distinct", Node::integer(std::ssize(known)));
    outcome.summary.set("best", quartile_figures(best));
    outcome.summary.set("evaluations", quartile_figures(evaluations));
    outcome.summary.set("missed", Node::integer(missed));
    outcome.events = static_cast<std::uint64_t>(points);
    return outcome;
  }

 private:
  bool close(double minimised) const {
    if (!config_.goal.best) return false;
    const double best = study_->objectives[0].maximise ? -*config_.goal.best : *config_.goal.best;
    return minimised <= best + config_.goal.within * std::abs(best);
  }

  search::Evaluation look(const Point& point, std::map<std::string, search::Evaluation>& known) const {
    const auto [place, fresh] = known.try_emplace(study_->space.key(point));
    if (fresh) place->second = evaluate(point);
    return place->second;
  }

  search::Evaluation evaluate(const Point& point) const {
    try {
      const Outcome outcome = study_->read(study_->config(point, 1, study_->seeds.first))->run({});
      if (!outcome.feasible()) return {.status = TrialStatus::infeasible};
      std::vector<double> measured(study_->measures.size(), std::nan(""));
      for (std::size_t i = 0; i < measured.size(); ++i) {
        const Node* found = claims::find_figure(outcome.summary, study_->measures[i].path).found;
        if (found != nullptr && found->is_number()) measured[i] = found->as_number();
      }
      return study_->judge(point, measured);
    } catch (const sim::ConfigError& error) {
      return {.status = TrialStatus::failed, .reason = error.what()};
    }
  }

  Sections config_;
  std::optional<Study> study_;
  Node resolved_;
};

}  // namespace

System search_system() {
  return {.name = "search",
          .doc = "Runs the search of a study in memory: what its driver finds, and how soon.",
          .fields = describe_sections<Sections>,
          .read = read_as<SearchExperiment>};
}

}  // namespace orrery::experiments::study
