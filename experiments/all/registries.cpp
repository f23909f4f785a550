// Every registry, filled: one function a folder adds what the folder has.
#include "policies/registries.hpp"

#include "experiments/all/systems.hpp"
#include "experiments/base/built_graphs.hpp"
#include "experiments/rl/core/env.hpp"
#include "experiments/rl/core/learner.hpp"
#include "experiments/rl/learned_policies.hpp"
#include "experiments/search/driver.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "experiments/systems/serving/programs/program.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/interference/interference.hpp"
#include "hw/network/collective.hpp"
#include "hw/network/routing.hpp"
#include "hw/network/topology.hpp"
#include "models/builders/builder.hpp"
#include "traces/generator.hpp"

namespace orrery::experiments {
namespace {

template <class R>
void add_filled(sim::RegistrySet& all, const char* kind, void (*fill)(R&)) {
  R registry(kind);
  fill(registry);
  all.add(std::move(registry));
}

void add_policies(sim::RegistrySet& all, policies::Registries policies) {
#define ORRERY_KIND(name, ...) all.add(std::move(policies.name));
  ORRERY_POLICY_KINDS(ORRERY_KIND)
#undef ORRERY_KIND
}

}  // namespace

SharedRegistries all_registries(std::span<const policies::LoadedPlugin> plugins) {
  auto all = std::make_shared<sim::RegistrySet>();
  policies::Registries decisions = policies::all_policies(plugins);
  rl::add_learned_policies(decisions);
  add_policies(*all, std::move(decisions));
  add_filled(*all, "cost_model", hw::register_cost_models);
  add_filled(*all, "interference", hw::register_interference);
  add_filled(*all, "topology", hw::register_topologies);
  add_filled(*all, "routing", hw::register_routing);
  add_filled(*all, "collective", hw::register_collectives);
  models::BuilderRegistry builders("builder");
  models::register_builders(builders, home_folder() / "models/catalog");
  all->add(std::move(builders));
  traces::add_trace_registries(*all);
  add_filled(*all, "host", register_host_times);
  add_filled(*all, "program", register_programs);
  add_filled(*all, "driver", search::register_drivers);
  add_filled(*all, "env", rl::register_envs);
  add_filled(*all, "learner", rl::register_learners);
  all->add(BuiltGraphs());
  return all;
}

}  // namespace orrery::experiments
