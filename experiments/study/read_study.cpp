// The reader of studies: every fault of a file at once, each with its place.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/study/read_parts.hpp"

namespace orrery::experiments::study {
namespace {

using search::Parameter;
using search::ParameterKind;
using sim::Faults;
using sim::Node;

constexpr double kMostInteger = 9007199254740992.0;  // 2^53: every whole number up to here is a double

/// A number, or a quantity with its dimension.
std::optional<std::pair<double, sim::Unit>> number_with_unit(const Node& node) {
  if (node.is_number()) return std::pair{node.as_number(), sim::Unit::none};
  return node.is_string() ? quantity_of(node.as_string()) : std::nullopt;
}

bool read_end(const Node& node, double& number, sim::Unit& unit, Faults& faults) {
  const auto value = number_with_unit(node);
  if (!value) {
    faults.add(node.origin(), fmt::format("expected a number or a quantity such as \"80 GiB\", got {}", node.shown()));
    return false;
  }
  number = value->first;
  unit = value->second;
  return true;
}

void read_range(const Node& node, const Node& range, Parameter& parameter, Faults& faults) {
  if (!range.is_array() || range.items().size() != 2) {
    faults.add(range.origin(), fmt::format("expected a range [low, high], got {}", range.shown()));
    return;
  }
  sim::Unit high_unit = sim::Unit::none;
  if (!read_end(range.items()[0], parameter.low, parameter.unit, faults)) return;
  if (!read_end(range.items()[1], parameter.high, high_unit, faults)) return;
  if (parameter.unit != high_unit)
    faults.add(range.origin(), fmt::format("expected two ends of one dimension, got {} and {}",
                                           range.items()[0].shown(), range.items()[1].shown()));
  const std::string type = text_member(node, "type", false, faults);
  const std::string scale = text_member(node, "scale", false, faults);
  parameter.kind = type == "integer" ? ParameterKind::integer : ParameterKind::real;
  parameter.log = scale == "log";
  if (!type.empty() && type != "integer" && type != "real")
    faults.add(place_of(node, "type"), fmt::format("unknown type '{}' of a range", type),
               sim::name_hint(type, {"integer", "real"}));
  if (!scale.empty() && scale != "log" && scale != "linear")
    faults.add(place_of(node, "scale"), fmt::format("unknown scale '{}'", scale),
               sim::name_hint(scale, {"linear", "log"}));
  if (parameter.kind != ParameterKind::integer) return;
  for (const double end : {parameter.low, parameter.high})
    if (end != std::round(end) || std::abs(end) > kMostInteger)
      faults.add(range.origin(), fmt::format("expected whole numbers of a parameter of type integer, got {}", end));
}

/// The dimension of a list of quantities; none where one of them is something else.
sim::Unit unit_of_values(const Node& values) {
  std::optional<sim::Unit> unit;
  if (!values.is_array()) return sim::Unit::none;
  for (const Node& value : values.items()) {
    const auto quantity = value.is_string() ? quantity_of(value.as_string()) : std::nullopt;
    if (!quantity || (unit && *unit != quantity->second)) return sim::Unit::none;
    unit = quantity->second;
  }
  return unit.value_or(sim::Unit::none);
}

void read_values(const Node& node, Parameter& parameter, Faults& faults) {
  parameter.choices = read_choices(node, parameter.paths, faults);
  const bool texts = std::any_of(parameter.choices.begin(), parameter.choices.end(), [](auto& c) { return c.text; });
  const std::string type = text_member(node, "type", false, faults);
  parameter.kind = texts || type == "categorical" ? ParameterKind::categorical : ParameterKind::ordinal;
  if (!type.empty() && type != "categorical" && type != "ordinal")
    faults.add(place_of(node, "type"), fmt::format("unknown type '{}' of a list of values", type),
               sim::name_hint(type, {"categorical", "ordinal"}));
  if (texts && type == "ordinal")
    faults.add(place_of(node, "type"), "expected numbers or quantities of an ordinal parameter, found texts");
  if (const Node* scale = node.find("scale")) faults.add(scale->origin(), "a list of values has no scale");
  parameter.unit = unit_of_values(*node.find("values"));
}

void read_derived(const Node& node, std::string name, std::vector<std::string> paths, Study& study, Faults& faults) {
  check_keys_of(node, {"name", "path", "formula", "type", "unit"}, faults);
  search::Derived figure{.name = std::move(name), .paths = std::move(paths)};
  const std::string formula = text_member(node, "formula", true, faults);
  const std::string type = text_member(node, "type", false, faults);
  figure.integer = type == "integer";
  if (!type.empty() && type != "integer" && type != "real")
    faults.add(place_of(node, "type"), fmt::format("unknown type '{}' of a formula", type),
               sim::name_hint(type, {"integer", "real"}));
  if (const std::string unit = text_member(node, "unit", false, faults); !unit.empty()) {
    const auto known = quantity_of("1 " + unit);  // "1 GiB": the formula is in SI, the config gets the dimension
    if (known)
      figure.unit = known->second;
    else
      faults.add(place_of(node, "unit"), fmt::format("expected a unit such as \"B\" or \"s\", got \"{}\"", unit));
  }
  study.space.derive(std::move(figure), formula, place_of(node, "formula"), faults);
}

void read_parameter(const Node& node, Study& study, std::vector<std::int64_t>& steps, Faults& faults) {
  if (!node.is_object()) {
    faults.add(node.origin(),
               fmt::format("expected an object with path and values, range or formula, got {}", node.shown()));
    return;
  }
  Parameter parameter;
  parameter.paths = read_paths(node, faults);
  parameter.name = text_member(node, "name", parameter.paths.empty(), faults);
  if (parameter.name.empty() && !parameter.paths.empty())
    parameter.name = parameter.paths.front().substr(parameter.paths.front().rfind('.') + 1);
  if (!check_name(parameter.name, place_of(node, "name"), "a parameter", faults)) return;
  const Node *values = node.find("values"), *range = node.find("range"), *formula = node.find("formula");
  if ((values != nullptr) + (range != nullptr) + (formula != nullptr) != 1) {
    faults.add(node.origin(), "expected one of 'values', 'range' and 'formula'");
    return;
  }
  if (formula != nullptr) return read_derived(node, parameter.name, parameter.paths, study, faults);
  check_keys_of(node, {"name", "path", "values", "range", "type", "scale", "when", "steps"}, faults);
  const std::size_t before = faults.size();
  if (range != nullptr)
    read_range(node, *range, parameter, faults);
  else
    read_values(node, parameter, faults);
  const Node* step = member(node, "steps", Node::Kind::integer, "a number of values", false, faults);
  if (step != nullptr && (range == nullptr || step->as_integer() < 1))
    faults.add(step->origin(), "expected at least 1, for a range");
  const std::string when = text_member(node, "when", false, faults);
  if (faults.size() != before) return;
  const std::size_t size = study.space.size();
  study.space.add(std::move(parameter), when, place_of(node, when.empty() ? "name" : "when"), faults);
  if (study.space.size() > size) steps.push_back(step != nullptr ? step->as_integer() : 0);
}

/// `steps`: how many values of a range, 0: not said.
void read_parameters(const Node& root, Study& study, std::vector<std::int64_t>& steps, Faults& faults) {
  const std::size_t before = faults.size();
  const Node* list = member(root, "parameters", Node::Kind::array, "a list of parameters", true, faults);
  if (list == nullptr) return;
  if (list->items().empty()) faults.add(list->origin(), "expected at least one parameter: the space is empty");
  for (const bool derived : {false, true})  // figures that follow from parameters come behind all of these
    for (const Node& item : list->items())
      if ((item.is_object() && item.find("formula") != nullptr) == derived) read_parameter(item, study, steps, faults);
  if (faults.size() == before && study.space.size() == 0)
    faults.add(list->origin(), "expected a parameter with 'values' or a 'range': the space is empty");
}

void read_constraints(const Node& root, Study& study, Faults& faults) {
  const Node* list = member(root, "constraints", Node::Kind::array, "a list of formulas", false, faults);
  if (list == nullptr) return;
  for (const Node& item : list->items()) {
    if (item.is_string())
      study.space.constrain(item.as_string(), item.origin(), faults);
    else
      faults.add(item.origin(), fmt::format("expected a formula over parameters, got {}", item.shown()));
  }
}

/// Names are columns of the store, where case does not count.
void check_columns(const Study& study, const Node& root, Faults& faults) {
  std::vector<std::string> taken{"id", "repeat", "key", "fidelity", "status", "reason", "violation", "study"};
  const auto take = [&](std::string name, const sim::Origin& where) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    if (std::find(taken.begin(), taken.end(), name) != taken.end())
      faults.add(where,
                 fmt::format("'{}' is taken: it names a column of the store already (case does not count)", name),
                 "choose another name");
    taken.push_back(std::move(name));
  };
  for (const auto& parameter : study.space.parameters()) take(parameter.name, place_of(root, "parameters"));
  for (const auto& figure : study.space.derived()) take(figure.name, place_of(root, "parameters"));
  for (const Measure& measure : study.measures) take(measure.name, measure.origin);
  for (const Objective& objective : study.objectives) take("objective_" + objective.name, place_of(root, "objectives"));
  for (const Limit& limit : study.limits) take("limit_" + limit.name, place_of(root, "limits"));
}

void read_search(const Node& root, const sim::RegistrySet& registries, Study& study, Faults& faults) {
  const Node* seeds = root.find("seeds");
  if (seeds != nullptr) study.seeds = sim::parse_params<SeedsParams>(*seeds, faults);
  study.search = sim::parse_params<SearchParams>(section(root, "search"), registries, faults);
}

/// First guesses of a search: values by the names of parameters.
void read_first(Study& study, Faults& faults) {
  std::vector<std::string> names;
  for (const Parameter& parameter : study.space.parameters()) names.push_back(parameter.name);
  for (const Node& item : study.search.first) {
    const std::size_t before = faults.size();
    check_keys_of(item, names, faults);
    search::Point point(study.space.size(), std::nan(""));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Node* node = item.find(names[i]);
      if (node == nullptr) continue;
      const auto value = value_of(study.space.parameters()[i], *node);
      if (!value) faults.add(node->origin(), fmt::format("expected a value of '{}', got {}", names[i], node->shown()));
      point[i] = value.value_or(point[i]);
    }
    if (faults.size() != before) continue;
    point = study.space.canonical(std::move(point));
    if (study.space.allowed(point))
      study.first.push_back(std::move(point));
    else
      faults.add(item.origin(), fmt::format("no point of the study: constraints forbid {}", study.space.text(point)));
  }
}

/// The base without what makes it a document of its own.
void read_base_of(const Node& root, const std::vector<std::string>& assignments, Study& study, Faults& faults) {
  study.base = read_base(root, faults);
  assign_base(study.base, assignments);
  for (const char* key : {"kind", "version", "title", "$schema"}) study.base.erase(key);
}

}  // namespace

std::optional<double> value_of(const Parameter& parameter, const Node& node) {
  if (parameter.has_choices()) {
    const std::string label = node.is_string() ? node.as_string() : node.dump();
    for (std::size_t i = 0; i < parameter.choices.size(); ++i)
      if (parameter.choices[i].label == label) return static_cast<double>(i);
    return std::nullopt;
  }
  const auto number = number_with_unit(node);
  if (!number || number->second != parameter.unit) return std::nullopt;
  if (number->first < parameter.low || number->first > parameter.high) return std::nullopt;
  if (parameter.kind == ParameterKind::integer && number->first != std::round(number->first)) return std::nullopt;
  return number->first;
}

std::optional<Fidelity> read_fidelity(const Node& root, Faults& faults) {
  const Node* node = member(root, "fidelity", Node::Kind::object, "an object with path and full", false, faults);
  if (node == nullptr) return std::nullopt;
  check_keys_of(*node, {"path", "full"}, faults);
  Fidelity fidelity{.path = text_member(*node, "path", true, faults)};
  const Node* full = node->find("full");
  const auto number = full != nullptr ? number_with_unit(*full) : std::nullopt;
  if (!number || number->first <= 0) {
    faults.add(place_of(*node, "full"), "expected the number or quantity > 0 that a full run has at 'path'");
    return std::nullopt;
  }
  fidelity.full = *full;
  fidelity.number = number->first;
  fidelity.unit = number->second;
  return fidelity;
}

search::Space read_space(const Node& root) {
  Faults faults;
  Study study;
  std::vector<std::int64_t> steps;
  read_parameters(root, study, steps, faults);
  if (faults.empty()) read_constraints(root, study, faults);
  faults.throw_if_any();
  return std::move(study.space);
}

Study read_study(const Systems& systems, const std::filesystem::path& file,
                 const std::vector<std::string>& assignments) {
  return read_study(systems, sim::read_json(file), file, assignments);
}

Study read_study(const Systems& systems, Node root, const std::filesystem::path& file,
                 const std::vector<std::string>& assignments) {
  assign_study(root, assignments);
  Faults faults;
  if (document_kind(root) != "study") {
    faults.add(root.is_object() ? place_of(root, "kind") : root.origin(), "expected a study of \"kind\": \"study\"");
    faults.throw_if_any();
  }
  check_keys_of(root,
                {"$schema", "kind", "version", "title", "base", "parameters", "constraints", "sweep", "measures",
                 "objectives", "limits", "bottlenecks", "seeds", "search", "fidelity"},
                faults);
  check_version(root, faults);
  Study study{.name = file.stem().string(), .file = file};
  study.read = [systems](const Node& config) { return read_experiment(systems, config); };
  study.document = root;
  study.assignments = assignments;
  study.title = text_member(root, "title", false, faults);
  read_base_of(root, assignments, study, faults);
  const std::size_t before = faults.size();
  std::vector<std::int64_t> steps;
  read_parameters(root, study, steps, faults);
  study.measures = read_measures(root, faults);
  read_search(root, *systems.registries(), study, faults);
  study.fidelity = read_fidelity(root, faults);
  if (faults.size() == before) {  // else every formula would be at fault too
    read_constraints(root, study, faults);
    read_goals(root, study, &systems, faults);
    read_sweep(root, steps, study, faults);
    read_first(study, faults);
    check_columns(study, root, faults);
  }
  faults.throw_if_any();
  return study;
}

}  // namespace orrery::experiments::study
