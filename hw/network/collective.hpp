// Collectives as messages: which rank sends what to whom, and what has to arrive first.
//
// A schedule is a small state machine, not a stored graph: it is told that a rank has entered or that a message has
// arrived, and answers with the messages that this enables. So a ring over a thousand ranks, two million messages,
// needs a few bytes a rank. Who carries the messages, how long they take, and what else is on the links is not its
// business.
//
// Members. A schedule speaks of members: 0 … ranks-1 are the ranks of the group, and behind them stand the switches
// that compute (`AggregationTree`). Whoever runs it knows which node a member is (hw/network/collective_run.hpp), so
// a group may be any ranks on any nodes.
//
// Order. Messages of equal (from, to, channel) form a connection: they start in the order in which they were emitted,
// `window` of them under way at a time (1 unless said otherwise), and the next one starts when one arrives. So chunks
// follow each other instead of all sharing the link at once, and pipelines work over fair-shared links. The queue is
// the executor's; schedules emit as early as the data allows, and need no order between arrivals.
//
// Bytes. all_reduce and broadcast: the buffer on each rank. all_gather: the gathered result, reduce_scatter: the input
// on each rank; rank i owns shard i. all_to_all: what each rank holds for all ranks, its own part included. Buffers are
// cut evenly: parts differ by one byte at most. Nothing is sent for no bytes.
//
//   does          | all_reduce | all_gather | reduce_scatter | all_to_all | broadcast | send_recv
//   ring          |     x      |     x      |       x        |            |     x     |
//   double_tree   |     x      |            |                |            |     x     |
//   halving_…     |     x      |     x      |       x        |            |           |
//   direct        |     x      |     x      |       x        |     x      |     x     |     x
//   hierarchical  |     x      |     x      |       x        |     x      |     x     |
//   in_network    |     x      |     x      |       x        |            |     x     |
//
// Equations, counts and sources: docs/explain/collectives.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hw/network/topology.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/registry.hpp"

namespace orrery::hw {

class Routing;

enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv };
constexpr auto enum_names(CollectiveKind) {
  using enum CollectiveKind;
  return sim::names<CollectiveKind>({{"all_reduce", all_reduce},
                                     {"all_gather", all_gather},
                                     {"reduce_scatter", reduce_scatter},
                                     {"all_to_all", all_to_all},
                                     {"broadcast", broadcast},
                                     {"send_recv", send_recv}});
}

/// Rank of a group, or a switch behind the ranks.
using Member = std::uint32_t;

struct Message {
  Member from = 0;
  Member to = 0;
  std::uint32_t channel = 0;  ///< messages of different channels do not wait for each other
  std::int64_t bytes = 0;     ///< > 0
  std::uint64_t tag = 0;      ///< the schedule's own
};

/// Bytes that a message holds. all_to_all numbers the bytes of all pairs, (0,0), (0,1) … (1,0) …; the others number
/// those of the buffer.
struct Piece {
  std::int64_t first = 0;
  std::int64_t bytes = 0;
  bool reduce = false;  ///< added to what the receiver has; else it replaces that
};

/// Takes what a schedule emits.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  virtual void send(const Message& message) = 0;
  /// Rank `rank` has everything it is to have and will emit nothing more. Once a rank.
  virtual void finished(Member rank) = 0;
  /// A message that the schedule had kept (see `keeps`) is used now. Nobody but a check of the data needs it.
  virtual void taken(const Message& message) { (void)message; }
};

/// Contract: every rank enters once; `arrived` is called once for every message sent, and not before its receiver has
/// entered (switches need not): who runs a schedule holds early messages back (`HeldMessages`). Arrivals may come in
/// any order, also those of one connection. Constant time a message sent; deterministic.
class CollectiveSchedule {
 public:
  virtual ~CollectiveSchedule() = default;
  /// Rank `rank` takes part from now on.
  virtual void enter(Member rank, MessageSink& sink) = 0;
  virtual void arrived(const Message& message, MessageSink& sink) = 0;
  /// Appends what `message` holds: for tests and timelines, not for speed.
  virtual void describe(const Message& message, std::vector<Piece>& pieces) const = 0;
  /// Whether the receiver is not yet at the part of the collective to which `message` belongs: given to `arrived` it
  /// would wait in a buffer of its own until then.
  virtual bool keeps(const Message& message) const {
    (void)message;
    return false;
  }
};

/// Switches that reduce and copy, as a tree over the members: ranks are leaves.
struct AggregationTree {
  static constexpr Member kRoot = ~Member{0};
  std::vector<NodeIndex> switches;  ///< member ranks + i is switches[i]
  std::vector<Member> parent;       ///< of every member; the root switch has kRoot
};

/// What a schedule is made for.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t ranks = 1;
  std::int64_t bytes = 0;
  std::int64_t root = 0;                   ///< of broadcast and send_recv (which goes from root to the other of two)
  std::vector<std::int64_t> shard_bytes;   ///< all_gather, reduce_scatter: shards of given sizes; empty: even ones
  std::vector<std::int64_t> pair_bytes;    ///< all_to_all: from rank i to rank j at [i * ranks + j]; empty: even ones
  std::vector<std::uint32_t> local_group;  ///< hierarchical: number of each rank's node, from 0 without gaps
  AggregationTree tree;                    ///< in_network
  sim::Origin where;                       ///< for messages of faults
};

/// Algorithms by name. A factory throws ConfigError for a spec that it cannot do: an unsupported kind, a root outside
/// of the group, sizes that do not fit, a missing tree or grouping.
using CollectiveRegistry = sim::Registry<CollectiveSchedule, const CollectiveSpec&>;
void register_collectives(CollectiveRegistry& registry);

/// The table above. False for an unknown algorithm.
bool supports(std::string_view algorithm, CollectiveKind kind);

/// The tree over which in_network reduces: the union of the paths from the ranks (nodes `ranks`) to switch `root`;
/// where a later path would leave a switch by another link, it follows the earlier one. Throws ConfigError where there
/// is no path, where a path runs through a host, and where `root` is no switch.
AggregationTree aggregation_tree(const Topology& topology, Routing& routing, const std::vector<NodeIndex>& ranks,
                                 NodeIndex root, std::uint64_t label = 0);

}  // namespace orrery::hw
