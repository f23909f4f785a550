// Every policy that there is, by the decision it takes. One value, made by main() (by a test, by the Python module) and
// passed to whoever reads configs.
#pragma once

#include <span>

#include "policies/admission/admission.hpp"
#include "policies/base/graph_pass.hpp"
#include "policies/batching/batching.hpp"
#include "policies/execution/execution.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "policies/memory/planner.hpp"
#include "policies/migration/migration.hpp"
#include "policies/plugin_host.hpp"
#include "policies/power/power.hpp"
#include "policies/routing/routing.hpp"
#include "policies/scaling/scaling.hpp"
#include "policies/speculation/speculation.hpp"

namespace orrery::policies {

struct Registries {
  AdmissionRegistry admission{"admission"};                ///< whether a request may come in
  BatchingRegistry batching{"batching"};                   ///< which sequences advance in an iteration
  ExecutionRegistry execution{"execution"};                ///< how a graph is launched
  KvCacheRegistry kvcache{"kvcache"};                      ///< how the KV cache is handed out
  MemoryPlannerRegistry memory_planner{"memory_planner"};  ///< where buffers lie in memory
  MigrationRegistry migration{"migration"};                ///< which running requests move
  PassRegistry pass{"pass"};                               ///< what becomes of an operator graph
  ClockRegistry power{"power"};                            ///< at which clock a device runs
  RouterRegistry routing{"routing"};                       ///< which replica a request goes to
  ScalingRegistry scaling{"scaling"};                      ///< how many replicas are up
  SpeculationRegistry speculation{"speculation"};          ///< who proposes tokens, and how many
};

/// The policies that ship, and those of `plugins`.
Registries all_policies(std::span<const LoadedPlugin> plugins = {});

}  // namespace orrery::policies
