#include "experiments/all/systems.hpp"

#include <algorithm>

#include "experiments/base/catalog.hpp"
#include "experiments/base/component_node.hpp"
#include "experiments/base/study_file.hpp"
#include "experiments/capacity/slo_system.hpp"
#include "experiments/capacity/system.hpp"
#include "experiments/claims/claim_study.hpp"
#include "experiments/feedback/system.hpp"
#include "experiments/job/system.hpp"
#include "experiments/plans/system.hpp"
#include "experiments/progress/system.hpp"
#include "experiments/rl/system.hpp"
#include "experiments/study/search_system.hpp"
#include "experiments/study/study.hpp"
#include "experiments/systems/aggregate/system.hpp"
#include "experiments/systems/dram/system.hpp"
#include "experiments/systems/experts/system.hpp"
#include "experiments/systems/function/system.hpp"
#include "experiments/systems/graph/system.hpp"
#include "experiments/systems/hls/system.hpp"
#include "experiments/systems/launch/system.hpp"
#include "experiments/systems/mixture/system.hpp"
#include "experiments/moe_layers/system.hpp"
#include "experiments/systems/network/system.hpp"
#include "experiments/systems/pim/system.hpp"
#include "experiments/systems/serving/system.hpp"
#include "experiments/systems/tasks/system.hpp"
#include "experiments/systems/training/plans_system.hpp"
#include "experiments/systems/training/system.hpp"
#include "experiments/systems/transactions/system.hpp"
#include "experiments/uneven/system.hpp"
#include "experiments/tune/system.hpp"
#include "policies/expert_placement/expert_placement.hpp"
#include "policies/expression_subjects.hpp"

namespace orrery::experiments {

Systems all_systems(std::span<const policies::LoadedPlugin> plugins) {
  std::vector<System> all{serving_system(),
                          capacity_system(),
                          slo_sweep_system(),
                          plans_system(),
                          network_system(),
                          launch_system(),
                          graph_system(),
                          tune_system(),
                          dram_system(),
                          pim_system(),
                          rl_system(),
                          search::function_system(),
                          study::search_system(),
                          hls_system(),
                          aggregate_system(),
                          tasks_system(),
                          training_system(),
                          training_plans_system(),
                          experts_system(),
                          mixture_system(),
                          moe_layers_system(),
                          rlhf_system(),
                          training_job_system(),
                          goodput_system(),
                          progress_system(),
                          transactions_system(),
                          uneven_batches_system()};
  return {std::move(all), all_registries(plugins)};
}

std::vector<sim::ComponentInfo> all_components(const Systems& systems) {
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
  for (const traces::Format& format : systems.registry<traces::FormatTable>().all())
    all.push_back({"trace_format", format.name, format.doc, {}});
  for (const System& system : systems.all()) {
    const std::vector<sim::FieldInfo> fields = system.fields(*systems.registries());
    all.push_back({"system", system.name, system.doc, fields});
    for (const sim::FieldInfo& section : fields)
      all.push_back({"section", section.name, system.name + ": " + section.doc, section.nested});
    collect(collect, fields);
  }
  for (const sim::ComponentInfo& names : policies::expression_components()) add(names);
  for (const sim::ComponentInfo& one : systems.registry<policies::ExpertPlacementRegistry>().components()) add(one);
  for (sim::ComponentInfo& component : catalog_components()) all.push_back(std::move(component));
  for (sim::ComponentInfo& claim : study_components("claim")) all.push_back(std::move(claim));
  for (const sim::ComponentInfo& driver : systems.registry<search::DriverRegistry>().components()) add(driver);
  for (sim::ComponentInfo& shipped : study_components("study")) all.push_back(std::move(shipped));
  return all;
}

sim::Node described(const Systems& systems, const sim::ComponentInfo& component) {
  sim::Node node = component_node(component);
  for (const System& system : systems.all()) {
    if (component.kind != "system" || component.name != system.name || system.figures.empty()) continue;
    sim::Node& figures = node.set("figures", sim::Node::array());
    for (const FigureInfo& info : system.figures) {
      sim::Node figure = sim::Node::object();
      figure.set("path", sim::Node::string(info.path));
      figure.set("unit", sim::Node::string(info.unit));
      figure.set("meaning", sim::Node::string(info.meaning));
      figures.push(std::move(figure));
    }
  }
  return node;
}

std::string component_text(const Systems& systems, const sim::ComponentInfo& component) {
  if (component.kind == "claim") return claims::study_text(component.name);
  if (component.kind == "study") return study::study_text(systems, component.name);
  return catalog_text(component);
}

}  // namespace orrery::experiments
