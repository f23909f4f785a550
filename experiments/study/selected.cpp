#include "experiments/study/selected.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "experiments/search/ranking.hpp"
#include "experiments/study/stored_point.hpp"

namespace orrery::experiments::study {
namespace {

namespace fs = std::filesystem;
using search::Standing;
using sim::Node;

constexpr const char* kDriver = "select";
constexpr std::int64_t kFreshSeeds = 1'000'000;  ///< after the last seed that a store's own runs have

std::optional<search::SelectionParams> params_of(const Node& document) {
  const Node* driver = document.at("search.driver");
  const Node* policy = driver != nullptr ? driver->find("policy") : nullptr;
  if (policy == nullptr || !policy->is_string() || policy->as_string() != kDriver) return std::nullopt;
  const Node* own = driver->find(kDriver);
  sim::Faults faults;  // none: the study was read when the store was made
  return own != nullptr ? sim::parse_params<search::SelectionParams>(*own, faults) : search::SelectionParams{};
}

/// "best", "worse than 4" …
std::string standing_text(const SelectedCandidate& one, double within, bool decided) {
  switch (one.standing) {
    case Standing::best:
      return "best";
    case Standing::within:
      return fmt::format("within {:.3g} % of it", 100 * within);
    case Standing::contending:
      return decided ? "limits not known" : "contends";
    case Standing::equal:
      return fmt::format("equals {}", one.by);
    case Standing::worse:
      return fmt::format("worse than {}", one.by);
    default:
      return one.reason;
  }
}

/// Why a candidate did not run, or which limit it breaks.
std::string reason_of(const search::Selection& selection, std::size_t candidate, const std::vector<Column>& columns) {
  if (selection.standing(candidate) != Standing::over) return selection.reason(candidate);
  std::size_t limit = selection.sent_away_by(candidate);
  const double over = selection.mean_margin(candidate, limit);
  for (const Column& column : columns)
    if (column.kind == "limit" && limit-- == 0)
      return fmt::format("breaks {} by {:.3g} % in the mean", column.name.substr(std::string("limit_").size()),
                         100 * over);
  return "breaks a limit";
}

std::size_t contending(const Selected& selected) {
  return static_cast<std::size_t>(std::count_if(selected.candidates.begin(), selected.candidates.end(),
                                                [](auto& one) { return one.standing == Standing::contending; }));
}

std::int64_t all_runs(const Selected& selected) {
  return std::ssize(selected.stored.trials);
}

std::string verdict_text(const Selected& selected) {
  const std::string how = fmt::format("to within {:.3g} % at {:.4g} % confidence", 100 * selected.params.within,
                                      100 * selected.params.confidence);
  const Standing first = selected.candidates[0].standing;
  if (selected.decided && first != Standing::best)
    return fmt::format("none of {} candidates meets the limits and runs", selected.candidates.size());
  if (selected.decided)
    return fmt::format("best of {} candidates by {} {}: known after {} runs", selected.candidates.size(),
                       selected.stored.goals[0].name, how, all_runs(selected));
  return fmt::format("{} of {} candidates contend for the best by {} {} after {} runs: more runs decide",
                     contending(selected), selected.candidates.size(), selected.stored.goals[0].name, how,
                     all_runs(selected));
}

/// A choice as its study states it: a number, else a text.
Node choice_node(const Choice& choice) {
  double number = 0;
  const char* end = choice.label.data() + choice.label.size();
  const auto [read, error] = std::from_chars(choice.label.data(), end, number);
  return !choice.text && error == std::errc() && read == end ? sim::parse_json(choice.label, "choice")
                                                             : Node::string(choice.label);
}

/// A point as `search.first` has it; what does not count is left out.
Node point_node(const search::Space& space, const search::Point& point) {
  Node node = Node::object();
  for (std::size_t i = 0; i < space.size(); ++i) {
    const search::Parameter& parameter = space.parameters()[i];
    if (std::isnan(point[i])) continue;
    if (parameter.has_choices())
      node.set(parameter.name, choice_node(parameter.choices[static_cast<std::size_t>(point[i])]));
    else if (sim::has_dimension(parameter.unit))
      node.set(parameter.name, Node::string(sim::format_quantity(point[i], parameter.unit)));
    else if (parameter.kind == search::ParameterKind::integer)
      node.set(parameter.name, Node::integer(static_cast<std::int64_t>(point[i])));
    else
      node.set(parameter.name, Node::real(point[i]));
  }
  return node;
}

/// The best points of a store that ran in full, as `search.first`.
Node best_points_node(const Study& study, const StoredTrials& stored, std::size_t most) {
  Node points = Node::array();
  std::vector<const search::Evaluation*> results;
  for (const search::Trial& trial : stored.trials) results.push_back(&trial.result);
  std::set<std::string> taken;
  for (const std::size_t i : search::best_first(results)) {
    const search::Trial& trial = stored.trials[i];
    if (!trial.result.ok() || taken.size() == most) break;
    if (trial.proposal.fidelity < 1 || !taken.insert(study.space.key(trial.proposal.point)).second) continue;
    points.push(point_node(study.space, trial.proposal.point));
  }
  return points;
}

/// The study's document with a parameter that holds the seed in place of `seeds`.
Node with_replicates(const Study& study, std::int64_t runs) {
  Node document = study.document;
  for (const char* key : {"sweep", "seeds", "bottlenecks"}) document.erase(key);
  const std::int64_t first = study.seeds.first + study.seeds.count + kFreshSeeds;
  Node range = Node::array();
  range.push(Node::integer(first));
  range.push(Node::integer(first + runs));
  Node seed = Node::object();
  seed.set("name", Node::string(search::SelectionParams{}.over));
  seed.set("path", Node::string(study.seeds.path));
  seed.set("type", Node::string("integer"));
  seed.set("range", std::move(range));
  Node parameters = *document.find("parameters");
  parameters.push(std::move(seed));
  document.set("parameters", std::move(parameters));
  if (Node* limits = document.find("limits"))  // what is compared are figures, which a run that ends early has not
    for (Node& limit : limits->items()) limit.erase("end_at");
  return document;
}

}  // namespace

bool is_selection(const fs::path& file) {
  if (!is_store(file)) return false;
  Database database(file, false);
  Statement facts = database.prepare("SELECT value FROM facts WHERE name = 'document'");
  return facts.step() && params_of(sim::parse_json(facts.text(0), file.string())).has_value();
}

std::optional<Selected> read_selected(const fs::path& file) {
  if (!is_selection(file)) return std::nullopt;
  StoreReader store(file);
  const Node document = sim::parse_json(store.fact("document"), file.string());
  const auto params = store.fact("mode") == "search" ? params_of(document) : std::nullopt;
  bool any = false;
  store.for_each([&](const PointRow&) { any = true; });
  if (!params || !any) return std::nullopt;
  Selected selected{.stored = read_trials(store, {}), .params = *params};
  const StoredTrials& stored = selected.stored;
  std::size_t limits = 0;
  for (const search::Trial& trial : stored.trials) limits = std::max(limits, trial.result.margins.size());
  search::PointSelection points(stored.space, limits, *params);
  for (const search::Trial& trial : stored.trials) points.add(trial.proposal.point);
  points.begin();
  const std::size_t over = search::replicate_parameter(stored.space, params->over);
  const double lowest = stored.space.parameters()[over].low;
  std::map<std::string, std::int64_t> first_ids;
  const auto key = [&](search::Point point) {
    point[over] = lowest;
    return stored.space.key(point);
  };
  for (std::size_t i = 0; i < stored.trials.size(); ++i) {
    const search::Trial& trial = stored.trials[i];
    first_ids.emplace(key(trial.proposal.point), static_cast<std::int64_t>(i) + 1);
    points.hear(trial.proposal.point, trial.result);
  }
  const search::Selection& selection = points.selection();
  selected.decided = selection.decided();
  const double sign = stored.goals[0].maximise ? -1 : 1;
  const auto id_of = [&](std::size_t i) { return first_ids.at(key(points.candidates()[i])); };
  const std::vector<std::size_t> order = selection.order();
  const auto beaten = [&](std::size_t i) {
    const Standing standing = selection.standing(i);
    return standing == Standing::worse || standing == Standing::equal || standing == Standing::within;
  };
  for (const std::size_t i : order) {
    const search::MeanInterval mean = selection.mean(i), apart = selection.difference(i, order[0]);
    selected.candidates.push_back({.id = id_of(i),
                                   .point = points.candidates()[i],
                                   .standing = selection.standing(i),
                                   .by = beaten(i) ? id_of(selection.sent_away_by(i)) : 0,
                                   .runs = selection.runs(i),
                                   .mean = {sign * mean.mean, mean.half},
                                   .difference = {sign * apart.mean, apart.half},
                                   .reason = reason_of(selection, i, store.columns())});
  }
  return selected;
}

std::string selected_text(const Selected& selected) {
  const search::Space& space = selected.stored.space;
  const sim::Unit unit = selected.stored.goals[0].unit;
  std::vector<std::vector<std::string>> rows(1);
  rows[0].emplace_back("point");
  for (const search::Parameter& parameter : space.parameters())
    if (parameter.name != selected.params.over) rows[0].push_back(parameter.name);
  for (const std::string& name : {"mean " + selected.stored.goals[0].name, std::string("to the best"),
                                  std::string("runs"), std::string("standing")})
    rows[0].push_back(name);
  const auto interval = [&](const search::MeanInterval& one) {
    if (!std::isfinite(one.mean)) return std::string("-");
    const std::string mean = number_text(one.mean, unit);
    return std::isfinite(one.half) ? mean + " ± " + number_text(one.half, unit) : mean;
  };
  for (const SelectedCandidate& one : selected.candidates) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(fmt::format("{}", one.id));
    for (std::size_t i = 0; i < space.size(); ++i) {
      const search::Parameter& parameter = space.parameters()[i];
      if (parameter.name == selected.params.over) continue;
      row.push_back(std::isnan(one.point[i])  ? "-"
                    : parameter.has_choices() ? parameter.choices[static_cast<std::size_t>(one.point[i])].label
                                              : number_text(one.point[i], parameter.unit));
    }
    row.push_back(interval(one.mean));
    row.push_back(&one == &selected.candidates[0] ? "" : interval(one.difference));
    row.push_back(fmt::format("{}", one.runs));
    row.push_back(standing_text(one, selected.params.within, selected.decided));
  }
  return fmt::format("{}: {}\n\n{}", selected.stored.study, verdict_text(selected), table_text(rows));
}

Node selected_json(const Selected& selected) {
  Node root = Node::object();
  root.set("study", Node::string(selected.stored.study));
  Node objective = Node::object();
  objective.set(selected.stored.goals[0].maximise ? "maximise" : "minimise",
                Node::string(selected.stored.goals[0].name));
  root.set("objective", std::move(objective));
  root.set("within", Node::real(selected.params.within));
  root.set("confidence", Node::real(selected.params.confidence));
  root.set("decided", Node::boolean(selected.decided));
  root.set("runs", Node::integer(all_runs(selected)));
  Node candidates = Node::array();
  for (const SelectedCandidate& one : selected.candidates) {
    Node node = Node::object();
    node.set("id", Node::integer(one.id));
    Node parameters = point_node(selected.stored.space, one.point);
    parameters.erase(selected.params.over);
    node.set("parameters", std::move(parameters));
    node.set("mean", one.runs > 0 ? Node::real(one.mean.mean) : Node{});
    node.set("half_width", std::isfinite(one.mean.half) ? Node::real(one.mean.half) : Node{});
    node.set("to_the_best", std::isfinite(one.difference.mean) ? Node::real(one.difference.mean) : Node{});
    node.set("to_the_best_half_width", std::isfinite(one.difference.half) ? Node::real(one.difference.half) : Node{});
    node.set("runs", Node::integer(one.runs));
    node.set("standing", Node::string(std::string(sim::to_string(one.standing))));
    node.set("sent_away_by", one.by > 0 ? Node::integer(one.by) : Node{});
    node.set("reason", one.reason.empty() ? Node{} : Node::string(one.reason));
    candidates.push(std::move(node));
  }
  root.set("candidates", std::move(candidates));
  return root;
}

void check_selection(const Study& study) {
  if (study.search.driver.name != kDriver) return;
  const auto fault = [&](const char* pointer, const std::string& message, const std::string& hint = {}) {
    sim::throw_fault({study.file.string(), pointer}, message, hint);
  };
  sim::Faults faults;
  const auto params = sim::parse_params<search::SelectionParams>(study.search.driver.params, faults);
  if (study.objectives.size() != 1)
    fault("/objectives", fmt::format("driver 'select' compares by one objective, got {}", study.objectives.size()),
          "`orrery search --set objectives=[…]` keeps one");
  if (!study.ends().empty())
    fault("/limits", "driver 'select' compares figures of whole runs, and 'end_at' ends them", "leave 'end_at' out");
  try {
    (void)search::replicate_parameter(study.space, params.over);
    if (study.first.empty()) (void)search::selection_candidates(study.space, params.over);
  } catch (const sim::ConfigError& error) {
    const sim::Fault& first = error.faults().front();
    fault("/search/driver", first.message, first.hint);
  }
}

Study confirming_study(const Systems& systems, const Study& study, const fs::path& file,
                       const ConfirmOptions& options) {
  StoreReader store(file);
  const auto fault = [&](const std::string& message, const std::string& hint = {}) {
    sim::throw_fault({file.string(), ""}, message, hint);
  };
  if (study.objectives.size() != 1)
    fault(fmt::format("confirming compares by one objective, the study has {}", study.objectives.size()));
  if (study.search.driver.name == kDriver && store.fact("mode") == "search")
    fault("the store is a selection already", "more of `search.budget` goes on with it");
  Node points = best_points_node(study, read_trials(store, {}), options.candidates);
  if (points.items().empty()) fault("no point of the store has a result to confirm");
  Node document = with_replicates(study, options.runs);
  Node settings = Node::object();
  settings.set("within", Node::real(options.within));
  settings.set("confidence", Node::real(options.confidence));
  Node driver = Node::object();
  driver.set("policy", Node::string(kDriver));
  driver.set(kDriver, std::move(settings));
  Node search = Node::object();
  search.set("driver", std::move(driver));
  search.set("budget", Node::integer(options.runs));
  search.set("batch", Node::integer(static_cast<std::int64_t>(options.batch)));
  search.set("first", std::move(points));
  document.set("search", std::move(search));
  std::vector<std::string> over_base;
  for (const std::string& text : study.assignments)
    if (text.starts_with("base.")) over_base.push_back(text);
  const std::string name = study.name + std::string(kConfirmSuffix) + ".json";
  Study made = read_study(systems, std::move(document), study.file.parent_path() / name, over_base);
  made.base = study.base;  // of a study that was made in Python, with its policies
  made.read = study.read;
  return made;
}

Study confirming_study(const Systems& systems, const fs::path& file, const ConfirmOptions& options) {
  StoreReader store(file);
  return confirming_study(systems, study_of(systems, store, options.study), file, options);
}

std::optional<Selected> selected_of(std::span<const fs::path> files) {
  return files.size() == 1 ? read_selected(files[0]) : std::nullopt;
}

sim::Node best_answer_json(std::span<const fs::path> files, std::size_t top) {
  const auto selected = selected_of(files);
  return selected ? selected_json(*selected) : best_json(best_points(files, top));
}

}  // namespace orrery::experiments::study
