// The replicas of a serving system and the way of a request through them.
//
// A load sends requests; a router chooses a replica for each, the cluster hands it over, books it when it is over and
// tells the load. What routers see of the replicas is kept up to date as requests come and go, so that a choice costs
// O(replicas) and no more. A replica has one lane, or several that share its pipeline (StagePipe): a request stays on
// the lane it was given, that with the fewest requests.
//
// Replicas of role prefill hand a request over when its first token is out: a router chooses who decodes it, its KV
// cache goes there over the network (KvTransfers), and its blocks stay until it has arrived. Where nobody is up to
// decode it, it stays where it is. A replica that fails loses all KV; its requests, and those on their way to it or
// from it, go through the router again and prefill prompt and output so far anew. While no replica takes requests they
// wait here.
#pragma once

#include <memory>
#include <vector>

#include "experiments/systems/serving/cluster/cold_start.hpp"
#include "experiments/systems/serving/cluster/migrator.hpp"
#include "experiments/systems/serving/cluster/outages.hpp"
#include "experiments/systems/serving/cluster/transfer.hpp"
#include "experiments/systems/serving/config/cluster_config.hpp"
#include "experiments/systems/serving/load/load.hpp"
#include "experiments/systems/serving/replica/lock_step.hpp"
#include "experiments/systems/serving/replica/replica.hpp"
#include "policies/admission/admission.hpp"
#include "policies/routing/routing.hpp"
#include "policies/scaling/scaling.hpp"

namespace orrery::experiments {

/// A replica to add to a cluster; `lanes` lack what the cluster itself provides (engine, metrics, sink, observer,
/// index, stream).
struct MemberParts {
  std::int32_t group = 0;
  Role role = Role::both;
  double weight = 1;
  bool lock_step = false;               ///< its lanes' iterations begin and end together
  std::int64_t kv_bytes_per_token = 0;  ///< over all its devices
  std::int64_t weight_bytes = 0;        ///< on one device
  std::unique_ptr<StagePipe> pipe;      ///< that the lanes pass; null: there is one lane
  std::vector<ReplicaParts> lanes;
};

/// Who decides in a cluster.
struct ClusterPolicies {
  std::unique_ptr<policies::Router> router;               ///< of new requests; may be null for a single replica
  std::unique_ptr<policies::Router> decode_router;        ///< of requests that others prefilled; likewise
  std::unique_ptr<policies::AdmissionControl> admission;  ///< null: everybody comes in
  std::unique_ptr<policies::Scaling> scaling;             ///< null: all replicas are up
  std::unique_ptr<policies::Scaling> decode_scaling;      ///< of replicas that decode only; likewise
};

/// What happened to replicas, and to requests on their way between them.
struct ClusterTotals {
  TransferTotals transfers;
  MigrationTotals migrations;
  std::int64_t failures = 0;  ///< of replicas
  std::int64_t rerouted = 0;  ///< requests that had to start over on another replica
  std::int64_t parked = 0;    ///< requests that found no replica up
  std::int64_t cold_starts = 0;
  ColdStart cold;                         ///< summed
  __int128 up_ticks = 0, busy_ticks = 0;  ///< over replicas: not switched off, and with requests
};

class Cluster final : public RequestSink, public RequestPort, public sim::EventHandler {
 public:
  /// `observer` may be null.
  Cluster(sim::Engine& engine, ServingMetrics& metrics, RunObserver* observer, Load& load,
          ClusterPolicies policies = {});

  void add(MemberParts parts);
  /// One replica of one lane.
  void add(ReplicaParts parts);
  /// Once all replicas are there.
  void start(const ClusterParams& params = {});
  /// The run was cut short, or is over: whatever is still here is unfinished. Sums costs into the metrics.
  void finish();

  Request& make_request() override;
  void send(Request& request) override;
  void flush() override;
  void request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) override;
  bool prefill_done(Request& request, policies::SeqId seq) override;
  /// A transfer arrived, or a replica fails or returns.
  void on_event(std::uint64_t payload) override;

  std::size_t size() const { return members_.size(); }
  std::size_t lanes(std::size_t i) const { return members_[i].lanes.size(); }
  const Replica& replica(std::size_t i, std::size_t lane = 0) const { return *members_[i].lanes[lane]; }
  Replica& replica(std::size_t i, std::size_t lane = 0) { return *members_[i].lanes[lane]; }
  /// What a router sees of it now.
  const policies::ReplicaFacts& facts(std::size_t i) const;
  /// What it did. Call after finish().
  ReplicaResult result(std::size_t i) const;
  const ClusterTotals& totals() const { return totals_; }
  /// Gives a request that is in no replica to this one (migrated, failed over): it counts there from now on. flush()
  /// after the last. `first`: at the head of its queue.
  void deliver(Request& request, std::size_t i, bool first = false);
  /// A request that is in no replica has lost its KV and goes through the router again.
  void reroute(Request& request);
  /// Whether a replica takes requests now: it has not failed, and is neither off nor about to be.
  bool takes(std::size_t i) const { return members_[i].pool != nullptr; }
  /// Whether it decodes.
  bool decodes(std::size_t i) const { return members_[i].role != Role::prefill; }
  /// It was taken out of its replica: no longer counts there.
  void withdraw(Request& request);
  /// Tells whoever wants to know what a request does from now on.
  void tell(const Request& request, RequestPhase phase) {
    if (watched_) observer_->request_step({request.id, engine_.now(), phase, request.placed ? request.replica : -1});
  }
  /// Tells what happens at this instant.
  void tell(ClusterEvent event) {
    if (!watched_) return;
    event.at = engine_.now();
    observer_->cluster_event(event);
  }
  /// Who moves running requests between replicas; before start().
  void migrate(std::unique_ptr<policies::Migration> policy, const MigrationParams& params) {
    migrator_ = std::make_unique<Migrator>(engine_, *this, std::move(policy), params);
  }
  void boundary(std::int32_t replica) override {
    if (migrator_) migrator_->boundary(static_cast<std::size_t>(replica));
  }
  /// Bytes of a block on all devices of a replica.
  std::int64_t block_bytes(std::size_t i) const {
    return members_[i].kv_bytes_per_token * replica(i).kv().growth_tokens();
  }

 private:
  /// How many of a pool's replicas are up.
  struct Scaler {
    ScalingParams params;
    std::unique_ptr<ColdStarts> cold_starts;
    sim::Duration interval{};
    bool tick_pending = false;
    std::int64_t starting = 0;
    std::int64_t missed = 0;   // that found none up since the last decision (prompts wait instead)
    sim::Time busy_from;       // of the interval under way …
    __int128 busy_before = 0;  // … and busy_ticks() then
  };
  /// Replicas that a router chooses from.
  struct Pool {
    std::vector<policies::ReplicaFacts> facts;  // in order of their number
    policies::Router* router = nullptr;
    policies::Scaling* scaling = nullptr;
    std::optional<Scaler> scaler;  // without one all replicas are up
  };
  enum class Power : std::uint8_t { on, starting, draining, off };
  struct Member {
    std::int32_t group = 0;
    Role role = Role::both;
    std::unique_ptr<StagePipe> pipe;
    std::unique_ptr<LockStep> lock_step;
    std::vector<std::unique_ptr<Replica>> lanes;
    std::vector<const policies::KvView*> caches;
    std::int64_t kv_bytes_per_token = 0;
    std::optional<Outage> outage;        // the next one, or that under way
    std::optional<sim::EventId> change;  // its begin or end
    bool down = false, deferred = false;
    Power power = Power::on;
    std::int64_t weight_bytes = 0;
    sim::Time idle_since, off_since;
    std::optional<sim::Time> busy_since;  // it has requests
    std::int64_t busy_ticks = 0, off_ticks = 0;
    Pool* pool = nullptr;                             // null: takes no requests now
    std::size_t place = 0;                            // in the pool
    policies::ReplicaFacts away;                      // its facts while it is in none
    sim::Time counted;                                // when they last changed
    std::int64_t prefill_ps = 0, prefill_tokens = 0;  // lately: with something queued, and done in that time
    std::int64_t requests = 0, completed = 0, output_tokens = 0;
  };

  /// A KV cache on its way.
  struct Moving {
    Request* request = nullptr;  // null: free
    std::size_t from = 0;
    Replica* lane = nullptr;
    policies::SeqId seq;
    sim::FlowId flow;
    sim::Time since;
    std::int64_t bytes = 0;
  };
  // payload: kind, and the number of replica, transfer or pool (0: prompts, 1: decodes) above it
  enum Event : std::uint64_t { kChange, kArrived, kScale, kStarted };

  Pool& pool_of(const Member& member) { return member.role == Role::decode ? decodes_ : prompts_; }
  const Pool& pool_of(const Member& member) const { return member.role == Role::decode ? decodes_ : prompts_; }
  void leave(std::size_t i);
  void place(Request& request, std::size_t i);
  void submit(Request& request, bool first = false);
  void dispatch(Request& request);
  bool hand_over(Request& request, policies::SeqId seq);
  void arrived(std::size_t slot);
  void cancel_transfers(std::size_t i);
  void end(Request& request, std::string_view status, std::optional<sim::Time> finished);
  void watch_outages();
  void plan_outage(std::size_t i);
  void unwatch_outages();
  void fail(std::size_t i);
  void come_back(std::size_t i);
  void restart(Request& request);
  policies::RouteRequest describe(const Request& request) const;
  std::optional<std::string_view> turned_away(const Request& request);
  void begin_scaling(Pool& pool, const ScalingParams& params);
  void wake_scaling(Pool& pool);
  void scaling_tick(Pool& pool);
  void scale(Pool& pool);
  void scale_to(Pool& pool, std::int64_t wanted);
  policies::ScalingView scaling_view(Pool& pool);
  void switch_on(std::size_t i);
  void started(std::size_t i);
  void drain(std::size_t i);
  void drained(std::size_t i);
  void switch_off(std::size_t i);
  __int128 busy_ticks(const Pool& pool) const;

  policies::ReplicaFacts& facts_of(Member& member) {
    return member.pool ? member.pool->facts[member.place] : member.away;
  }
  std::size_t route(const Request& request, Pool& pool);
  void read_live(Pool& pool);
  void enter(std::size_t i, Pool& pool);
  void queue_changed(Member& member, std::int64_t tokens);
  std::int32_t lane_for(const Member& member) const;

  sim::Engine& engine_;
  ServingMetrics& metrics_;
  RunObserver* observer_;
  Load& load_;
  ClusterPolicies policies_;
  RequestPool pool_;
  std::vector<Member> members_;
  Pool prompts_, decodes_;
  std::vector<Request*> parked_;  // no replica takes requests
  std::unique_ptr<KvTransfers> transfers_;
  std::vector<Moving> moving_;
  std::vector<std::size_t> free_moving_;
  std::unique_ptr<Outages> outages_;
  std::int64_t retries_ = 0;
  ClusterTotals totals_;
  std::unique_ptr<Migrator> migrator_;
  std::int64_t in_system_ = 0;
  bool watched_ = false;  // the observer wants steps
  std::vector<sim::Time> idle_since_;
  std::vector<Replica*> touched_;  // lanes that got requests since the last flush
  std::int64_t next_id_ = 0;
  std::int32_t next_stream_ = 0;
  bool finishing_ = false;
};

}  // namespace orrery::experiments
