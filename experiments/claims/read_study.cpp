// The reader of claim studies: every fault of a file at once, each with its place.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/claims/study.hpp"
#include "experiments/config_parts.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments::claims {
namespace {

namespace fs = std::filesystem;
using sim::Faults;
using sim::Node;

constexpr std::size_t kMostRuns = 100'000;
constexpr std::string_view kOfBase = "base.";  // of a --set

/// The member of that name if it is there and of the kind; a fault otherwise, for one that is absent only if required.
const Node* member(const Node& node, std::string_view name, Node::Kind kind, const char* expected, bool required,
                   Faults& faults) {
  const Node* found = node.find(name);
  if (found == nullptr) {
    if (required) faults.add(node.origin_of(name), fmt::format("expected {}, found nothing", expected));
    return nullptr;
  }
  if (found->kind() == kind) return found;
  faults.add(found->origin(), fmt::format("expected {}, got {}", expected, found->shown()));
  return nullptr;
}

std::string text_member(const Node& node, std::string_view name, bool required, Faults& faults) {
  const Node* text = member(node, name, Node::Kind::string, "a text", required, faults);
  if (text == nullptr) return {};
  if (required && text->as_string().empty()) faults.add(text->origin(), "expected a text, got an empty one");
  return text->as_string();
}

void check_keys_of(const Node& node, std::vector<std::string> known, Faults& faults) {
  for (const auto& [key, value] : node.members())
    if (std::find(known.begin(), known.end(), key) == known.end())
      faults.add(value.origin(), fmt::format("unknown key '{}'", key), sim::name_hint(key, known));
}

/// A name that formulas may use.
bool check_name(const std::string& name, const sim::Origin& where, const char* what, Faults& faults) {
  if (sim::is_formula_name(name)) return true;
  faults.add(where, fmt::format("expected a name of letters, digits and _ for {}, got '{}'", what, name));
  return false;
}

std::vector<Assignment> read_assignments(const Node& node, Faults& faults) {
  std::vector<Assignment> all;
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected an object of \"path\": value, got {}", node.shown()));
    return all;
  }
  for (const auto& [path, value] : node.members()) all.push_back({path, value});
  return all;
}

/// The base experiment: an object, on top of experiment files if it has a `base` itself, or the name of such a file.
Node read_base(const Node& root, Faults& faults) {
  const Node* base = root.find("base");
  Node config = Node::object();
  if (base == nullptr || !(base->is_object() || base->is_string())) {
    faults.add(place_of(root, "base"), "expected the config of an experiment, or its file");
    return config;
  }
  config.set_origin(base->origin());
  const Node* file = base->is_string() ? base : base->find("base");
  if (file != nullptr && file->is_string()) {
    const fs::path path = (sim::folder_of(file->origin()) / file->as_string()).lexically_normal();
    if (fs::is_regular_file(path)) {
      config = sim::read_config(path);
    } else {
      faults.add(file->origin(), fmt::format("expected a file, found none at '{}'", path.string()));
    }
  } else if (file != nullptr) {
    faults.add(file->origin(), fmt::format("expected a path, got {}", file->shown()));
  }
  if (base->is_object()) {
    Node own = *base;
    own.erase("base");
    sim::merge_over(config, own);
  }
  return config;
}

void read_variants(const Node& root, ClaimStudy& study, Faults& faults) {
  const Node* list = member(root, "variants", Node::Kind::object, "an object of variants", true, faults);
  if (list == nullptr) return;
  if (list->members().empty()) faults.add(list->origin(), "expected at least one variant");
  for (const auto& [name, node] : list->members())
    if (check_name(name, node.origin(), "a variant", faults))
      study.variants.push_back({name, read_assignments(node, faults)});
}

/// The number of a quantity, in SI.
std::optional<double> quantity_of(const std::string& text) {
  using sim::Unit;
  for (const Unit unit : {Unit::seconds, Unit::bytes, Unit::bytes_per_s, Unit::flop_per_s, Unit::watts, Unit::joules,
                          Unit::hertz, Unit::per_s})
    if (const auto value = sim::parse_quantity(text, unit)) return value;
  return std::nullopt;
}

Choice read_axis_value(const Node& node, const std::vector<std::string>& paths, std::size_t index, Faults& faults) {
  const Node* is = &node;
  Choice value;
  if (node.is_object()) {
    check_keys_of(node, {"is", "set"}, faults);
    is = node.find("is");
    if (is == nullptr || !(is->is_number() || is->is_string())) {
      faults.add(place_of(node, "is"), "expected a number or a text that names this value");
      return value;
    }
    if (const Node* set = node.find("set")) value.assignments = read_assignments(*set, faults);
  }
  value.label = is->is_string() ? is->as_string() : is->dump();
  value.number = static_cast<double>(index);
  if (is->is_number()) {
    value.number = is->as_number();
  } else if (const auto quantity = is->is_string() ? quantity_of(value.label) : std::nullopt) {
    value.number = *quantity;
  } else {
    value.text = true;
  }
  for (const std::string& path : paths) value.assignments.push_back({path, *is});
  return value;
}

/// `path` of an axis: one, several that get the same value, or none.
std::vector<std::string> read_paths(const Node& node, Faults& faults) {
  const Node* path = node.find("path");
  std::vector<std::string> paths;
  if (path == nullptr || path->is_null()) return paths;
  if (path->is_string()) return {path->as_string()};
  if (path->is_array())
    for (const Node& item : path->items())
      if (item.is_string()) paths.push_back(item.as_string());
  if (!path->is_array() || paths.size() != path->items().size())
    faults.add(path->origin(), fmt::format("expected a dotted path or a list of them, got {}", path->shown()));
  return paths;
}

void read_axis(const Node& node, ClaimStudy& study, Faults& faults) {
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected an object with path, name and values, got {}", node.shown()));
    return;
  }
  check_keys_of(node, {"path", "name", "values"}, faults);
  const std::vector<std::string> paths = read_paths(node, faults);
  Axis axis{.name = text_member(node, "name", paths.empty(), faults)};
  if (axis.name.empty() && !paths.empty()) axis.name = paths.front().substr(paths.front().rfind('.') + 1);
  if (!axis.name.empty()) check_name(axis.name, place_of(node, "name"), "an axis", faults);
  const Node* values = member(node, "values", Node::Kind::array, "a list of values", true, faults);
  if (values == nullptr) return;
  if (values->items().empty()) faults.add(values->origin(), "expected at least one value");
  for (const Node& item : values->items()) {
    Choice value = read_axis_value(item, paths, axis.values.size(), faults);
    const auto same = [&](const Choice& other) { return other.label == value.label; };
    if (std::any_of(axis.values.begin(), axis.values.end(), same))
      faults.add(item.origin(), fmt::format("'{}' is on this axis already", value.label));
    axis.values.push_back(std::move(value));
  }
  const auto same_name = [&](const Axis& other) { return other.name == axis.name; };
  if (std::any_of(study.axes.begin(), study.axes.end(), same_name))
    faults.add(node.origin(), fmt::format("another axis is named '{}'", axis.name), "give it a 'name'");
  else
    study.axes.push_back(std::move(axis));
}

void read_axes(const Node& root, ClaimStudy& study, Faults& faults) {
  const Node* list = member(root, "x", Node::Kind::array, "a list of axes", false, faults);
  if (list == nullptr) return;
  for (const Node& item : list->items()) read_axis(item, study, faults);
  for (const Variant& variant : study.variants)
    for (const Axis& axis : study.axes)
      if (axis.name == variant.name)
        faults.add(list->origin(), fmt::format("'{}' is an axis and a variant", axis.name));
  if (study.points() > kMostRuns / std::max<std::size_t>(1, study.variants.size()))
    faults.add(list->origin(), fmt::format("expected at most {} runs, got {} points of {} variants", kMostRuns,
                                           study.points(), study.variants.size()));
}

void check_placeholders(const Measure& measure, const ClaimStudy& study, Faults& faults) {
  std::vector<std::string> known{"variant"};
  for (const Axis& axis : study.axes) known.push_back(axis.name);
  for (std::size_t open = measure.path.find('{'); open != std::string::npos; open = measure.path.find('{', open + 1)) {
    const std::size_t close = std::min(measure.path.find('}', open), measure.path.size());
    const std::string name = measure.path.substr(open + 1, close - open - 1);
    if (std::find(known.begin(), known.end(), name) == known.end())
      faults.add(measure.origin, fmt::format("expected the name of an axis in braces, got '{}'", name),
                 sim::name_hint(name, known));
  }
}

void read_measures(const Node& root, ClaimStudy& study, Faults& faults) {
  const Node* list =
      member(root, "measures", Node::Kind::object, "an object of \"name\": \"path in summary.json\"", true, faults);
  if (list == nullptr) return;
  if (list->members().empty()) faults.add(list->origin(), "expected at least one measure");
  for (const auto& [name, node] : list->members()) {
    if (!check_name(name, node.origin(), "a measure", faults)) continue;
    if (name == "feasible") {
      faults.add(node.origin(), "'feasible' is 1 where a run is feasible, in every study", "choose another name");
      continue;
    }
    if (!node.is_string() || node.as_string().empty()) {
      faults.add(node.origin(), fmt::format("expected the path of a figure of summary.json, got {}", node.shown()));
      continue;
    }
    study.measures.push_back({name, node.as_string(), node.origin()});
    check_placeholders(study.measures.back(), study, faults);
  }
}

sim::FormulaNames formula_names(const ClaimStudy& study) {
  sim::FormulaNames names;
  for (const Variant& variant : study.variants)
    for (const Measure& measure : study.measures) names.series(variant.name + "." + measure.name);
  for (const Variant& variant : study.variants) names.series(variant.name + ".feasible");
  for (const Axis& axis : study.axes) {
    if (names.find(axis.name) != nullptr) continue;  // reported already
    std::vector<std::pair<std::string, double>> labels;
    for (const Choice& value : axis.values)
      if (value.text) labels.emplace_back(value.label, value.number);
    const std::size_t slot = names.series(axis.name, std::move(labels));
    if (study.axes.size() == 1) names.set_default_axis(slot);
  }
  return names;
}

void read_claim(const Node& node, const sim::FormulaNames& names, ClaimStudy& study, Faults& faults) {
  const std::size_t before = faults.size();
  const auto params = sim::parse_params<ClaimParams>(node, faults);
  if (faults.size() != before) return;
  const sim::Origin expected = place_of(node, "expected");
  if (params.claim.empty()) faults.add(place_of(node, "claim"), "expected a text, got an empty one");
  if (params.source.empty()) faults.add(place_of(node, "source"), "expected a text, got an empty one");
  if (params.expected.size() != 2) {
    faults.add(expected, fmt::format("expected a band [low, high], got {} values", params.expected.size()));
    return;
  }
  const auto& [low, high] = std::pair{params.expected[0], params.expected[1]};
  if (!low && !high) faults.add(expected, "expected a band with at least one end, got none");
  if (low && high && *low > *high) faults.add(expected, fmt::format("expected low <= high, got {} > {}", *low, *high));
  const sim::Origin where = place_of(node, "value");
  std::optional<sim::Formula> value = sim::Formula::parse(params.value, names, where, faults);
  if (value && value->is_series() && study.points() > 1)
    faults.add(where, fmt::format("expected one number, got a series of {} points", study.points()),
               "reduce it with min, max, mean, geomean, all, any, at …");
  if (faults.size() != before) return;
  study.claims.push_back({params.claim, params.source, params.note, std::move(*value), low, high});
}

void read_claims(const Node& root, ClaimStudy& study, Faults& faults) {
  const Node* list = member(root, "claims", Node::Kind::array, "a list of claims", true, faults);
  if (list == nullptr) return;
  if (list->items().empty()) faults.add(list->origin(), "expected at least one claim");
  const sim::FormulaNames names = formula_names(study);
  for (const Node& item : list->items()) read_claim(item, names, study, faults);
}

}  // namespace

ClaimStudy read_study(const fs::path& file, const std::vector<std::string>& assignments) {
  Node root = sim::read_json(file);
  for (const std::string& assignment : assignments)
    if (!assignment.starts_with(kOfBase)) sim::assign(root, assignment);
  Faults faults;
  if (!is_claim_study(root)) {
    faults.add(root.is_object() ? place_of(root, "kind") : root.origin(), "expected a study of \"kind\": \"claim\"");
    faults.throw_if_any();
  }
  check_keys_of(root, {"$schema", "kind", "version", "system", "title", "base", "variants", "x", "measures", "claims"},
                faults);
  const Node* format = member(root, "version", Node::Kind::integer, "format version 1", true, faults);
  if (format != nullptr && format->as_integer() != 1)
    faults.add(format->origin(), fmt::format("expected format version 1, got {}", format->shown()));
  ClaimStudy study{.name = file.stem().string(), .file = file};
  study.system = text_member(root, "system", true, faults);
  study.title = text_member(root, "title", false, faults);
  study.base = read_base(root, faults);
  for (const std::string& assignment : assignments)  // also into what the base inherits
    if (assignment.starts_with(kOfBase)) sim::assign(study.base, std::string_view(assignment).substr(kOfBase.size()));
  const std::size_t before = faults.size();
  read_variants(root, study, faults);
  read_axes(root, study, faults);
  read_measures(root, study, faults);
  if (faults.size() == before) read_claims(root, study, faults);  // else every formula would be at fault too
  faults.throw_if_any();
  return study;
}

}  // namespace orrery::experiments::claims
