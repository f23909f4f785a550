// Analyses as tables for people and as JSON.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "experiments/study/analysis.hpp"
#include "experiments/study/stored_point.hpp"

namespace orrery::experiments::study {
namespace {

using search::Goal;
using search::Parameter;
using search::Trial;
using sim::Node;

Node number(double value) {
  return std::isfinite(value) ? Node::real(value) : Node{};
}

Node count(std::size_t n) {
  return Node::integer(static_cast<std::int64_t>(n));
}

Node shown(const std::vector<double>& values, const std::vector<Goal>& goals) {
  Node node = Node::array();
  for (std::size_t i = 0; i < values.size(); ++i) node.push(number(goals[i].shown(values[i])));
  return node;
}

Node history_node(const std::vector<double>& history, const Goal& goal = {}) {
  Node node = Node::array();
  for (const double value : history) node.push(number(goal.shown(value)));
  return node;
}

/// Share of the joint volume that each search reached, in percent.
std::vector<double> shares(const StudyAnalysis& analysis, const StoreAnalysis& store) {
  std::vector<double> all;
  for (const SearchHistory& history : store.searches)
    if (analysis.joint_volume > 0) all.push_back(100 * history.volumes.back() / analysis.joint_volume);
  return all;
}

/// The last best value of each search that has one.
std::vector<double> last_best(const StoreAnalysis& store, std::size_t objective) {
  std::vector<double> all;
  for (const SearchHistory& history : store.searches)
    if (const double value = history.best[objective].back(); std::isfinite(value))
      all.push_back(store.stored.goals[objective].shown(value));
  return all;
}

std::string comparison_text(const StudyAnalysis& analysis) {
  const std::vector<Goal>& goals = analysis.stores[0].stored.goals;
  const bool several = goals.size() > 1;
  std::vector<std::vector<std::string>> rows(1);
  rows[0] = {"study", "driver", "searches", "points", "feasible"};
  if (several) rows[0].insert(rows[0].end(), {"front", "of joint front", "% of joint volume"});
  for (const Goal& goal : goals) rows[0].push_back("best " + goal.name);
  for (const StoreAnalysis& store : analysis.stores) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {store.stored.study, store.stored.driver, fmt::format("{}", store.searches.size()),
           fmt::format("{}", store.report.trials), fmt::format("{}", store.report.feasible)};
    if (several) {
      row.push_back(fmt::format("{}", store.report.front.size()));
      row.push_back(fmt::format("{} of {}", store.of_joint_front, analysis.joint_front));
      row.push_back(spread_text(shares(analysis, store)));
    }
    for (std::size_t o = 0; o < goals.size(); ++o) row.push_back(spread_text(last_best(store, o), goals[o].unit));
  }
  return table_text(rows);
}

/// Where each value of a parameter that is worth naming stands in its interval.
Node ticks_of(const search::Space& space, std::size_t p) {
  const Parameter& parameter = space.parameters()[p];
  Node ticks = Node::array();
  const auto add = [&](double value, const std::string& label) {
    Node tick = Node::array();
    tick.push(Node::real(space.to_unit(p, value)));
    tick.push(Node::string(label));
    ticks.push(std::move(tick));
  };
  if (parameter.has_choices()) {
    for (std::size_t i = 0; i < parameter.choices.size(); ++i) add(static_cast<double>(i), parameter.choices[i].label);
    return ticks;
  }
  constexpr int kTicks = 4;
  for (int i = 0; i <= kTicks; ++i) {
    const double share = static_cast<double>(i) / kTicks;
    double value = parameter.log ? parameter.low * std::pow(parameter.high / parameter.low, share)
                                 : parameter.low + share * (parameter.high - parameter.low);
    if (parameter.kind == search::ParameterKind::integer) value = std::round(value);
    add(value, fmt::format("{:.4g}", value));
  }
  return ticks;
}

Node parameters_node(const search::Space& space) {
  Node node = Node::array();
  for (std::size_t p = 0; p < space.size(); ++p) {
    Node row = Node::object();
    row.set("name", Node::string(space.parameters()[p].name));
    row.set("unit", Node::string(std::string(sim::symbol(space.parameters()[p].unit))));
    row.set("ticks", ticks_of(space, p));
    node.push(std::move(row));
  }
  return node;
}

Node trial_node(const StoreAnalysis& store, std::size_t i) {
  const Trial& trial = store.stored.trials[i];
  Node row = Node::object();
  row.set("search", Node::integer(store.stored.repeats[i]));
  row.set("status", Node::string(std::string(sim::to_string(trial.result.status))));
  row.set("feasible", Node::boolean(trial.result.feasible()));
  row.set("fidelity", Node::real(trial.proposal.fidelity));
  row.set("objectives", shown(trial.result.objectives, store.stored.goals));
  Node units = Node::array();  // null where a parameter does not count
  for (std::size_t p = 0; p < store.stored.space.size(); ++p) {
    const double value = trial.proposal.point[p];
    units.push(std::isnan(value) ? Node{} : Node::real(store.stored.space.to_unit(p, value)));
  }
  row.set("units", std::move(units));
  return row;
}

/// Settings of every trial, each text once: `texts`, and the places of a trial's in them.
Node settings_node(const StoredTrials& stored) {
  std::map<std::string, std::int64_t> places;
  Node texts = Node::array(), trials = Node::array();
  for (std::size_t i = 0; i < stored.trials.size(); ++i) {
    Node of_trial = Node::array();
    for (std::string& text : settings_of(stored, i)) {
      const auto [place, fresh] = places.emplace(std::move(text), std::ssize(places));
      if (fresh) texts.push(Node::string(place->first));
      of_trial.push(Node::integer(place->second));
    }
    trials.push(std::move(of_trial));
  }
  Node node = Node::object();
  node.set("texts", std::move(texts));
  node.set("trials", std::move(trials));
  return node;
}

/// The study's file and the config that settings are laid over; why not, where the file is not there or has changed.
void add_base(Node& node, const StoredTrials& stored, const Systems& systems) {
  try {
    StoreReader reader(stored.file);
    const Study study = study_of(systems, reader);
    node.set("study_file", Node::string(study.file.string()));
    node.set("base", study.base);
  } catch (const sim::ConfigError& error) {
    node.set("study_fault", Node::string(error.faults().front().text()));
  }
}

Node searches_node(const StoreAnalysis& store) {
  Node searches = Node::array();
  for (const SearchHistory& history : store.searches) {
    Node row = Node::object();
    row.set("hypervolume", history_node(history.volumes));
    Node& best = row.set("best_so_far", Node::array());
    for (std::size_t o = 0; o < history.best.size(); ++o)
      best.push(history_node(history.best[o], store.stored.goals[o]));
    searches.push(std::move(row));
  }
  return searches;
}

Node store_node(const StudyAnalysis& analysis, const StoreAnalysis& store, const Systems* points) {
  Node node = Node::object();
  node.set("file", Node::string(store.stored.file.string()));
  node.set("study", Node::string(store.stored.study));
  node.set("driver", Node::string(store.stored.driver));
  node.set("of_joint_front", count(store.of_joint_front));
  Node& share = node.set("joint_volume_percent", Node::array());
  for (const double value : shares(analysis, store)) share.push(number(value));
  node.set("searches", searches_node(store));
  node.set("analysis", search::analysis_json(store.report, store.stored.space, store.stored.trials));
  if (points == nullptr) return node;
  node.set("parameters", parameters_node(store.stored.space));
  add_base(node, store.stored, *points);
  node.set("settings", settings_node(store.stored));
  Node& trials = node.set("trials", Node::array());
  for (std::size_t i = 0; i < store.stored.trials.size(); ++i) trials.push(trial_node(store, i));
  return node;
}

}  // namespace

std::string study_analysis_text(const StudyAnalysis& analysis, std::size_t most) {
  const bool several = analysis.stores.size() > 1 || analysis.stores[0].searches.size() > 1;
  std::string text = several ? comparison_text(analysis) : "";
  for (const StoreAnalysis& store : analysis.stores) {
    if (several) text += fmt::format("\n{} ({})\n", store.stored.file.string(), store.stored.driver);
    text += search::analysis_text(store.report, store.stored.space, store.stored.trials, most);
  }
  return text;
}

Node study_analysis_json(const StudyAnalysis& analysis, const Systems* points) {
  const StoredTrials& first = analysis.stores[0].stored;
  Node root = Node::object();
  Node& objectives = root.set("objectives", Node::array());
  for (std::size_t o = 0; o < first.goals.size(); ++o) {
    Node row = Node::object();
    row.set("name", Node::string(first.goals[o].name));
    row.set("label", Node::string(first.labels[o]));
    row.set("maximise", Node::boolean(first.goals[o].maximise));
    objectives.push(std::move(row));
  }
  root.set("reference", shown(analysis.reference, first.goals));
  root.set("joint_volume", number(analysis.joint_volume));
  root.set("joint_front", count(analysis.joint_front));
  Node& stores = root.set("stores", Node::array());
  for (const StoreAnalysis& store : analysis.stores) stores.push(store_node(analysis, store, points));
  return root;
}

}  // namespace orrery::experiments::study
