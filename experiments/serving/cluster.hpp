// The replicas of a serving system and the way of a request through them.
//
// A load sends requests; a router chooses a replica for each, the cluster hands it over, books it when it is over and
// tells the load. What routers see of the replicas is kept up to date as requests come and go, so that a choice costs
// O(replicas) and no more. A replica has one lane, or several that share its pipeline (StagePipe): a request stays on
// the lane it was given, that with the fewest requests.
#pragma once

#include <memory>
#include <vector>

#include "experiments/serving/cluster_config.hpp"
#include "experiments/serving/load.hpp"
#include "experiments/serving/replica.hpp"
#include "policies/routing/routing.hpp"

namespace orrery::experiments {

/// A replica to add to a cluster; `lanes` lack what the cluster itself provides (engine, metrics, sink, observer,
/// index, stream).
struct MemberParts {
  std::int32_t group = 0;
  Role role = Role::both;
  double weight = 1;
  std::vector<ReplicaParts> lanes;
};

/// Who decides in a cluster.
struct ClusterPolicies {
  std::unique_ptr<policies::Router> router;  ///< of new requests; may be null for a single replica
};

class Cluster final : public RequestSink, public RequestPort {
 public:
  /// `observer` may be null.
  Cluster(sim::Engine& engine, ServingMetrics& metrics, RunObserver* observer, Load& load,
          ClusterPolicies policies = {});

  void add(MemberParts parts);
  /// One replica of one lane.
  void add(ReplicaParts parts);
  void start() { load_.start(engine_, *this); }
  /// The run was cut short, or is over: whatever is still here is unfinished. Sums costs into the metrics.
  void finish();

  Request& make_request() override;
  void send(Request& request) override;
  void flush() override;
  void request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) override;
  bool prefill_done(Request& request, policies::SeqId seq) override;

  std::size_t size() const { return members_.size(); }
  std::size_t lanes(std::size_t i) const { return members_[i].lanes.size(); }
  const Replica& replica(std::size_t i, std::size_t lane = 0) const { return *members_[i].lanes[lane]; }
  Replica& replica(std::size_t i, std::size_t lane = 0) { return *members_[i].lanes[lane]; }
  /// What a router sees of it now.
  const policies::ReplicaFacts& facts(std::size_t i) const;
  /// What it did. Call after finish().
  ReplicaResult result(std::size_t i) const;
  /// Gives a request that is in no replica to this one (migrated, failed over): it counts there from now on. flush()
  /// after the last.
  void deliver(Request& request, std::size_t i);
  /// It was taken out of its replica: no longer counts there.
  void withdraw(Request& request);

 private:
  /// Replicas that a router chooses from.
  struct Pool {
    std::vector<policies::ReplicaFacts> facts;  // in order of their number
    policies::Router* router = nullptr;
  };
  struct Member {
    std::int32_t group = 0;
    Role role = Role::both;
    std::vector<std::unique_ptr<Replica>> lanes;
    std::vector<const policies::KvView*> caches;
    Pool* pool = nullptr;                             // null: takes no requests now
    std::size_t place = 0;                            // in the pool
    policies::ReplicaFacts away;                      // its facts while it is in none
    sim::Time counted;                                // when they last changed
    std::int64_t prefill_ps = 0, prefill_tokens = 0;  // lately: with something queued, and done in that time
    std::int64_t requests = 0, completed = 0, output_tokens = 0;
  };

  policies::ReplicaFacts& facts_of(Member& member) {
    return member.pool ? member.pool->facts[member.place] : member.away;
  }
  std::size_t route(const Request& request, Pool& pool);
  void read_live(Pool& pool);
  void enter(std::size_t i, Pool& pool);
  void queue_changed(Member& member, std::int64_t tokens);
  Replica& lane_for(Member& member);

  sim::Engine& engine_;
  ServingMetrics& metrics_;
  RunObserver* observer_;
  Load& load_;
  ClusterPolicies policies_;
  RequestPool pool_;
  std::vector<Member> members_;
  Pool prompts_;
  std::vector<Replica*> touched_;  // lanes that got requests since the last flush
  std::int64_t next_id_ = 0;
  std::int32_t next_stream_ = 0;
  bool finishing_ = false;
};

}  // namespace orrery::experiments
