// Runs a collective in simulated time: carries out a schedule over whatever moves messages.
//
// Any number of runs share one engine and one carrier; that is how collectives and jobs meet on links. The run keeps
// the queue of every connection (hw/network/collective.hpp): messages of equal (from, to, channel) start in the order
// of emission, `window` at a time. It holds back what arrives for a rank that has not entered. Memory: 24 bytes a
// connection used, 40 a message under way or queued, and the schedule's own. A message costs two look-ups by index, and
// one in a small hash table when it is emitted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hw/network/collective.hpp"
#include "hw/network/collective_parts.hpp"
#include "hw/network/message_carrier.hpp"
#include "sim/engine.hpp"

namespace orrery::hw {

/// Told how a run goes on, at the instant that it does. Must not destroy the run.
class CollectiveListener {
 public:
  virtual ~CollectiveListener() = default;
  /// The rank has everything it is to have, and all that it sent has arrived.
  virtual void rank_done(Member rank) { (void)rank; }
  /// After the last rank's rank_done.
  virtual void all_done() {}
};

struct CollectiveRunOptions {
  std::int64_t window = 1;  ///< messages under way at a time on a connection, >= 1
  std::uint64_t label = 0;  ///< channel c travels with label + c, which routing may spread by
};

class CollectiveRun final : private sim::EventHandler, private MessageSink {
 public:
  /// `nodes`: of every rank, and behind them of the switches of an aggregation tree, if there is one. Engine, carrier
  /// and listener (if any) must outlive the run, and the run its last arrival. Throws std::invalid_argument for a
  /// window below 1 or fewer nodes than ranks; nodes that lack a switch show with the first message there, which throws
  /// the same.
  CollectiveRun(sim::Engine& engine, MessageCarrier& carrier, std::unique_ptr<CollectiveSchedule> schedule,
                std::int64_t ranks, std::vector<NodeIndex> nodes, CollectiveRunOptions options = {},
                CollectiveListener* listener = nullptr);
  ~CollectiveRun() override;
  CollectiveRun(const CollectiveRun&) = delete;
  CollectiveRun& operator=(const CollectiveRun&) = delete;

  /// The rank takes part from this instant, or from `time` (>= now). Once a rank; std::logic_error else.
  void enter(Member rank);
  void enter_at(Member rank, sim::Time time);
  void enter_all();

  bool done() const { return left_ == 0; }
  /// When the rank was done; kNever before that.
  sim::Time done_at(Member rank) const { return ranks_[rank].done; }
  /// When all were done; kNever before that.
  sim::Time done_at() const { return done_at_; }
  std::int64_t messages() const { return messages_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Rank {
    sim::Time done = sim::kNever;
    std::uint32_t unsent = 0;  // its messages that have not arrived
    bool entered = false;
    bool finished = false;
  };
  struct Record {
    Message message;
    std::uint32_t connection = 0;
    std::uint32_t next = kNone;  // in the queue of its connection, or among the free ones
  };
  struct Connection {
    std::uint64_t ends = 0;  // from, to
    std::uint32_t channel = 0;
    std::uint32_t under_way = 0;
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
  };

  void on_event(std::uint64_t payload) override;
  void send(const Message& message) override;
  void finished(Member rank) override;
  void start(std::uint32_t record);
  void settle(Member rank);
  std::uint32_t connection(const Message& message);
  void grow_table();

  sim::Engine& engine_;
  MessageCarrier& carrier_;
  std::unique_ptr<CollectiveSchedule> schedule_;
  std::vector<NodeIndex> nodes_;
  std::uint32_t window_;
  std::uint64_t label_;
  CollectiveListener* listener_;
  std::vector<Rank> ranks_;
  std::size_t left_;
  sim::Time done_at_ = sim::kNever;
  std::int64_t messages_ = 0;
  std::int64_t bytes_ = 0;
  HeldMessages held_;
  std::vector<Record> records_;
  std::uint32_t free_ = kNone;
  std::vector<Connection> connections_;  // in order of first use
  std::vector<std::uint32_t> table_;     // open addressing, a power of two, at most half full
};

/// Nodes of all members: the ranks' and the tree's switches.
std::vector<NodeIndex> member_nodes(std::span<const NodeIndex> ranks, const AggregationTree& tree);

}  // namespace orrery::hw
