// Routing: which replica a request goes to.
//
// A router is asked once a request, when the request arrives. It is asked again when the replica fails, and when the
// prefill is done and another replica decodes. It sees the replicas that may take the request and answers with the
// place of one of them.
//
// Contract: the view is never empty, and valid during the call only. Equal views, draws and history give equal answers.
// A call costs O(replicas). Facts are as of the last event that concerned the replica. Ties go to the first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "policies/base/types.hpp"
#include "policies/batching/batching.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "policies/routing/load_report.hpp"
#include "sim/base/random.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

/// What a router may know of a replica.
struct ReplicaFacts {
  std::int32_t replica = 0;         ///< its number in the cluster: lasting, unlike its place in the view
  std::int64_t requests = 0;        ///< that are there or on their way to it
  std::int64_t queued_tokens = 0;   ///< tokens to prefill of those whose prefill is not done (as of their arrival)
  std::int64_t tokens = 0;          ///< prompt tokens of all that are there, and output they came with
  std::int64_t waiting = 0;         ///< requests in its queue; only for a router that reads_live()
  std::int64_t kv_blocks = 0;       ///< blocks in use; only for a router that reads_live()
  std::int64_t kv_total = 0;        ///< blocks it has
  double weight = 1;                ///< its share of the load against others, as configured: loads are divided by it
  double prefill_tokens_per_s = 0;  ///< measured lately while something was queued; 0: not yet
  std::span<const KvView* const> caches;  ///< one a lane of a pipelined replica, else one

  LoadReport load;                      ///< only for a router that reads_reports()
  const BatchPricer* pricer = nullptr;  ///< what iterations cost there; null: nobody knows (on paper)

  /// Tokens at the head of `text` that it has in a prefix cache.
  std::int64_t match(const Text& text) const {
    std::int64_t most = 0;
    for (const KvView* cache : caches)
      if (cache->keeps_prefixes()) most = std::max(most, cache->match_text(text));
    return most;
  }
};

/// What a router may know of the request.
struct RouteRequest {
  std::int64_t id = 0;
  sim::Time arrived;
  std::int64_t prefill_tokens = 0;    ///< prompt, and after a failure the output so far
  std::int64_t ready_tokens = 0;      ///< of these, what comes with its KV
  std::int64_t predicted_tokens = 0;  ///< of the output; 0: no prediction
  std::int64_t session = -1;          ///< conversation; -1: none
  std::int32_t tenant = 0, priority = 0;
  const Text* text = nullptr;  ///< what the prompt says; null or empty: like no other
};

struct RouteView {
  sim::Time now;
  std::int64_t ps_per_tick = 1;
  std::span<const ReplicaFacts> replicas;
  RouteRequest request;
  std::optional<std::int64_t> ttft_ps;  ///< the target of the run
  std::int64_t cluster = 0;             ///< replicas that there are, whether they may take the request or not
};

class Router {
 public:
  virtual ~Router() = default;
  /// Place in view.replicas.
  virtual std::size_t route(const RouteView& view) = 0;
  /// The request of the last route() went to this place of the same view after all: somebody else decides, who only
  /// asked (a learner that is advised). For routers that keep account of what they sent where.
  virtual void sent_elsewhere(const RouteView& /*view*/, std::size_t /*place*/) {}
  /// A request is no longer at a replica: it ended, moved on, or the replica failed. It may be one that this router did
  /// not place.
  virtual void left(std::int64_t /*request*/) {}
  /// Whether `waiting` and `kv_blocks` are read: all replicas are then brought up to date before each call.
  virtual bool reads_live() const { return false; }
  /// Whether it reads `load` too. O(queue) a replica and call.
  virtual bool reads_reports() const { return false; }
};

/// The stream is for the router's draws.
using RouterRegistry = sim::Registry<Router, sim::RandomStream>;

/// Adds every router of this folder (register.cpp: one line a policy).
void register_routers(RouterRegistry& registry);

}  // namespace orrery::policies
