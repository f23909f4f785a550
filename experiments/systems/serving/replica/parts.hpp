// What a replica is made of. Everything is borrowed and must outlive it, except the policies, which it owns, or shares
// with the other lanes of its scheduler.
#pragma once

#include <cstdint>
#include <memory>

#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/observe/metrics.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "experiments/systems/serving/pricing/router_replay.hpp"
#include "experiments/systems/serving/replica/stage_pipe.hpp"
#include "experiments/systems/serving/replica/wire.hpp"
#include "policies/batching/batching.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "policies/kvcache/tier.hpp"
#include "policies/speculation/speculation.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

class ExpertMemory;
class Instants;
class LaneScheduler;
class LockStep;
class Rebalancer;
struct SequencePool;
struct TierLinks;

/// Who knows of the experts of a replica's model.
struct ExpertParts {
  const RouterReplay* replay = nullptr;    ///< may be null: nobody knows which experts tokens choose
  std::shared_ptr<Rebalancer> rebalancer;  ///< of all lanes; may be null: experts stay where they are
  std::shared_ptr<ExpertMemory> memory;    ///< may be null: the devices hold all experts
};

struct ReplicaParts {
  sim::Engine* engine = nullptr;
  Instants* instants = nullptr;  ///< of this engine
  IterationModel* model = nullptr;
  ExpertParts experts;
  ServingMetrics* metrics = nullptr;
  RequestSink* sink = nullptr;
  RunObserver* observer = nullptr;             ///< may be null
  policies::Acceptance* acceptance = nullptr;  ///< may be null: every draft is rejected
  policies::KvTier* tier = nullptr;            ///< may be null: swapping is recomputing
  const HostTime* host = nullptr;              ///< may be null: the host takes no time
  StagePipe* pipe = nullptr;                   ///< may be null: the model prices iterations from end to end
  std::shared_ptr<Wire> wire;                  ///< may be null: its collectives meet nobody else's
  LockStep* lock_step = nullptr;               ///< may be null: it begins its iterations by itself
  LaneScheduler* scheduler = nullptr;          ///< may be null: it has a queue and a cache of its own
  std::shared_ptr<SequencePool> pool;          ///< shared with the lanes of its scheduler, as what follows; else null
  std::shared_ptr<TierLinks> links;
  std::shared_ptr<policies::Batching> batching;
  std::shared_ptr<policies::KvCache> kv;
  std::shared_ptr<policies::Speculator> speculator;  ///< may be null: nobody proposes beside the batching policy
  policies::ReplicaLimits limits;
  std::int32_t index = 0;   ///< of the replica in the cluster
  std::int32_t lane = 0;    ///< of the replica
  std::int32_t stream = 0;  ///< see IterationRun
  bool leap = true;         ///< false: one iteration an event, for tests that both give the same
};

}  // namespace orrery::experiments
