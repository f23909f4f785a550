#include "experiments/claims/sensitivity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace orrery::experiments::claims {
namespace {

using sim::Node;

/// The study with one value of a parameter: in its base, or in the variants whose it is.
ClaimStudy study_at(const ClaimStudy& study, const Parameter& parameter, const Choice& value) {
  ClaimStudy at = study;
  if (parameter.variants.empty())
    for (const Assignment& one : value.assignments) sim::assign(at.base, one.path, one.value);
  for (Variant& variant : at.variants)
    if (std::find(parameter.variants.begin(), parameter.variants.end(), variant.name) != parameter.variants.end())
      variant.assignments.insert(variant.assignments.end(), value.assignments.begin(), value.assignments.end());
  return at;
}

std::string value_text(const Verdict& verdict) {
  return verdict.simulated ? fmt::format("{:.4g}", *verdict.simulated) : "-";
}

}  // namespace

bool SensitiveClaim::decided() const {
  return std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.holds; }) &&
         std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return !v.holds; });
}

std::vector<Sensitivity> sensitivities(const Systems& systems, const std::vector<ClaimStudy>& studies,
                                       const RunOptions& options) {
  std::vector<ClaimStudy> settings;
  std::vector<Sensitivity> all;
  for (const ClaimStudy& study : studies)
    for (const Parameter& parameter : study.sensitivity) {
      Sensitivity& one = all.emplace_back(Sensitivity{study.name, parameter.axis.name, {}, {}});
      for (const Claim& claim : study.claims) one.claims.push_back({claim.text, {}});
      for (const Choice& value : parameter.axis.values) {
        one.values.push_back(value.label);
        settings.push_back(study_at(study, parameter, value));
      }
    }
  std::vector<JudgedStudy> judged = judge_studies(run_studies(systems, std::move(settings), options));
  std::size_t at = 0;
  for (Sensitivity& one : all)
    for (std::size_t value = 0; value < one.values.size(); ++value, ++at)
      for (std::size_t c = 0; c < one.claims.size(); ++c)
        one.claims[c].verdicts.push_back(std::move(judged[at].verdicts[c]));
  return all;
}

std::string sensitivity_text(const std::vector<Sensitivity>& all) {
  std::string text;
  for (const Sensitivity& one : all) {
    const auto decided = std::count_if(one.claims.begin(), one.claims.end(), [](const auto& c) { return c.decided(); });
    text += fmt::format("{}: {} at {}\n  decides {} of {} claims\n", one.study, one.parameter,
                        fmt::join(one.values, ", "), decided, one.claims.size());
    for (const SensitiveClaim& claim : one.claims) {
      if (!claim.decided()) continue;
      std::vector<std::string> holds, came_out;
      for (std::size_t i = 0; i < one.values.size(); ++i) {
        if (claim.verdicts[i].holds) holds.push_back(one.values[i]);
        came_out.push_back(value_text(claim.verdicts[i]));
      }
      text += fmt::format("  holds at {}: {}\n      comes out as {}\n", fmt::join(holds, ", "), claim.claim,
                          fmt::join(came_out, ", "));
    }
    text += '\n';
  }
  if (all.empty()) text = "no study among these names a parameter under 'sensitivity'\n";
  return text;
}

Node sensitivity_json(const std::vector<Sensitivity>& all) {
  Node list = Node::array();
  for (const Sensitivity& one : all) {
    Node values = Node::array(), claims = Node::array();
    for (const std::string& value : one.values) values.push(Node::string(value));
    for (const SensitiveClaim& claim : one.claims) {
      Node simulated = Node::array(), holds = Node::array();
      for (const Verdict& verdict : claim.verdicts) {
        simulated.push(verdict.simulated ? Node::real(*verdict.simulated) : Node{});
        holds.push(Node::boolean(verdict.holds));
      }
      Node node = Node::object();
      node.set("claim", Node::string(claim.claim));
      node.set("simulated", std::move(simulated));
      node.set("holds", std::move(holds));
      node.set("decided", Node::boolean(claim.decided()));
      claims.push(std::move(node));
    }
    Node node = Node::object();
    node.set("study", Node::string(one.study));
    node.set("parameter", Node::string(one.parameter));
    node.set("values", std::move(values));
    node.set("claims", std::move(claims));
    list.push(std::move(node));
  }
  Node root = Node::object();
  root.set("sensitivity", std::move(list));
  return root;
}

}  // namespace orrery::experiments::claims
