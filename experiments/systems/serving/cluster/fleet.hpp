// The replicas of a cluster, in two pools that routers choose from, and what routers see of them.
//
// Facts are kept up to date as requests come and go, so that a choice costs O(replicas) and no more. A replica has one
// lane, or several: those of a pipeline (StagePipe) under one scheduler (LaneScheduler), or lanes with queues and KV
// caches of their own, where a request stays on the lane it was given, that with the fewest requests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/systems/serving/config/cluster_config.hpp"
#include "experiments/systems/serving/replica/lane_scheduler.hpp"
#include "experiments/systems/serving/replica/lock_step.hpp"
#include "experiments/systems/serving/replica/replica.hpp"
#include "policies/routing/routing.hpp"

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
  std::int64_t one_scheduler = 0;       ///< so many lanes like the first of `lanes` share its policies, …
  std::vector<ReplicaParts> lanes;      ///< … or 0: these are all
};

/// Replicas that a router chooses from.
struct Pool {
  std::vector<policies::ReplicaFacts> facts;  ///< in order of their number
  policies::Router* router = nullptr;         ///< may be null for a single replica
};

enum class Power : std::uint8_t { on, starting, draining, off };

/// How fast a replica prefilled lately: with something queued.
struct PrefillRate {
  sim::Time counted;  ///< when what is queued last changed
  std::int64_t ps = 0, tokens = 0;
};

struct Member {
  std::int32_t group = 0;
  Role role = Role::both;
  std::unique_ptr<StagePipe> pipe;
  std::unique_ptr<LockStep> lock_step;
  std::unique_ptr<LaneScheduler> scheduler;
  std::vector<std::unique_ptr<Replica>> lanes;
  std::vector<const policies::KvView*> caches;
  std::int64_t kv_bytes_per_token = 0, weight_bytes = 0;
  bool down = false;  ///< it has failed
  Power power = Power::on;
  sim::Time idle_since, off_since;
  std::optional<sim::Time> busy_since;  ///< it has requests
  std::int64_t busy_ticks = 0, off_ticks = 0;
  Pool* pool = nullptr;         ///< null: takes no requests now
  std::size_t place = 0;        ///< in the pool
  policies::ReplicaFacts away;  ///< its facts while it is in none
  PrefillRate prefill;
  std::int64_t requests = 0, completed = 0, output_tokens = 0;

  /// How many of its lanes, the first ones, have a queue and a KV cache of their own.
  std::size_t pools() const { return scheduler != nullptr ? 1 : lanes.size(); }
};

class Fleet {
 public:
  /// Routers may be null.
  Fleet(sim::Engine& engine, ServingMetrics& metrics, policies::Router* prompts, policies::Router* decodes);
  Fleet(const Fleet&) = delete;  // members know their pools
  Fleet& operator=(const Fleet&) = delete;
  /// Of all its replicas.
  Instants& instants() { return instants_; }

  /// It is in no pool yet.
  void add(MemberParts parts, RequestSink& sink, RunObserver* observer);
  std::size_t size() const { return members_.size(); }
  Member& operator[](std::size_t i) { return members_[i]; }
  const Member& operator[](std::size_t i) const { return members_[i]; }
  Member& of(const Request& request) { return members_[static_cast<std::size_t>(request.replica)]; }
  auto begin() { return members_.begin(); }
  auto end() { return members_.end(); }

  /// Who takes new requests, and who those that others prefilled.
  Pool& prompts() { return prompts_; }
  Pool& decodes() { return decodes_; }
  Pool& pool_of(const Member& member) { return member.role == Role::decode ? decodes_ : prompts_; }
  /// A replica takes requests of its pool from now on, or none any longer.
  void enter(std::size_t i);
  void leave(std::size_t i);
  /// What a router sees of it now.
  const policies::ReplicaFacts& facts(std::size_t i) const;
  /// What it reports; its lanes are brought up to date first.
  policies::LoadReport report(std::size_t i);
  /// Number of the replica that a request of this pool goes to.
  std::size_t route(const Request& request, Pool& pool);
  static policies::RouteRequest describe(const Request& request);

  /// The request counts at a replica from now on.
  void place(Request& request, std::size_t i);
  /// It no longer does. Returns where it was.
  Member& withdraw(Request& request);
  /// Its prefill is done.
  void prefilled(Request& request);
  /// The lane of its replica that it goes to.
  Replica& choose_lane(Request& request);

  /// Ticks with requests, over the replicas of a pool, so far.
  __int128 busy_ticks(const Pool& pool);
  /// What it did, but for its power while off.
  ReplicaResult result(std::size_t i) const;

 private:
  policies::ReplicaFacts& facts_of(Member& member) {
    return member.pool ? member.pool->facts[member.place] : member.away;
  }
  void renumber(const Pool& pool);
  void read_live(Pool& pool);
  void queue_changed(Member& member, std::int64_t tokens);

  sim::Engine& engine_;
  Instants instants_;
  ServingMetrics& metrics_;
  std::vector<Member> members_;
  Pool prompts_, decodes_;
  std::int32_t next_stream_ = 0;
};

}  // namespace orrery::experiments
