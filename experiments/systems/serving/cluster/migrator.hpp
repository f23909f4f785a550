// Live migration of running requests between replicas of a cluster, in two stages.
//
// Stage 0 copies all full blocks of the request while it goes on decoding; the destination sets aside what it needs.
// Then the request leaves the batch at the end of an iteration, and stage 1 copies the rest: the last block and those
// that decoding has filled since. It then goes to the head of the destination's queue with its KV: nobody
// else gets what was set aside. Downtime is stage 1: bytes over the link, and a handshake. A migration is aborted at
// its start if requests wait at the destination or it lacks blocks, and at the end of stage 0 if the request has ended
// or was preempted, or if one of the two replicas has failed or closed. Rounds are checked every `interval` while
// requests are there, and only when none is under way. A replica that drains counts as full without end. Where the
// machine names a network copies go over that, as KV caches that are handed over do (KvTransfers), after the handshake.
// Left out: contention of several migrations for one link without such a network, slower iterations while copying (1 to
// 3 % in the source). Source: Llumnix (OSDI 2024, sections 4.2 and 6.2) and its artefact.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/systems/serving/cluster/fleet.hpp"
#include "experiments/systems/serving/cluster/transfer.hpp"
#include "experiments/systems/serving/config/cluster_config.hpp"
#include "policies/migration/migration.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments {

class Cluster;

/// Why a migration came to nothing.
enum class MigrationAbort : std::uint8_t { destination_full, destination_queue, ended, preempted, closed };
constexpr auto enum_names(MigrationAbort) {
  using enum MigrationAbort;
  return sim::names<MigrationAbort>({{"destination_full", destination_full},
                                     {"destination_queue", destination_queue},
                                     {"ended", ended},
                                     {"preempted", preempted},
                                     {"closed", closed}});
}

struct MigrationTotals {
  std::int64_t completed = 0, bytes = 0;
  std::array<std::int64_t, 5> aborted{};  ///< by MigrationAbort
  __int128 downtime_ps = 0;
};

class Migrator final : public sim::EventHandler {
 public:
  Migrator(sim::Engine& engine, Cluster& cluster, Fleet& fleet, std::unique_ptr<policies::Migration> policy,
           const MigrationParams& params)
      : engine_(engine), cluster_(cluster), fleet_(fleet), policy_(std::move(policy)), params_(params) {}

  /// Copies go over the machine's network from now on, which must outlive it.
  void use(KvWires wires);

  /// A request came: looks begin, if they have stopped.
  void poke();
  /// No request is left: looks stop, and copies of what has ended.
  void rest();
  void on_event(std::uint64_t payload) override;
  /// A request is over, wherever it was.
  void ended(const Request& request);
  /// Whether it looks again.
  bool looks() const { return looking_.has_value(); }
  /// Replica `i` is between two decisions.
  void boundary(std::size_t i);
  /// The run is over: the requests that are between two replicas.
  std::vector<Request*> finish();
  const MigrationTotals& totals() const { return totals_; }

 private:
  enum class Stage : std::uint8_t { free, copying, leaving, down };
  struct Move {
    Stage stage = Stage::free;
    std::size_t from = 0, to = 0;
    Request* request = nullptr;  // null: it has ended
    std::int64_t id = 0, preemptions = 0, sent_blocks = 0, bytes = 0;
    policies::SeqId seq, held;
    sim::Time since;
    sim::EventId arrival;             ///< of the copy under way, or of the handshake before it, …
    std::optional<sim::FlowId> flow;  ///< … once it goes over the machine's network
    std::int64_t sending = 0;         ///< bytes of it
  };
  void look();
  void begin(std::size_t from, std::size_t to);
  void copied(Move& move);
  void leave(Move& move);
  void commit(Move& move);
  void abort(Move& move, MigrationAbort reason);
  std::optional<MigrationAbort> obstacle(const Move& move);
  void count(MigrationAbort reason) { ++totals_.aborted[static_cast<std::size_t>(reason)]; }
  Replica& replica(std::size_t i) { return *fleet_[i].lanes.front(); }
  std::int64_t block_bytes(std::size_t i);
  void send(std::size_t number, std::int64_t bytes);
  void cancel(Move& move);

  sim::Engine& engine_;
  Cluster& cluster_;
  Fleet& fleet_;
  std::unique_ptr<policies::Migration> policy_;
  MigrationParams params_;
  std::unique_ptr<KvTransfers> transfers_;  ///< null: a link of their own
  std::vector<Move> moves_;
  std::int64_t under_way_ = 0;
  std::optional<sim::EventId> looking_;
  MigrationTotals totals_;
};

}  // namespace orrery::experiments
