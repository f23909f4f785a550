#include "experiments/claims/claim_study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "experiments/base/experiment.hpp"
#include "experiments/base/study_file.hpp"

namespace orrery::experiments::claims {

namespace fs = std::filesystem;
using sim::Node;

std::size_t ClaimStudy::points() const {
  return std::accumulate(axes.begin(), axes.end(), std::size_t{1},
                         [](std::size_t product, const Axis& axis) { return product * axis.values.size(); });
}

std::size_t ClaimStudy::position(std::size_t point, std::size_t axis) const {
  for (std::size_t a = axes.size(); a-- > axis + 1;) point /= axes[a].values.size();
  return point % axes[axis].values.size();
}

std::string ClaimStudy::point_text(std::size_t point) const {
  std::string text;
  for (std::size_t a = 0; a < axes.size(); ++a)
    text += fmt::format("{}{}={}", a == 0 ? "" : ", ", axes[a].name, axes[a].values[position(point, a)].label);
  return text;
}

Node ClaimStudy::config(const Variant& variant, std::size_t point) const {
  Node config = base;
  for (const Assignment& one : variant.assignments) sim::assign(config, one.path, one.value);
  for (std::size_t a = 0; a < axes.size(); ++a)
    for (const Assignment& one : axes[a].values[position(point, a)].assignments)
      sim::assign(config, one.path, one.value);
  return config;
}

bool is_claim_study(const Node& root) {
  return document_kind(root) == "claim";
}

bool is_claim_study(const fs::path& file) {
  return is_claim_study(sim::read_json(file));
}

fs::path study_file(const std::string& argument) {
  std::error_code ignored;
  if (fs::is_regular_file(argument, ignored) || argument.ends_with(".json")) return argument;
  std::vector<std::string> known;
  for (const fs::path& file : shipped_studies("claim")) {
    known.push_back(file.stem().string());
    if (known.back() == argument) return file;
  }
  sim::throw_fault({"reproduce", ""}, fmt::format("expected a claim study or its file, found no '{}'", argument),
                   sim::name_hint(argument, known));
}

std::string study_text(const std::string& name) {
  const ClaimStudy study = read_study(study_file(name));
  std::string text =
      fmt::format("\n{} is of {}; `orrery reproduce {}` runs it\n\nvariants:\n", study.name, study.system, study.name);
  for (const Variant& variant : study.variants) {
    text += fmt::format("  {}:", variant.name);
    for (const Assignment& one : variant.assignments) text += fmt::format(" {}={}", one.path, one.value.dump());
    text += '\n';
  }
  if (!study.axes.empty()) text += "\nx:\n";
  for (const Axis& axis : study.axes) {
    text += fmt::format("  {}:", axis.name);
    for (const Choice& value : axis.values) text += " " + value.label;
    text += '\n';
  }
  text += "\nmeasures:\n";
  for (const Measure& measure : study.measures) text += fmt::format("  {}: {}\n", measure.name, measure.path);
  text += "\nclaims:\n";
  for (const Claim& claim : study.claims) text += fmt::format("  {} [{}]\n", claim.text, claim.source);
  return text;
}

}  // namespace orrery::experiments::claims
