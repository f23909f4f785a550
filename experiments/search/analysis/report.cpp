#include "experiments/search/analysis/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/search/analysis/front.hpp"

namespace orrery::experiments::search {
namespace {

using sim::Node;

Node number(double value) {
  return std::isfinite(value) ? Node::real(value) : Node{};
}

Node numbers(const std::vector<double>& values, const Goal& goal = {}) {
  Node node = Node::array();
  for (const double value : values) node.push(number(goal.shown(value)));
  return node;
}

/// A value of each objective.
Node values_of(const std::vector<double>& values, const std::vector<ObjectiveReport>& objectives) {
  Node node = Node::array();
  for (std::size_t o = 0; o < values.size(); ++o) node.push(number(objectives[o].goal.shown(values[o])));
  return node;
}

Node count(std::size_t n) {
  return Node::integer(static_cast<std::int64_t>(n));
}

/// "12.5 after 4, 7 after 9, 3.1 after 31": where a history changes to the eye; of many places an even pick, both ends
/// included.
std::string changes(const std::vector<double>& history, std::size_t most, const Goal& goal = {}) {
  std::vector<std::string> steps;
  std::string last;
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (!std::isfinite(history[i])) continue;
    std::string value = sim::humanise(goal.shown(history[i]), goal.unit);
    if (value == last) continue;
    steps.push_back(fmt::format("{} after {}", value, i + 1));
    last = std::move(value);
  }
  const std::size_t shown = std::min(std::max<std::size_t>(2, most), steps.size());
  std::string text;
  for (std::size_t i = 0; i < shown; ++i)
    text += (text.empty() ? "" : ", ") + steps[shown == 1 ? 0 : i * (steps.size() - 1) / (shown - 1)];
  return text + (shown < steps.size() ? fmt::format(" ({} of {} steps)", shown, steps.size()) : "");
}

std::string importance_text(const ObjectiveReport& objective, std::size_t most) {
  const Importance& all = objective.importance;
  if (all.parameters.empty()) return fmt::format("  importance: {} trials are too few\n", all.trials);
  constexpr double kNothing = 0.01;  // a forest that does not foretell trials says nothing of parameters either
  if (!(all.explained >= kNothing))
    return fmt::format("  importance: a forest of {} trials explains nothing of unseen variance\n", all.trials);
  std::string text = fmt::format("  importance ({} of {} trials explains {:.0f} % of unseen variance)\n",
                                 all.process ? "Gaussian process" : "forest", all.trials, 100 * all.explained);
  std::vector<ParameterImportance> sorted = all.parameters;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.permutation > b.permutation; });
  text += fmt::format("    {:<24} {:>11} {:>11} {:>14}\n", "parameter", "main effect", "permutation", "range at best");
  for (std::size_t i = 0; i < std::min(most, sorted.size()); ++i)
    text += fmt::format("    {:<24} {:>10.1f}% {:>10.1f}% {:>14}\n", sorted[i].parameter, 100 * sorted[i].main_effect,
                        100 * sorted[i].permutation, sim::humanise(sorted[i].range_at_best, objective.goal.unit));
  for (std::size_t i = 0; i < std::min<std::size_t>(3, all.interactions.size()); ++i)
    if (all.interactions[i].share >= 0.01)
      text += fmt::format("    {} with {}: {:.1f}%\n", all.interactions[i].first, all.interactions[i].second,
                          100 * all.interactions[i].share);
  if (all.rest >= 0.01) text += fmt::format("    three and more together: {:.1f}%\n", 100 * all.rest);
  for (const Elementary& effect : objective.effects)
    if (effect.pairs > 0)
      text += fmt::format("    {} alone, over {} pairs: {} an interval, deviation {}\n", effect.parameter, effect.pairs,
                          sim::humanise(effect.mean, objective.goal.unit),
                          sim::humanise(effect.deviation, objective.goal.unit));
  return text;
}

Node importance_node(const ObjectiveReport& objective) {
  Node node = Node::object();
  node.set("trials", count(objective.importance.trials));
  node.set("model", Node::string(objective.importance.process ? "process" : "forest"));
  node.set("explained", number(objective.importance.explained));
  node.set("rest", number(objective.importance.rest));
  Node& parameters = node.set("parameters", Node::array());
  for (const ParameterImportance& p : objective.importance.parameters) {
    Node row = Node::object();
    row.set("parameter", Node::string(p.parameter));
    row.set("main_effect", number(p.main_effect));
    row.set("permutation", number(p.permutation));
    row.set("range_at_best", number(p.range_at_best));
    parameters.push(std::move(row));
  }
  Node& interactions = node.set("interactions", Node::array());
  for (const Interaction& pair : objective.importance.interactions) {
    Node row = Node::object();
    row.set("first", Node::string(pair.first));
    row.set("second", Node::string(pair.second));
    row.set("share", number(pair.share));
    interactions.push(std::move(row));
  }
  Node& effects = node.set("elementary_effects", Node::array());
  for (const Elementary& effect : objective.effects) {
    Node row = Node::object();
    row.set("parameter", Node::string(effect.parameter));
    row.set("pairs", count(effect.pairs));
    row.set("mean", number(effect.mean));
    row.set("deviation", number(effect.deviation));
    effects.push(std::move(row));
  }
  return node;
}

}  // namespace

AnalysisReport analyse(const Space& space, std::span<const Trial> trials, const std::vector<Goal>& goals,
                       const ImportanceOptions& options) {
  AnalysisReport report{.trials = trials.size()};
  for (const Trial& trial : trials) {
    const Evaluation& result = trial.result;
    ++(result.feasible()                          ? report.feasible
       : result.ok()                              ? report.over_a_limit
       : result.status == TrialStatus::infeasible ? report.infeasible
                                                  : report.failed);
  }
  report.front = pareto_front(trials);
  if (goals.size() > 1)
    if (auto reference = reference_behind(trials)) {
      report.reference = *std::move(reference);
      report.volumes = hypervolume_history(trials, report.reference);
    }
  for (std::size_t o = 0; o < goals.size(); ++o)
    report.objectives.push_back({goals[o], best_so_far(trials, o), importance(space, trials, o, options),
                                 elementary_effects(space, trials, o)});
  return report;
}

std::string analysis_text(const AnalysisReport& report, const Space& space, std::span<const Trial> trials,
                          std::size_t most) {
  std::string text = fmt::format("{} trials: {} feasible, {} over a limit, {} infeasible, {} failed\n", report.trials,
                                 report.feasible, report.over_a_limit, report.infeasible, report.failed);
  text += fmt::format("front: {} points\n", report.front.size());
  for (std::size_t k = 0; k < std::min(most, report.front.size()); ++k) {
    const Trial& trial = trials[report.front[k]];
    std::string values;
    for (std::size_t o = 0; o < trial.result.objectives.size(); ++o) {
      const Goal& goal = report.objectives[o].goal;
      values += fmt::format("{:>14}", sim::humanise(goal.shown(trial.result.objectives[o]), goal.unit));
    }
    text += fmt::format("  {:>6}{}  {}\n", report.front[k] + 1, values, space.text(trial.proposal.point));
  }
  if (!report.volumes.empty()) text += "hypervolume: " + changes(report.volumes, most) + "\n";
  for (const ObjectiveReport& objective : report.objectives) {
    text += fmt::format("{}{}\n  best: {}\n", objective.goal.name, objective.goal.maximise ? " (maximised)" : "",
                        changes(objective.best_so_far, most, objective.goal));
    text += importance_text(objective, most);
  }
  return text;
}

Node analysis_json(const AnalysisReport& report, const Space& space, std::span<const Trial> trials) {
  Node node = Node::object();
  Node& counts = node.set("trials", Node::object());
  counts.set("all", count(report.trials));
  counts.set("feasible", count(report.feasible));
  counts.set("over_a_limit", count(report.over_a_limit));
  counts.set("infeasible", count(report.infeasible));
  counts.set("failed", count(report.failed));
  Node& front = node.set("front", Node::array());
  for (const std::size_t i : report.front) {
    Node row = Node::object();
    row.set("trial", count(i + 1));
    row.set("objectives", values_of(trials[i].result.objectives, report.objectives));
    row.set("point", Node::string(space.text(trials[i].proposal.point)));
    front.push(std::move(row));
  }
  node.set("reference", values_of(report.reference, report.objectives));
  node.set("hypervolume", numbers(report.volumes));
  Node& objectives = node.set("objectives", Node::array());
  for (const ObjectiveReport& objective : report.objectives) {
    Node row = Node::object();
    row.set("name", Node::string(objective.goal.name));
    row.set("best_so_far", numbers(objective.best_so_far, objective.goal));
    row.set("importance", importance_node(objective));
    objectives.push(std::move(row));
  }
  return node;
}

}  // namespace orrery::experiments::search
