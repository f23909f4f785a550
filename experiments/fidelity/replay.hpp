// Replays measured arrivals through a replica, or several that share them in turn: when did each request's first and
// last token come? For tables of whole serving runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/systems/serving/pricing/host_time.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "policies/batching/batching.hpp"
#include "policies/kvcache/kvcache.hpp"

namespace orrery::experiments {

struct ReplayRequest {
  double arrived_s = 0;  ///< on the clock; of one that follows another, since that one ended
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  std::optional<std::size_t> after = {};  ///< place of the request whose client sends this one next
};

/// Seconds from the arrival; nothing for a request that was rejected.
struct ReplayTimes {
  double first_token_s = 0, last_token_s = 0;
  std::int32_t preemptions = 0;
};

struct ReplayParts {
  IterationModel* model = nullptr;
  const HostTime* host = nullptr;  ///< may be null
  policies::BatchingRegistry::Choice batching;
  policies::KvCacheRegistry::Choice kvcache;
  policies::KvGeometry geometry;
  policies::ReplicaLimits limits;
  std::int64_t replicas = 1;  ///< requests go to them in turn
  bool lock_step = false;     ///< replicas' iterations begin and end together: ranks that share experts
  bool leap = true;
};

/// Requests by arrival, those that follow others behind these, at most one each; no two have text in common, so that a
/// prefix cache finds only what a request left itself before it was preempted.
std::vector<std::optional<ReplayTimes>> replay(const ReplayParts& parts, const std::vector<ReplayRequest>& requests);

}  // namespace orrery::experiments
