// Objectives, limits and bottlenecks of a study.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/study/read_parts.hpp"

namespace orrery::experiments::study {
namespace {

using sim::Faults;
using sim::Node;

sim::FormulaNames names_of(const Study& study) {
  sim::FormulaNames names = study.space.names();
  for (const Measure& measure : study.measures)
    if (names.find(measure.name) == nullptr) names.scalar(measure.name);  // else reported as a column twice
  return names;
}

/// A formula that must be there.
std::optional<sim::Formula> read_formula(const Node& node, std::string_view key, const sim::FormulaNames& names,
                                         Faults& faults) {
  const std::string text = text_member(node, key, true, faults);
  return text.empty() ? std::nullopt : sim::Formula::parse(text, names, place_of(node, key), faults);
}

/// The name given, or the formula where that is a name.
std::string read_name(const Node& node, std::string_view formula_key, Faults& faults) {
  const Node* formula = node.find(formula_key);
  const bool plain = formula != nullptr && formula->is_string() && sim::is_formula_name(formula->as_string());
  std::string name = text_member(node, "name", !plain, faults);
  if (name.empty() && plain) name = formula->as_string();
  if (!name.empty()) check_name(name, place_of(node, "name"), "an objective or limit", faults);
  return name;
}

void read_objective(const Node& node, const sim::FormulaNames& names, Study& study, Faults& faults) {
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected {{\"minimise\": FORMULA}} or maximise, got {}", node.shown()));
    return;
  }
  check_keys_of(node, {"name", "minimise", "maximise"}, faults);
  const bool maximise = node.find("maximise") != nullptr;
  if (maximise == (node.find("minimise") != nullptr)) {
    faults.add(node.origin(), "expected one of 'minimise' and 'maximise'");
    return;
  }
  const char* key = maximise ? "maximise" : "minimise";
  std::string name = read_name(node, key, faults);
  if (auto value = read_formula(node, key, names, faults))
    study.objectives.push_back({std::move(name), maximise, *std::move(value)});
}

std::optional<double> read_bound(const Node& node, std::string_view key, Faults& faults) {
  const Node* bound = node.find(key);
  if (bound == nullptr) return std::nullopt;
  if (bound->is_number()) return bound->as_number();
  const auto quantity = bound->is_string() ? quantity_of(bound->as_string()) : std::nullopt;
  if (quantity) return quantity->first;
  faults.add(bound->origin(), fmt::format("expected a number or a quantity such as \"2 s\", got {}", bound->shown()));
  return std::nullopt;
}

/// `end_at`: for a limit with one bound on a figure that the base's system can end runs on.
std::optional<RunEnd> read_end(const Node& node, const Limit& limit, const Study& study, const Systems* systems,
                               Faults& faults) {
  const Node* end_at = node.find("end_at");
  if (end_at == nullptr || systems == nullptr) return std::nullopt;
  const auto refuse = [&](std::string text, std::string hint = {}) {
    faults.add(end_at->origin(), std::move(text), std::move(hint));
    return std::nullopt;
  };
  if (limit.most.has_value() == limit.least.has_value()) return refuse("expected one of 'most' and 'least' beside it");
  const bool below = limit.least.has_value();
  const double bound = below ? *limit.least : *limit.most;
  const double share = end_at->is_number() ? end_at->as_number() : 0;
  if (below ? !(share > 0 && share <= 1) : !(share >= 1))
    return refuse(fmt::format("expected a multiple of '{}', {}, got {}", below ? "least" : "most",
                              below ? "up to 1" : "1 or more", end_at->shown()));
  if (study.seeds.count > 1) return refuse("expected one seed: what counts is a statistic over several runs");
  const auto text = [](const Node* value) { return value != nullptr && value->is_string() ? value->as_string() : ""; };
  const auto measure = std::ranges::find(study.measures, text(node.find("value")), &Measure::name);
  if (measure == study.measures.end()) return refuse("expected a 'value' that is one measure, not a formula");
  const auto system = std::ranges::find(systems->all(), text(study.base.find("system")), &System::name);
  if (system == systems->all().end() || system->ends_on.above.empty())
    return refuse("expected a system whose runs can end before their time", "runs of 'serving' can");
  const auto& [above, figures] = system->ends_on;
  const auto path = distribution_path(measure->path);
  if (below ? std::ranges::find(figures, measure->path) == figures.end()
            : !path || std::ranges::find(above, path->first) == above.end())
    return refuse(fmt::format("expected a figure that can be certain before a run ends, got '{}'", measure->path),
                  below ? fmt::format("{}", fmt::join(figures, ", "))
                        : fmt::format("mean, p50, p90, p95, p99 or max of {}", fmt::join(above, ", ")));
  return RunEnd{measure->path, bound * share, below};
}

void read_limit(const Node& node, const sim::FormulaNames& names, Study& study, const Systems* systems,
                Faults& faults) {
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected {{\"value\": FORMULA, \"most\": NUMBER}}, got {}", node.shown()));
    return;
  }
  check_keys_of(node, {"name", "value", "most", "least", "end_at"}, faults);
  const std::size_t before = faults.size();
  Limit limit{.name = read_name(node, "value", faults)};
  limit.most = read_bound(node, "most", faults);
  limit.least = read_bound(node, "least", faults);
  if (faults.size() == before && !limit.most && !limit.least)
    faults.add(node.origin(), "expected 'most', 'least' or both");
  auto value = read_formula(node, "value", names, faults);
  if (!value) return;
  limit.value = *std::move(value);
  limit.end = read_end(node, limit, study, systems, faults);
  study.limits.push_back(std::move(limit));
}

void read_bottleneck(const std::string& name, const Node& node, const sim::FormulaNames& names, Study& study,
                     Faults& faults) {
  if (!node.is_object()) {
    faults.add(node.origin(), fmt::format("expected an object with share and move, got {}", node.shown()));
    return;
  }
  check_keys_of(node, {"share", "move"}, faults);
  Bottleneck bottleneck{.name = name};
  std::vector<std::string> known;
  for (const auto& parameter : study.space.parameters()) known.push_back(parameter.name);
  if (const Node* move = member(node, "move", Node::Kind::array, "a list of parameters", true, faults))
    for (const Node& item : move->items()) {
      const std::string text = item.is_string() ? item.as_string() : item.dump();
      const auto found = std::find(known.begin(), known.end(), text);
      if (found == known.end())
        faults.add(item.origin(), fmt::format("expected a parameter, got {}", item.shown()),
                   sim::name_hint(text, known));
      else
        bottleneck.move.push_back(static_cast<std::size_t>(found - known.begin()));
    }
  auto share = read_formula(node, "share", names, faults);
  if (!share) return;
  bottleneck.share = *std::move(share);
  study.bottlenecks.push_back(std::move(bottleneck));
}

}  // namespace

void read_goals(const Node& root, Study& study, const Systems* systems, Faults& faults) {
  const sim::FormulaNames names = names_of(study);
  if (const Node* list = member(root, "objectives", Node::Kind::array, "a list of objectives", false, faults))
    for (const Node& item : list->items()) read_objective(item, names, study, faults);
  if (const Node* list = member(root, "limits", Node::Kind::array, "a list of limits", false, faults))
    for (const Node& item : list->items()) read_limit(item, names, study, systems, faults);
  if (const Node* list = member(root, "bottlenecks", Node::Kind::object, "an object of bottlenecks", false, faults))
    for (const auto& [name, node] : list->members()) read_bottleneck(name, node, names, study, faults);
}

}  // namespace orrery::experiments::study
