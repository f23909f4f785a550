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
                                 "Dotted path of a number in summary.json; its mean over the runs is bounded.")),
        sim::field("of", &B::of, sim::Unit::text, sim::any_value(),
                   "A baseline; the bound is then a ratio to its mean. Empty: the bound is the figure itself."),
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
    return sim::FieldTable{sim::required(sim::field("figure", &O::figure, sim::Unit::text, sim::any_value(),
                                                    "Dotted path of a number in summary.json.")),
                           sim::field("goal", &O::goal, "What is wanted of it."),
                           sim::field("bounds", &O::bounds,
                                      "Other figures to keep within bounds. Of two expressions the one that is less "
                                      "beyond them wins, whatever their figures.")};
  }
};

struct LimitsParams {
  std::int64_t nodes = 25, depth = 6;

  static constexpr auto fields() {
    using L = LimitsParams;
    return sim::FieldTable{sim::field("nodes", &L::nodes, sim::Unit::count, sim::between(1, 200),
                                      "Most numbers, names and functions in an expression."),
                           sim::field("depth", &L::depth, sim::Unit::count, sim::between(1, 20),
                                      "Most of them on the way from the whole to a leaf.")};
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
        sim::field("population", &G::population, Unit::count, sim::between(2, 10'000), "Candidates a generation."),
        sim::field("islands", &G::islands, Unit::count, sim::between(1, 1000),
                   "Populations that share the candidates of a generation and breed each by itself."),
        sim::field("migrate_every", &G::migrate_every, Unit::count, sim::between(1, 100'000),
                   "Generations after which the best of each island join the next one."),
        sim::field("migrants", &G::migrants, Unit::count, sim::between(0, 10'000), "How many of each do."),
        sim::field("parents", &G::parents, "Who breeds."),
        sim::field("elite", &G::elite, Unit::count, sim::between(0, 10'000),
                   "The best of each island that stay as they are."),
        sim::field("tournament", &G::tournament, Unit::count, sim::between(1, 1000),
                   "A parent is the best of so many drawn."),
        sim::field("crossover", &G::crossover, Unit::ratio, sim::between(0, 1),
                   "Share of children with a subtree of another parent."),
        sim::field("subtree", &G::subtree, Unit::ratio, sim::between(0, 1), "Share with a random subtree."),
        sim::field("point", &G::point, Unit::ratio, sim::between(0, 1), "Share with one node changed."),
        sim::field("constant", &G::constant, Unit::ratio, sim::between(0, 1),
                   "Share with one number changed; what is left of 1 are new trees."),
        sim::field("parsimony", &G::parsimony, Unit::ratio, sim::between(0, 1),
                   "Of two whose fitness differs by less than this share, the smaller wins.")};
  }
};

struct ProposerParams {
  std::int64_t candidates = 16;
  double limit_s = 30;

  static constexpr auto fields() {
    using P = ProposerParams;
    return sim::FieldTable{sim::field("candidates", &P::candidates, sim::Unit::count, sim::between(1, 10'000),
                                      "Most that are taken of one answer."),
                           sim::field("limit", &P::limit_s, sim::Unit::seconds, sim::between(0.01, 86'400),
                                      "Time of the host for an answer.")};
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
        sim::field("seed", &S::seed, sim::Unit::none, sim::at_least(0), "Of everything that the search draws."),
        sim::field("generations", &S::generations, sim::Unit::count, sim::between(1, 100'000),
                   "Rounds of candidates, the first included."),
        sim::field(
            "first_runs", &S::first_runs, sim::Unit::count, sim::at_least(1),
            "Training runs that come first; only the best of a generation there go on to the others, so put cheap "
            "runs first. Null: every candidate goes through all."),
        sim::field("pass", &S::pass, sim::Unit::ratio, sim::between(0, 1),
                   "Share of a generation's new candidates that go on, rounded up."),
        sim::field("evaluation_limit", &S::evaluation_limit_s, sim::Unit::seconds, sim::positive(),
                   "Time of the host for a run, past which the candidate has no fitness; null: none. With one, results "
                   "depend on the host.")};
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
        sim::field("seeds", &S::seeds, sim::Unit::none, sim::at_least(0), "A run of every variant with each."),
        sim::field("path", &S::path, sim::Unit::text, sim::any_value(), "Where the seed stands in the config."),
        sim::field("variants", &S::variants,
                   "What else differs: objects of \"path\": value, such as traces; none: the base alone.")};
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
