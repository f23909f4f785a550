// Design knobs: every step is a whole design, tried in a simulator, as ArchGym plays architecture search.
//
// The space, the simulator and what is good come from a study (docs/explain/studies.md). An action has a part for each
// parameter of its space: the index of a choice or of a whole number, of reals one of `bins` values. The reward is the
// study's first objective, greater being better (its sign changed if it is to be minimised), less `penalty` times what
// the limits are broken by; a design that is not allowed, does not fit or fails gets -`penalty`. The observation is the
// measures of the last design over those of the first allowed one that the episode tried (1 until then), cut to
// [0, 10], and whether the last design was feasible. An episode has `steps` steps. Designs that mean the same are run
// once in the life of an environment, with the study's first seed: the design's figures are no lottery. `agents: split`
// of system rl makes it one agent a parameter. Source of the setting: Krishnan et al., "ArchGym", ISCA 2023.
#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "experiments/base/experiment.hpp"
#include "experiments/claims/figure.hpp"
#include "experiments/rl/core/env.hpp"
#include "experiments/study/study.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr double kMostSeen = 10;
constexpr std::uint64_t kMostChoices = 4096;  // of a parameter

struct DesignParams {
  std::string study;
  std::vector<std::string> set;
  std::int64_t steps = 100, bins = 8;
  double penalty = 1;

  static constexpr auto fields() {
    using P = DesignParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("study", &P::study, Unit::path, sim::any_value(),
                   "Study file (kind study); empty: the built-in study dram_controller."),
        sim::field("set", &P::set, Unit::text, sim::any_value(), "Changes to the study, as for --set."),
        sim::field("steps", &P::steps, Unit::count, sim::between(1, 1e6), "Designs of an episode."),
        sim::field("bins", &P::bins, Unit::count, sim::between(2, 1024), "Values to choose from for a real parameter."),
        sim::field("penalty", &P::penalty, Unit::none, sim::at_least(0),
                   "Penalty for a design that is not possible; for a design that violates limits, it is multiplied by "
                   "the violation."),
    };
  }
};

/// What came of a design.
struct Tried {
  bool feasible = false;
  double reward = 0;
  std::vector<double> measures;  ///< NaN where there is none
};

study::Study read(const DesignParams& params, const Systems& systems) {
  const std::filesystem::path shipped = home_folder() / "experiments/studies/dram_controller.json";
  study::Study study =
      study::read_study(systems, params.study.empty() ? shipped : std::filesystem::path(params.study), params.set);
  if (study.objectives.empty()) throw std::invalid_argument("expected a study with an objective");
  if (study.space.size() == 0) throw std::invalid_argument("expected a study with parameters");
  return study;
}

class DesignEnv final : public Env {
 public:
  DesignEnv(const DesignParams& params, const Systems& systems) : params_(params), study_(read(params, systems)) {
    std::vector<std::int64_t> choices;
    std::vector<std::string> names;
    for (const search::Parameter& parameter : study_.space.parameters()) {
      const std::uint64_t levels = parameter.levels().value_or(static_cast<std::uint64_t>(params.bins));
      if (levels > kMostChoices)
        throw std::invalid_argument("expected at most 4096 values of '" + parameter.name + "', got " +
                                    std::to_string(levels));
      choices.push_back(static_cast<std::int64_t>(levels));
      names.push_back(parameter.name);
    }
    AgentSpec agent{.name = "designer", .action = ActionSpace::multi_discrete(std::move(choices), std::move(names))};
    for (const Measure& measure : study_.measures) agent.observation.push_back({measure.name, 0, kMostSeen});
    agent.observation.push_back({"feasible", 0, 1});
    spec_.agents.push_back(std::move(agent));
    spec_.info = {"best"};
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t, TimeStep& out) override {
    taken_ = 0;
    best_ = std::nan("");
    scale_.clear();
    show(Tried{.measures = std::vector<double>(study_.measures.size(), std::nan(""))}, out);
    out.rewards[0] = 0;
  }

  void step(std::span<const double> action, TimeStep& out) override {
    const Tried& tried = attempt(design(action));
    ++taken_;
    if (std::isnan(best_) || tried.reward > best_) best_ = tried.reward;
    if (scale_.empty() && tried.feasible) scale_ = tried.measures;
    show(tried, out);
    out.rewards[0] = tried.reward;
    out.truncated = taken_ == params_.steps;
  }

 private:
  search::Point design(std::span<const double> action) const {
    search::Point point(action.begin(), action.end());
    for (std::size_t i = 0; i < point.size(); ++i) {
      const search::Parameter& parameter = study_.space.parameters()[i];
      if (parameter.has_choices()) continue;
      if (parameter.levels())
        point[i] += parameter.low;
      else
        point[i] = study_.space.from_unit(i, point[i] / static_cast<double>(params_.bins - 1));
    }
    return study_.space.canonical(std::move(point));
  }

  const Tried& attempt(const search::Point& point) {
    const auto [place, fresh] = known_.try_emplace(study_.space.key(point));
    if (fresh) place->second = run(point);
    return place->second;
  }

  Tried run(const search::Point& point) const {
    Tried tried{.reward = -params_.penalty};
    tried.measures.assign(study_.measures.size(), std::nan(""));
    if (!study_.space.allowed(point)) return tried;
    try {
      const Outcome outcome = study_.read(study_.config(point, 1, study_.seeds.first))->run({});
      if (!outcome.feasible()) return tried;
      for (std::size_t i = 0; i < study_.measures.size(); ++i) {
        const auto found = claims::find_figure(outcome.summary, study_.measures[i].path).found;
        if (found != nullptr && found->is_number()) tried.measures[i] = found->as_number();
      }
    } catch (const sim::ConfigError&) {
      return tried;  // a design that cannot be built
    }
    const search::Evaluation verdict = study_.judge(point, tried.measures);
    if (!verdict.ok()) return tried;
    tried.feasible = verdict.violation() == 0;
    tried.reward = -verdict.objectives[0] - params_.penalty * verdict.violation();  // objectives are minimised
    return tried;
  }

  void show(const Tried& tried, TimeStep& out) const {
    clear_step(spec_, out);
    for (std::size_t i = 0; i < tried.measures.size(); ++i) {
      const double scale = scale_.empty() ? std::nan("") : scale_[i];
      const double seen = scale != 0 ? tried.measures[i] / scale : 1;
      out.observation[i] = std::isnan(seen) ? 1 : std::clamp(seen, 0.0, kMostSeen);
    }
    out.observation.back() = tried.feasible ? 1 : 0;
    out.info[0] = best_;
  }

  DesignParams params_;
  study::Study study_;
  EnvSpec spec_;
  std::map<std::string, Tried> known_;
  std::vector<double> scale_;
  std::int64_t taken_ = 0;
  double best_ = 0;
};

}  // namespace

void add_design_env(EnvRegistry& registry) {
  registry.add<DesignParams>(
      "design", "Every step chooses a whole design from the space of a study and evaluates it in a simulator.",
      [](const DesignParams& params, const Systems& systems) { return std::make_unique<DesignEnv>(params, systems); });
}

}  // namespace orrery::experiments::rl
