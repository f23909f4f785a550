// Kinds of decision: a line each. The registries, the hooks of plugins and what fills them all follow from this list,
// so a new kind is a folder, a line here, a field of the config that chooses, and whoever asks.
//
//   ORRERY_KIND(name, what fills its registry, interface, what its factories are given ...)
//
// The function that fills stands in the folder's register.cpp.
#pragma once

#include <cstdint>

namespace orrery::sim {
template <class Interface, class... Args>
class Registry;
class RandomStream;
}  // namespace orrery::sim

// clang-format off
#define ORRERY_POLICY_KINDS(KIND)                                                                                  \
  KIND(admission, register_admission_controls, AdmissionControl)           /* whether a request may come in */     \
  KIND(batching, register_batching_policies, Batching)                     /* which sequences advance */           \
  KIND(execution, register_execution_policies, Execution)                  /* how a graph is launched */           \
  KIND(expert_cache, register_expert_caches, ExpertCache, const ExpertCacheSetup&) /* which experts stay */        \
  KIND(expert_order, register_expert_orders, ExpertOrder)                  /* which missing experts come first */  \
  KIND(expert_placement, register_expert_placements, ExpertPlacement)      /* which GPU holds which experts */     \
  KIND(expert_schedule, register_expert_schedules, ExpertSchedule)         /* where missing experts are computed */ \
  KIND(kvcache, register_kv_caches, KvCache, const KvGeometry&)            /* how the KV cache is handed out */    \
  KIND(memory_planner, register_memory_planners, MemoryPlanner)            /* where buffers lie in memory */       \
  KIND(migration, register_migrations, Migration)                          /* which running requests move */       \
  KIND(mixture, register_mixtures, Mixture)                                /* shares of domains in training */    \
  KIND(offload, register_offloads, Offload)                                /* how states of the host are updated */ \
  KIND(partition, register_partitions, Partition)                          /* which layers a pipeline stage has */ \
  KIND(pass, register_graph_passes, GraphPass)                             /* what becomes of a graph */           \
  KIND(power, register_clock_policies, ClockPolicy)                        /* at which clock a device runs */      \
  KIND(rate, register_rates, RateSchedule)                                 /* the learning rate of each step */      \
  KIND(recovery, register_recoveries, Recovery)                            /* what a job does that lost a node */   \
  KIND(routing, register_routers, Router, sim::RandomStream)               /* which replica a request goes to */   \
  KIND(scaling, register_scalings, Scaling)                                /* how many replicas are up */          \
  KIND(schedule, register_schedules, PipelineSchedule)                     /* order of a stage's passes */         \
  KIND(sequence_groups, register_sequence_groupings, SequenceGrouping)     /* how unlike sequences share devices */  \
  KIND(speculation, register_speculation, Speculator, const StepPrices&, std::uint64_t) /* who proposes tokens */  \
  KIND(token_groups, register_token_groups, TokenGroups)                   /* which tokens share a step */         \
  KIND(transaction_order, register_transaction_orders, TransactionOrder, sim::RandomStream) /* who goes next */
// clang-format on

namespace orrery::policies {

struct ExpertCacheSetup;
struct KvGeometry;
class StepPrices;

#define ORRERY_KIND(name, fill, Interface, ...) class Interface;
ORRERY_POLICY_KINDS(ORRERY_KIND)
#undef ORRERY_KIND

}  // namespace orrery::policies
