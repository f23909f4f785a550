#include "policies/registries.hpp"

namespace orrery::policies {

Registries all_policies(std::span<const LoadedPlugin> plugins) {
  Registries all;
  register_admission_controls(all.admission);
  register_batching_policies(all.batching);
  register_execution_policies(all.execution);
  register_kv_caches(all.kvcache);
  register_memory_planners(all.memory_planner);
  register_migrations(all.migration);
  register_graph_passes(all.pass);
  register_clock_policies(all.power);
  register_routers(all.routing);
  register_scalings(all.scaling);
  register_speculation(all.speculation);
  const auto add = [](auto hook, auto& registry) {
    if (hook != nullptr) hook(registry);
  };
  for (const LoadedPlugin& loaded : plugins) {
    add(loaded.plugin->admission, all.admission);
    add(loaded.plugin->batching, all.batching);
    add(loaded.plugin->execution, all.execution);
    add(loaded.plugin->kvcache, all.kvcache);
    add(loaded.plugin->memory_planner, all.memory_planner);
    add(loaded.plugin->migration, all.migration);
    add(loaded.plugin->pass, all.pass);
    add(loaded.plugin->power, all.power);
    add(loaded.plugin->routing, all.routing);
    add(loaded.plugin->scaling, all.scaling);
    add(loaded.plugin->speculation, all.speculation);
  }
  return all;
}

}  // namespace orrery::policies
