// Collectives as messages: which rank sends what to whom, and what has to arrive first.
//
// A schedule is a small state machine, not a stored graph: it is told that a rank has entered or that a message has
// arrived, and answers with the messages that this enables. So a ring over a thousand ranks, two million messages, needs
// a few bytes a rank. Who carries the messages, how long they take, and what else is on the links is not its business.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hw/network/topology.hpp"

namespace orrery::hw {

enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv };

struct Message {
  NodeIndex from = 0;  ///< nodes of the topology: hosts, or switches where the network computes
  NodeIndex to = 0;
  std::int64_t bytes = 0;
  std::uint64_t tag = 0;  ///< the schedule's own
};

/// Takes what a schedule emits.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  virtual void send(const Message& message) = 0;
  /// Rank `rank` (index in the group) has everything it is to have.
  virtual void finished(std::int64_t rank) = 0;
};

class CollectiveSchedule {
 public:
  virtual ~CollectiveSchedule() = default;
  /// Rank `rank` of the group takes part from now on. Messages to it may have arrived before.
  virtual void enter(std::int64_t rank, MessageSink& sink) = 0;
  virtual void arrived(const Message& message, MessageSink& sink) = 0;
};

}  // namespace orrery::hw
