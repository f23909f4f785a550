// The way of a request through the replicas of a serving system.
//
// A load sends requests; a router chooses a replica for each, the cluster hands it over, books it when it is over and
// tells the load. The replicas themselves, and what routers see of them, are the Fleet's.
//
// Replicas of role prefill hand a request over when its first token is out: a router chooses who decodes it, its KV
// cache goes there (HandOvers), and its blocks stay until it has arrived. Where nobody is up to decode it, it stays
// where it is. A replica that fails (Failures) loses all KV; its requests, and those on their way to it or from it, go
// through the router again and prefill prompt and output so far anew. While no replica takes requests they wait here.
// Replicas may come and go with the load (Scaling), and running requests may move between them (Migrator).
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "experiments/systems/serving/cluster/cold_start.hpp"
#include "experiments/systems/serving/cluster/failures.hpp"
#include "experiments/systems/serving/cluster/fleet.hpp"
#include "experiments/systems/serving/cluster/hand_overs.hpp"
#include "experiments/systems/serving/cluster/migrator.hpp"
#include "experiments/systems/serving/cluster/scaling.hpp"
#include "experiments/systems/serving/config/cluster_config.hpp"
#include "experiments/systems/serving/load/load.hpp"
#include "policies/admission/admission.hpp"

namespace orrery::experiments {

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

class Cluster final : public RequestSink, public RequestPort {
 public:
  /// `observer` may be null.
  Cluster(sim::Engine& engine, ServingMetrics& metrics, RunObserver* observer, Load& load,
          ClusterPolicies policies = {});

  void add(MemberParts parts);
  /// One replica of one lane.
  void add(ReplicaParts parts);
  /// Who moves running requests between replicas; before start().
  void migrate(std::unique_ptr<policies::Migration> policy, const MigrationParams& params) {
    migrator_ = std::make_unique<Migrator>(engine_, *this, fleet_, std::move(policy), params);
  }
  /// Once all replicas are there. `wires`: how KV caches go from one to another, where the machine has a network.
  /// `door`: what requests pass on their way here; null: nothing.
  void start(const ClusterParams& params = {}, KvWires wires = {}, RequestPort* door = nullptr);
  /// The run was cut short, or is over: whatever is still here is unfinished.
  void finish();

  Request& make_request() override;
  void send(Request& request) override;
  void flush() override { flush(false); }
  /// `goes_on`: others may come of the event at hand.
  void flush(bool goes_on);
  void after_decisions() override { fleet_.instants().close(); }
  void request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) override;
  bool prefill_done(Request& request, policies::SeqId seq) override;
  void boundary(std::int32_t replica) override {
    if (migrator_) migrator_->boundary(static_cast<std::size_t>(replica));
  }

  std::size_t size() const { return fleet_.size(); }
  std::size_t lanes(std::size_t i) const { return fleet_[i].lanes.size(); }
  /// How many of its lanes, the first ones, have a queue and a KV cache of their own.
  std::size_t pools(std::size_t i) const { return fleet_[i].pools(); }
  const Replica& replica(std::size_t i, std::size_t lane = 0) const { return *fleet_[i].lanes[lane]; }
  Replica& replica(std::size_t i, std::size_t lane = 0) { return *fleet_[i].lanes[lane]; }
  /// What a router sees of it now.
  const policies::ReplicaFacts& facts(std::size_t i) const { return fleet_.facts(i); }
  /// What it did. Call after finish().
  ReplicaResult result(std::size_t i) const;
  const ClusterTotals& totals() const { return totals_; }

  // For those who move requests, and have replicas come and go.
  /// Gives a request that is in no replica to this one (migrated, failed over): it counts there from now on. flush()
  /// after the last. `first`: at the head of its queue.
  void deliver(Request& request, std::size_t i, bool first = false);
  /// A request that counts at a replica is there.
  void submit(Request& request, bool first = false);
  /// flush() lets this lane decide.
  void touch(Replica& lane) { touched_.push_back(&lane); }
  /// It was taken out of its replica: no longer counts there.
  void withdraw(Request& request);
  /// A request that is in no replica has lost its KV and goes through the router again.
  void reroute(Request& request);
  /// A request that lost its KV cache goes through the router again, but not for ever: one that needs longer than
  /// replicas stay up would never end.
  void restart(Request& request);
  /// A replica takes requests from now on.
  void open(std::size_t i);
  void fail(std::size_t i);
  void come_back(std::size_t i);
  /// It is switched on, after such a start, or off: it takes this share of its power.
  void powered(std::size_t i, double share, const ColdStart* start);
  /// Requests that are here, in replicas or not.
  std::int64_t in_system() const { return in_system_; }
  /// Of these, those that wait for a replica to take them.
  std::int64_t parked() const { return std::ssize(parked_); }
  /// Events to come that only look whether replicas should come, go or hand requests on.
  std::size_t looks() const { return scaling_.looks() + (migrator_ && migrator_->looks() ? 1 : 0); }
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

 private:
  void dispatch(Request& request);
  void end(Request& request, std::string_view status, std::optional<sim::Time> finished);
  std::optional<std::string_view> turned_away(const Request& request);

  sim::Engine& engine_;
  ServingMetrics& metrics_;
  RunObserver* observer_;
  Load& load_;
  ClusterPolicies policies_;
  RequestPool pool_;
  Fleet fleet_;
  Scaling scaling_;
  std::unique_ptr<HandOvers> hand_overs_;  // where replicas only prefill
  std::unique_ptr<Failures> failures_;     // where replicas fail
  std::unique_ptr<Migrator> migrator_;
  std::vector<Request*> parked_;   // no replica takes requests
  std::vector<Replica*> touched_;  // lanes that got requests since the last flush
  std::int64_t retries_ = 0;
  ClusterTotals totals_;
  std::int64_t in_system_ = 0;
  std::int64_t next_id_ = 0;
  bool watched_ = false;  // the observer wants steps
  bool finishing_ = false;
};

}  // namespace orrery::experiments
