// A study of kind "evolve": one experiment, the place of an expression in it, and the figure that says how good one is.
//
// A candidate is a text at `path`. It runs at every training scenario (variants of the base times seeds); its fitness
// is the mean of the figure there. Held-out scenarios decide nothing: the best candidate and the baselines run there
// once, at the end. The reader reports every fault of a file (docs/explain/policies-as-data.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/assignment.hpp"
#include "experiments/evolve/breeding.hpp"
#include "policies/expression_subjects.hpp"
#include "sim/base/document.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::evolve {

enum class Goal : std::uint8_t { minimise, maximise };
constexpr auto enum_names(Goal) {
  using enum Goal;
  return sim::names<Goal>({{"minimise", minimise}, {"maximise", maximise}});
}

/// Another figure, which a good expression keeps within a bound.
struct BoundParams {
  std::string figure, of;
  std::optional<double> at_most, at_least;

  static constexpr auto fields() {
    using B = BoundParams;
    return sim::FieldTable{
        sim::required(sim::field("figure", &B::figure, sim::Unit::text, sim::any_value(),
                                 "Dotted path of a number in summary.json, whose mean over the runs is bounded.")),
        sim::field("of", &B::of, sim::Unit::text, sim::any_value(),
                   "Baseline to which the figure is relative: the bound is a ratio to its mean. Empty: the bound "
                   "applies to the figure itself."),
        sim::field("at_most", &B::at_most, sim::Unit::none, sim::any_value(), "Upper bound; null: none."),
        sim::field("at_least", &B::at_least, sim::Unit::none, sim::any_value(), "Lower bound; null: none.")};
  }
};

struct ObjectiveParams {
  std::string figure;
  Goal goal = Goal::minimise;
  std::vector<BoundParams> bounds;

  static constexpr auto fields() {
    using O = ObjectiveParams;
    return sim::FieldTable{
        sim::required(sim::field("figure", &O::figure, sim::Unit::text, sim::any_value(),
                                 "Dotted path of the number in summary.json that is the objective.")),
        sim::field("goal", &O::goal, "Whether the figure is minimised or maximised."),
        sim::field("bounds", &O::bounds,
                   "Bounds on other figures. Of two expressions the one with the smaller violation wins, whatever "
                   "their figures.")};
  }
};

struct LimitsParams {
  std::int64_t nodes = 25, depth = 6;

  static constexpr auto fields() {
    using L = LimitsParams;
    return sim::FieldTable{sim::field("nodes", &L::nodes, sim::Unit::count, sim::between(1, 200),
                                      "Most numbers, names and functions in an expression (its size)."),
                           sim::field("depth", &L::depth, sim::Unit::count, sim::between(1, 20),
                                      "Most levels from the root of an expression to a leaf (its depth).")};
  }
};

/// Who breeds: the last generation, or the best of each niche so far (MAP-Elites, Mouret and Clune 2015). Expressions
/// that use the same names and are about as long share a niche.
enum class Parents : std::uint8_t { population, niches };
constexpr auto enum_names(Parents) {
  using enum Parents;
  return sim::names<Parents>({{"population", population}, {"niches", niches}});
}

struct GeneticParams {
  std::int64_t population = 40, elite = 2, tournament = 4;
  std::int64_t islands = 1, migrate_every = 5, migrants = 1;
  Parents parents = Parents::population;
  double crossover = 0.6, subtree = 0.15, point = 0.1, constant = 0.1;
  double parsimony = 0.001;

  static constexpr auto fields() {
    using sim::Unit;
    using G = GeneticParams;
    return sim::FieldTable{
        sim::field("population", &G::population, Unit::count, sim::between(2, 10'000), "Candidates per generation."),
        sim::field("islands", &G::islands, Unit::count, sim::between(1, 1000),
                   "Populations that divide the candidates of a generation and breed separately."),
        sim::field("migrate_every", &G::migrate_every, Unit::count, sim::between(1, 100'000),
                   "Generations after which the best of each island join the next island."),
        sim::field("migrants", &G::migrants, Unit::count, sim::between(0, 10'000),
                   "Number of candidates that each island passes on."),
        sim::field("parents", &G::parents,
                   "Which candidates breed. `population`: the last generation. `niches`: the best of each niche so far "
                   "(MAP-Elites)."),
        sim::field("elite", &G::elite, Unit::count, sim::between(0, 10'000),
                   "Best candidates of each island that are kept unchanged."),
        sim::field("tournament", &G::tournament, Unit::count, sim::between(1, 1000),
                   "Candidates drawn, the best of which becomes a parent."),
        sim::field("crossover", &G::crossover, Unit::ratio, sim::between(0, 1),
                   "Share of children with a subtree from another parent."),
        sim::field("subtree", &G::subtree, Unit::ratio, sim::between(0, 1), "Share of children with a random subtree."),
        sim::field("point", &G::point, Unit::ratio, sim::between(0, 1), "Share of children with one node changed."),
        sim::field("constant", &G::constant, Unit::ratio, sim::between(0, 1),
                   "Share of children with one number changed; the remainder to 1 are new trees."),
        sim::field("parsimony", &G::parsimony, Unit::ratio, sim::between(0, 1),
                   "Relative difference of fitness below which the smaller of two expressions wins.")};
  }
};

struct ProposerParams {
  std::int64_t candidates = 16;
  double limit_s = 30;

  static constexpr auto fields() {
    using P = ProposerParams;
    return sim::FieldTable{sim::field("candidates", &P::candidates, sim::Unit::count, sim::between(1, 10'000),
                                      "Most expressions taken from one answer."),
                           sim::field("limit", &P::limit_s, sim::Unit::seconds, sim::between(0.01, 86'400),
                                      "Time limit for an answer, in real time of the host.")};
  }
};

struct SearchParams {
  std::int64_t seed = 1, generations = 12;
  std::optional<std::int64_t> first_runs;
  double pass = 0.5;
  std::optional<double> evaluation_limit_s;

  static constexpr auto fields() {
    using S = SearchParams;
    return sim::FieldTable{
        sim::field("seed", &S::seed, sim::Unit::none, sim::at_least(0), "Seed of everything that the search draws."),
        sim::field("generations", &S::generations, sim::Unit::count, sim::between(1, 100'000),
                   "Rounds of candidates (generations), the first included."),
        sim::field("first_runs", &S::first_runs, sim::Unit::count, sim::at_least(1),
                   "Number of training runs that come first, so put cheap runs first. Only the best of a generation in "
                   "them go on to the others. null: every candidate goes through all runs."),
        sim::field("pass", &S::pass, sim::Unit::ratio, sim::between(0, 1),
                   "Share of a generation's new candidates that go on, rounded up."),
        sim::field("evaluation_limit", &S::evaluation_limit_s, sim::Unit::seconds, sim::positive(),
                   "Time limit for a run, in real time of the host, beyond which a candidate has no fitness; null: "
                   "none. With a limit, results depend on the host.")};
  }
};

/// `training` and `held_out`: variants times seeds.
struct ScenariosParams {
  std::vector<std::int64_t> seeds{1};
  std::string path = "run.seed";
  std::vector<sim::Node> variants;

  static constexpr auto fields() {
    using S = ScenariosParams;
    return sim::FieldTable{
        sim::field("seeds", &S::seeds, sim::Unit::none, sim::at_least(0), "Seeds; every variant is run with each."),
        sim::field("path", &S::path, sim::Unit::text, sim::any_value(), "Dotted path of the seed in the config."),
        sim::field("variants", &S::variants,
                   "Variants of the base: objects of \"path\": value, such as traces; empty: the base alone.")};
  }
};

/// One run of a candidate: what it changes of the base.
struct Scenario {
  std::string name;  ///< "seed 3", or "rate_scale=2, seed 3"
  std::vector<Assignment> assignments;
};

struct Baseline {
  std::string name;
  std::vector<Assignment> assignments;
};

struct EvolveStudy {
  std::string name;  ///< stem of the file
  std::filesystem::path file;
  std::string title;
  sim::Node base;
  std::string path;  ///< of the expression
  const policies::ExpressionSubject* subject = nullptr;
  ObjectiveParams objective;
  sim::Origin objective_origin;
  std::vector<sim::Origin> bound_origins;  ///< of the figures of bounds
  std::vector<Scenario> training, held_out;
  std::vector<Baseline> baselines;  ///< the first is the base as it stands
  std::vector<std::string> names;   ///< of the subject, by slot
  Material material;
  std::vector<std::string> starts;  ///< expressions of the first generation, beside random ones
  GeneticParams genetic;
  ProposerParams proposer;
  SearchParams search;
};

/// Reads a study with assignments laid over it ("base.run.seed=2" reaches the base). Throws sim::ConfigError with all
/// faults but those of the experiments that it makes, which the evaluator finds.
EvolveStudy read_evolve_study(const std::filesystem::path& file, const std::vector<std::string>& assignments = {});

/// JSON Schema of such files.
sim::Node evolve_schema();

/// A candidate's text read as a tree: nothing, and why, if it is no expression of this study or passes its bounds.
struct Refusal {
  enum class Kind : std::uint8_t { faulty, too_large, name };
  Kind kind = Kind::faulty;
  std::string why;
};
std::optional<Tree> read_candidate(const EvolveStudy& study, const std::string& text, Refusal& refusal);

}  // namespace orrery::experiments::evolve
