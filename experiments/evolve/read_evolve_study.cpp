// The reader of studies of kind "evolve": every fault of a file at once, each with its place.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/evolve/evolve_study.hpp"
#include "policies/expression_subjects.hpp"

namespace orrery::experiments::evolve {

namespace {

using sim::Faults;
using sim::Node;

constexpr std::size_t kMostScenarios = 1000;
constexpr std::string_view kPolicies = "policies.";

std::string variant_text(const std::vector<Assignment>& assignments) {
  std::string text;
  for (const Assignment& one : assignments)
    text += fmt::format("{}={}, ", one.path.substr(one.path.rfind('.') + 1), one.value.dump());
  return text;
}

std::vector<Scenario> read_scenarios(const Node& root, const char* name, Faults& faults) {
  const Node node = section(root, name);
  const auto params = sim::parse_params<ScenariosParams>(node, faults);
  std::vector<std::vector<Assignment>> variants;
  for (const Node& variant : params.variants) variants.push_back(read_assignments(variant, faults));
  if (variants.empty()) variants.emplace_back();
  std::vector<Scenario> all;
  for (const auto& variant : variants) {
    for (const std::int64_t seed : params.seeds) {
      Scenario one{fmt::format("{}seed {}", variant_text(variant), seed), variant};
      Node value = Node::integer(seed);
      value.set_origin(node.origin());
      one.assignments.push_back({params.path, std::move(value)});
      all.push_back(std::move(one));
    }
  }
  if (params.seeds.empty()) faults.add(place_of(node, "seeds"), "expected at least one seed");
  if (all.size() > kMostScenarios)
    faults.add(node.origin(),
               fmt::format("expected at most {} runs of a candidate, got {}", kMostScenarios, all.size()));
  return all;
}

void read_path(const Node& root, EvolveStudy& study, Faults& faults) {
  study.path = text_member(root, "path", true, faults);
  std::vector<std::string> known;
  for (const policies::ExpressionSubject& subject : policies::expression_subjects()) {
    for (const std::string& path : subject.paths) {
      known.push_back(std::string(kPolicies) + path);
      if (known.back() == study.path) study.subject = &subject;
    }
  }
  if (study.subject == nullptr) {
    if (!study.path.empty())
      faults.add(place_of(root, "path"), fmt::format("no expression stands at '{}'", study.path),
                 sim::name_hint(study.path, known));
    return;
  }
  for (const policies::NameInfo& one : study.subject->names) study.names.emplace_back(one.name);
}

/// A candidate at `path` decides only where the base chooses the policy that reads it.
void check_policy(const Node& root, const EvolveStudy& study, Faults& faults) {
  if (study.subject == nullptr) return;
  const std::string policy = study.path.substr(0, study.path.find(".expression.")) + ".policy";
  const Node* chosen = study.base.is_object() ? study.base.at(policy) : nullptr;
  if (chosen != nullptr && chosen->is_string() && chosen->as_string() == "expression") return;
  faults.add(chosen != nullptr ? chosen->origin() : place_of(root, "base"),
             fmt::format("expected \"expression\" at '{}' of the base, {}", policy,
                         chosen != nullptr ? "got " + chosen->shown() : "found nothing"));
}

/// `names`: those that candidates may use; absent: all.
void read_names(const Node& root, EvolveStudy& study, Faults& faults) {
  const Node* list = member(root, "names", Node::Kind::array, "a list of names", false, faults);
  if (list == nullptr)
    for (std::uint32_t slot = 0; slot < study.names.size(); ++slot) study.material.names.push_back(slot);
  if (list == nullptr || study.names.empty()) return;
  for (const Node& item : list->items()) {
    const auto found = std::find(study.names.begin(), study.names.end(), item.is_string() ? item.as_string() : "");
    if (found == study.names.end()) {
      faults.add(item.origin(), fmt::format("unknown name {} of {}", item.shown(), study.subject->name),
                 sim::name_hint(item.is_string() ? item.as_string() : "", study.names));
    } else {
      study.material.names.push_back(static_cast<std::uint32_t>(found - study.names.begin()));
    }
  }
  if (list->items().empty()) faults.add(list->origin(), "expected at least one name");
}

void read_starts(const Node& root, EvolveStudy& study, Faults& faults) {
  const Node* list = member(root, "starts", Node::Kind::array, "a list of expressions", false, faults);
  if (list == nullptr || study.names.empty()) return;
  for (const Node& item : list->items()) {
    Refusal refusal;
    if (!item.is_string()) {
      faults.add(item.origin(), fmt::format("expected an expression, got {}", item.shown()));
    } else if (read_candidate(study, item.as_string(), refusal)) {
      study.starts.push_back(item.as_string());
    } else {
      faults.add(item.origin(), refusal.why);
    }
  }
}

void read_baselines(const Node& root, EvolveStudy& study, Faults& faults) {
  study.baselines.push_back({"base", {}});
  const Node* list = member(root, "baselines", Node::Kind::object, "an object of baselines", false, faults);
  if (list == nullptr) return;
  for (const auto& [name, node] : list->members()) {
    if (name == "base") faults.add(node.origin(), "'base' is the base as it stands", "choose another name");
    study.baselines.push_back({name, read_assignments(node, faults)});
  }
}

/// Bounds name a baseline that there is, and bound something.
void check_bounds(const Node& root, EvolveStudy& study, Faults& faults) {
  const Node node = section(root, "objective");
  const Node* list = node.find("bounds");
  std::vector<std::string> known;
  for (const Baseline& one : study.baselines) known.push_back(one.name);
  for (std::size_t i = 0; i < study.objective.bounds.size(); ++i) {
    const BoundParams& bound = study.objective.bounds[i];
    const Node& item = list->items()[i];
    study.bound_origins.push_back(place_of(item, "figure"));
    if (!bound.at_most && !bound.at_least) faults.add(item.origin(), "expected 'at_most' or 'at_least'");
    if (!bound.of.empty() && std::ranges::find(known, bound.of) == known.end())
      faults.add(place_of(item, "of"), fmt::format("no baseline '{}'", bound.of), sim::name_hint(bound.of, known));
  }
}

template <class P>
P read_section(const Node& root, const char* name, Faults& faults) {
  return sim::parse_params<P>(section(root, name), faults);
}

void read_genetic(const Node& root, EvolveStudy& study, Faults& faults) {
  study.genetic = read_section<GeneticParams>(root, "genetic", faults);
  const GeneticParams& g = study.genetic;
  if (g.crossover + g.subtree + g.point + g.constant > 1 + 1e-9)
    faults.add(place_of(root, "genetic"),
               "expected shares of crossover, subtree, point and constant of 1 together at most");
  const std::int64_t each = g.population / g.islands;
  if (each < 2)
    faults.add(
        place_of(section(root, "genetic"), "islands"),
        fmt::format("expected at most {} islands of {} candidates, got {}", g.population / 2, g.population, g.islands));
  else if (g.elite >= each)
    faults.add(place_of(root, "genetic"), fmt::format("expected fewer than {} that stay, got {}", each, g.elite));
}

}  // namespace

EvolveStudy read_evolve_study(const std::filesystem::path& file, const std::vector<std::string>& assignments) {
  const Node root = read_study_document(file.string(), assignments);
  if (const std::string kind = document_kind(root); kind != "evolve")
    sim::throw_fault({file.string(), "/kind"}, fmt::format("expected \"evolve\", got \"{}\"", kind),
                     "docs/explain/policies-as-data.md shows one");
  Faults faults;
  EvolveStudy study{.name = file.stem().string(), .file = file};
  check_keys_of(root,
                {"$schema", "kind", "version", "title", "base", "path", "objective", "training", "held_out",
                 "baselines", "names", "starts", "limits", "genetic", "proposer", "search"},
                faults);
  check_version(root, faults);
  study.title = text_member(root, "title", false, faults);
  study.base = read_base(root, faults);
  assign_base(study.base, assignments);
  read_path(root, study, faults);
  check_policy(root, study, faults);
  study.objective = read_section<ObjectiveParams>(root, "objective", faults);
  study.objective_origin = place_of(section(root, "objective"), "figure");
  study.training = read_scenarios(root, "training", faults);
  if (root.find("held_out") != nullptr) study.held_out = read_scenarios(root, "held_out", faults);
  const auto limits = read_section<LimitsParams>(root, "limits", faults);
  study.material.most_nodes = static_cast<std::size_t>(limits.nodes);
  study.material.most_depth = static_cast<std::size_t>(limits.depth);
  read_names(root, study, faults);
  read_starts(root, study, faults);
  read_baselines(root, study, faults);
  check_bounds(root, study, faults);
  read_genetic(root, study, faults);
  study.proposer = read_section<ProposerParams>(root, "proposer", faults);
  study.search = read_section<SearchParams>(root, "search", faults);
  if (study.search.first_runs && *study.search.first_runs >= std::ssize(study.training))
    faults.add(place_of(section(root, "search"), "first_runs"),
               fmt::format("expected fewer than the {} training runs, got {}", study.training.size(),
                           *study.search.first_runs));
  faults.throw_if_any();
  return study;
}

std::optional<Tree> read_candidate(const EvolveStudy& study, const std::string& text, Refusal& refusal) {
  Faults faults;
  const auto formula = policies::parse_expression(text, study.subject->names, {}, faults);
  if (!formula) {
    refusal = {Refusal::Kind::faulty, faults.all().front().text()};
    return std::nullopt;
  }
  Tree tree = tree_of(*formula);
  const Material& material = study.material;
  for (const TreeNode& node : tree) {
    if (node.kind != TreeNode::Kind::name) continue;
    if (std::find(material.names.begin(), material.names.end(), node.index) != material.names.end()) continue;
    refusal = {Refusal::Kind::name,
               fmt::format("the name '{}' is not among those of this study", study.names[node.index])};
    return std::nullopt;
  }
  if (!material.fits(tree)) {
    refusal = {Refusal::Kind::too_large,
               fmt::format("expected at most {} nodes, {} deep, got {}, {} deep", material.most_nodes,
                           material.most_depth, tree.size(), depth_of(tree))};
    return std::nullopt;
  }
  return tree;
}

}  // namespace orrery::experiments::evolve
