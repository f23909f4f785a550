// The reader of claim studies: every fault of a file at once, each with its place.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/claims/claim_study.hpp"

namespace orrery::experiments::claims {
namespace {

namespace fs = std::filesystem;
using sim::Faults;
using sim::Node;

constexpr std::size_t kMostRuns = 100'000;

void read_variants(const Node& root, ClaimStudy& study, Faults& faults) {
  const Node* list = member(root, "variants", Node::Kind::object, "an object of variants", true, faults);
  if (list == nullptr) return;
  if (list->members().empty()) faults.add(list->origin(), "expected at least one variant");
  for (const auto& [name, node] : list->members())
    if (check_name(name, node.origin(), "a variant", faults))
      study.variants.push_back({name, read_assignments(node, faults)});
}

/// An axis of the grid or the values of a parameter (`what`); nothing for one whose name is in `taken` already.
std::optional<Axis> read_axis(const Node& node, const char* what, const std::vector<std::string>& keys,
                              std::vector<std::string>& taken, Faults& faults) {
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected an object with path, name and values, got {}", node.shown()));
    return std::nullopt;
  }
  check_keys_of(node, keys, faults);
  const std::vector<std::string> paths = read_paths(node, faults);
  Axis axis{.name = text_member(node, "name", paths.empty(), faults)};
  if (axis.name.empty() && !paths.empty()) axis.name = paths.front().substr(paths.front().rfind('.') + 1);
  if (!axis.name.empty()) check_name(axis.name, place_of(node, "name"), what, faults);
  axis.values = read_choices(node, paths, faults);
  if (std::find(taken.begin(), taken.end(), axis.name) != taken.end()) {
    faults.add(node.origin(), fmt::format("another axis is named '{}'", axis.name), "give it a 'name'");
    return std::nullopt;
  }
  taken.push_back(axis.name);
  return axis;
}

void read_axes(const Node& root, ClaimStudy& study, Faults& faults) {
  const Node* list = member(root, "x", Node::Kind::array, "a list of axes", false, faults);
  if (list == nullptr) return;
  std::vector<std::string> taken;
  for (const Node& item : list->items())
    if (std::optional<Axis> axis = read_axis(item, "an axis", {"path", "name", "values"}, taken, faults))
      study.axes.push_back(std::move(*axis));
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

void read_measures_of(const Node& root, ClaimStudy& study, Faults& faults) {
  for (Measure& measure : read_measures(root, faults)) {
    if (measure.name == "feasible") {
      faults.add(measure.origin, "'feasible' is 1 where a run is feasible, in every study", "choose another name");
      continue;
    }
    study.measures.push_back(std::move(measure));
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
  study.claims.push_back({params.claim, params.source, params.note, std::move(*value), low, high, params.basis});
}

void read_claims(const Node& root, ClaimStudy& study, Faults& faults) {
  const Node* list = member(root, "claims", Node::Kind::array, "a list of claims", true, faults);
  if (list == nullptr) return;
  if (list->items().empty()) faults.add(list->origin(), "expected at least one claim");
  const sim::FormulaNames names = formula_names(study);
  for (const Node& item : list->items()) read_claim(item, names, study, faults);
}

void read_sensitivity(const Node& root, ClaimStudy& study, Faults& faults) {
  const Node* list = member(root, "sensitivity", Node::Kind::array, "a list of parameters", false, faults);
  if (list == nullptr) return;
  std::vector<std::string> known, taken;
  for (const Variant& variant : study.variants) known.push_back(variant.name);
  for (const Node& item : list->items()) {
    std::optional<Axis> axis = read_axis(item, "a parameter", {"path", "name", "values", "variants"}, taken, faults);
    if (!axis) continue;
    Parameter& parameter = study.sensitivity.emplace_back(Parameter{std::move(*axis), {}});
    const Node* of = member(item, "variants", Node::Kind::array, "a list of variants", false, faults);
    if (of == nullptr) continue;
    for (const Node& name : of->items())
      if (name.is_string() && std::find(known.begin(), known.end(), name.as_string()) != known.end())
        parameter.variants.push_back(name.as_string());
      else
        faults.add(name.origin(), fmt::format("expected the name of a variant, got {}", name.shown()),
                   name.is_string() ? sim::name_hint(name.as_string(), known) : "");
  }
}

}  // namespace

ClaimStudy read_study(const fs::path& file, const std::vector<std::string>& assignments) {
  const Node root = read_study_document(file.string(), assignments);
  Faults faults;
  if (!is_claim_study(root)) {
    faults.add(root.is_object() ? place_of(root, "kind") : root.origin(), "expected a study of \"kind\": \"claim\"");
    faults.throw_if_any();
  }
  check_keys_of(
      root,
      {"$schema", "kind", "version", "system", "title", "base", "variants", "x", "measures", "claims", "sensitivity"},
      faults);
  check_version(root, faults);
  ClaimStudy study{.name = file.stem().string(), .file = file};
  study.system = text_member(root, "system", true, faults);
  study.title = text_member(root, "title", false, faults);
  study.base = read_base(root, faults);
  assign_base(study.base, assignments);
  const std::size_t before = faults.size();
  read_variants(root, study, faults);
  read_axes(root, study, faults);
  read_measures_of(root, study, faults);
  read_sensitivity(root, study, faults);
  if (faults.size() == before) read_claims(root, study, faults);  // else every formula would be at fault too
  faults.throw_if_any();
  return study;
}

}  // namespace orrery::experiments::claims
