#include "experiments/all/systems.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/catalog.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/capacity/slo_system.hpp"
#include "experiments/capacity/system.hpp"
#include "experiments/claims/claim_study.hpp"
#include "experiments/plans/system.hpp"
#include "experiments/rl/system.hpp"
#include "experiments/study/search_system.hpp"
#include "experiments/study/study.hpp"
#include "experiments/systems/dram/system.hpp"
#include "experiments/systems/function/system.hpp"
#include "experiments/systems/graph/system.hpp"
#include "experiments/systems/hls/system.hpp"
#include "experiments/systems/launch/system.hpp"
#include "experiments/systems/network/system.hpp"
#include "experiments/systems/pim/system.hpp"
#include "experiments/systems/serving/system.hpp"
#include "experiments/tune/system.hpp"
#include "policies/expression_subjects.hpp"
#include "policies/plugin_host.hpp"

namespace orrery::experiments {
namespace {

/// The keys that say what kind of document this is.
void check_kind(const sim::Node& root, sim::Faults& faults) {
  const sim::Node* kind = root.find("kind");
  if (kind != nullptr && !(kind->is_string() && kind->as_string() == "experiment"))
    faults.add(kind->origin(), fmt::format("expected \"experiment\", got {}", kind->shown()));
  const sim::Node* format = root.find("version");
  if (format != nullptr && !(format->kind() == sim::Node::Kind::integer && format->as_integer() == 1))
    faults.add(format->origin(), fmt::format("expected format version 1, got {}", format->shown()));
  const sim::Node* title = root.find("title");
  if (title != nullptr && !title->is_string())
    faults.add(title->origin(), fmt::format("expected a string, got {}", title->shown()));
}

}  // namespace

const std::vector<System>& systems() {
  static policies::PerPlugins<std::vector<System>> all;  // their fields list the policies that there are
  return all.get([] {
    return std::vector<System>{serving_system(),       capacity_system(), slo_sweep_system(), plans_system(),
                               network_system(),       launch_system(),   graph_system(),     tune_system(),
                               dram_system(),          pim_system(),      rl_system(),        search::function_system(),
                               study::search_system(), hls_system()};
  });
}

std::unique_ptr<Experiment> read_experiment(const sim::Node& root) {
  sim::Faults faults;
  check_kind(root, faults);
  std::vector<std::string> names;
  for (const System& system : systems()) names.push_back(system.name);
  const sim::Node* name = root.find("system");
  if (name == nullptr || !name->is_string()) {
    faults.add(name == nullptr ? root.origin_of("system") : name->origin(), "expected the name of a system",
               sim::name_hint("", names));
    faults.throw_if_any();
  }
  for (const System& system : systems()) {
    if (system.name != name->as_string()) continue;
    auto experiment = system.read(root, faults);
    faults.throw_if_any();
    return experiment;
  }
  faults.add(name->origin(), fmt::format("unknown system '{}'", name->as_string()),
             sim::name_hint(name->as_string(), names));
  throw sim::ConfigError(faults.all());
}

std::unique_ptr<Experiment> read_experiment(const std::filesystem::path& config,
                                            const std::vector<std::string>& assignments) {
  if (claims::is_claim_study(config))  // whose base is no file
    sim::throw_fault({config.string(), "/kind"}, "expected an experiment, got a claim study",
                     "`orrery reproduce` runs it");
  if (study::is_study(config))
    sim::throw_fault({config.string(), "/kind"}, "expected an experiment, got a study",
                     "`orrery sweep` and `orrery search` explore it");
  if (document_kind(sim::read_json(config)) == "evolve")
    sim::throw_fault({config.string(), "/kind"}, "expected an experiment, got a study of expressions",
                     "`orrery evolve` searches it");
  return read_experiment(sim::read_config(config, assignments));
}

std::vector<sim::ComponentInfo> all_components() {
  std::vector<sim::ComponentInfo> all;
  const auto add = [&](const sim::ComponentInfo& component) {  // a policy may be allowed in several places
    const auto same = [&](const sim::ComponentInfo& other) {
      return other.kind == component.kind && other.name == component.name;
    };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(component);
  };
  const auto collect = [&](const auto& self, const std::vector<sim::FieldInfo>& fields) -> void {
    for (const sim::FieldInfo& info : fields) {
      for (const sim::ComponentInfo& component : info.policies) add(component);
      self(self, info.nested);
    }
  };
  for (const traces::Format& format : trace_formats().all())
    all.push_back({"trace_format", format.name, format.doc, {}});
  for (const System& system : systems()) {
    all.push_back({"system", system.name, system.doc, system.fields});
    for (const sim::FieldInfo& section : system.fields)
      all.push_back({"section", section.name, system.name + ": " + section.doc, section.nested});
    collect(collect, system.fields);
  }
  for (const sim::ComponentInfo& names : policies::expression_components()) add(names);
  for (sim::ComponentInfo& component : catalog_components()) all.push_back(std::move(component));
  for (sim::ComponentInfo& claim : study_components("claim")) all.push_back(std::move(claim));
  for (sim::ComponentInfo& driver : study::drivers().components()) all.push_back(std::move(driver));
  for (sim::ComponentInfo& shipped : study_components("study")) all.push_back(std::move(shipped));
  return all;
}

std::string component_text(const sim::ComponentInfo& component) {
  if (component.kind == "claim") return claims::study_text(component.name);
  if (component.kind == "study") return study::study_text(component.name);
  return catalog_text(component);
}

}  // namespace orrery::experiments
