#include "experiments/study/trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/study/read_parts.hpp"

namespace orrery::experiments::study {
namespace {

using search::Parameter;

/// Which columns goals are read from.
struct Layout {
  std::vector<std::size_t> objectives;
};

[[noreturn]] void fault(const StoreReader& store, const std::string& message, const std::string& hint = {}) {
  sim::throw_fault({store.file().string(), ""}, message, hint);
}

/// What a cell means in a point: numbers are themselves, choices their index.
double value_of(const Parameter& parameter, const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return std::nan("");
  if (!parameter.has_choices()) return number_of(cell);
  const bool text = parameter.kind == search::ParameterKind::categorical;
  for (std::size_t i = 0; i < parameter.choices.size(); ++i)
    if (text ? parameter.choices[i].label == text_of(cell) : parameter.choices[i].number == number_of(cell))
      return static_cast<double>(i);
  return std::nan("");
}

Layout layout_of(const StoreReader& store, const search::Space& space, const std::vector<std::string>& wanted) {
  Layout layout;
  std::size_t parameters = 0;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < store.columns().size(); ++i) {
    const Column& column = store.columns()[i];
    if (column.kind == "parameter") ++parameters;
    if (column.kind != "objective") continue;
    known.push_back(heading(column));
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), known.back()) != wanted.end())
      layout.objectives.push_back(i);
  }
  if (parameters != space.size()) fault(store, "expected a column for each parameter of its study");
  if (known.empty()) fault(store, "the study has no objectives: nothing to analyse");
  for (const std::string& name : wanted)
    if (std::find(known.begin(), known.end(), name) == known.end())
      fault(store, fmt::format("unknown objective '{}'", name), sim::name_hint(name, known));
  return layout;
}

/// An objective that is a measure by itself says where that comes from, and so its unit.
std::string label_of(const StoreReader& store, const std::string& name) {
  for (const Column& column : store.columns())
    if (column.kind == "measure" && column.name == name && column.detail != name)
      return fmt::format("{} ({})", name, column.detail);
  return name;
}

std::string driver_of(StoreReader& store, const sim::Node& document) {
  if (store.fact("mode") == "sweep") return "sweep";
  const sim::Node* policy = document.at("search.driver.policy");
  return policy != nullptr && policy->is_string() ? policy->as_string() : "random";
}

/// What the store's study says of figures: its space, measures and goals.
Study judge_of(const StoreReader& store, const sim::Node& document) {
  sim::Faults faults;  // none: the study was read when the store was made
  Study judge{.name = store.study(), .file = store.file(), .document = document};
  judge.space = read_space(document);
  judge.measures = read_measures(document, faults);
  read_goals(document, judge, nullptr, faults);
  faults.throw_if_any();
  return judge;
}

/// Objectives are the stored ones; how much room limits leave, which stores do not keep, is judged again.
search::Trial trial_of(const PointRow& row, const Layout& layout, std::span<const Column> columns,
                       const StoredTrials& stored, const Study& judge) {
  search::Trial trial{{{}, row.fidelity}, {.status = row.status, .reason = row.reason}};
  trial.proposal.point = stored_point(stored.space, columns, row);
  std::vector<double> figures;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].kind == "measure") figures.push_back(number_of(row.cells[i]));
  if (ended_early(row.reason, figures))
    trial.result.margins = judge.judge_ended(trial.proposal.point, figures, {}).margins;
  if (!trial.result.ok()) return trial;
  for (std::size_t o = 0; o < layout.objectives.size(); ++o)
    trial.result.objectives.push_back(stored.goals[o].shown(number_of(row.cells[layout.objectives[o]])));
  if (judge.limits.empty() || ended_early(row.reason, figures)) return trial;
  trial.result.margins = judge.judge(trial.proposal.point, figures).margins;
  return trial;
}

}  // namespace

search::Point stored_point(const search::Space& space, std::span<const Column> columns, const PointRow& row) {
  search::Point point;
  for (std::size_t i = 0; i < columns.size() && point.size() < space.size(); ++i)
    if (columns[i].kind == "parameter") point.push_back(value_of(space.parameters()[point.size()], row.cells[i]));
  return point;
}

StoredTrials read_trials(StoreReader& store, const std::vector<std::string>& objectives) {
  const sim::Node document = sim::parse_json(store.fact("document"), store.file().string());
  StoredTrials stored{.file = store.file(),
                      .study = store.study(),
                      .driver = driver_of(store, document),
                      .space = read_space(document)};
  sim::Faults faults;  // none: the study was read when the store was made
  stored.fidelity = read_fidelity(document, faults);
  if (const sim::Node* seeds = document.find("seeds"); seeds != nullptr) {
    const auto params = sim::parse_params<SeedsParams>(*seeds, faults);
    stored.seed = {params.path, sim::Node::integer(params.first)};
  }
  const Layout layout = layout_of(store, stored.space, objectives);
  const Study judge = judge_of(store, document);
  for (const std::size_t i : layout.objectives) {
    const Column& column = store.columns()[i];
    stored.goals.push_back({heading(column), column.detail == "maximise", unit_of(column, store.columns())});
    stored.labels.push_back(label_of(store, heading(column)));
  }
  store.for_each([&](const PointRow& row) {
    stored.trials.push_back(trial_of(row, layout, store.columns(), stored, judge));
    stored.repeats.push_back(row.repeat);
  });
  if (stored.trials.empty()) fault(store, "the store has no points yet");
  return stored;
}

}  // namespace orrery::experiments::study
