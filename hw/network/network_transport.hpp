// Flow tasks of a task graph, carried by a network.
//
//   graph.add({.flow = flow_between(gpu0, gpu5, 4 << 20), .after = {layer}});
//   NetworkTransport transport(network);
//   sim::TaskExecutor(engine, graph, &transport).run();
#pragma once

#include "hw/network/message_carrier.hpp"
#include "sim/task/executor.hpp"

namespace orrery::hw {

/// A flow of `bytes` from node to node; flows of one pair and label take one path.
inline sim::FlowSpec flow_between(NodeIndex from, NodeIndex to, std::int64_t bytes, std::uint64_t label = 0) {
  return {.path = std::uint64_t{from} << 32 | to, .bytes = bytes, .label = label};
}

/// Sends what flow_between() describes.
class NetworkTransport final : public sim::Transport {
 public:
  /// The carrier must outlive the transport.
  explicit NetworkTransport(MessageCarrier& carrier) : carrier_(carrier) {}
  void start(sim::TaskId, const sim::FlowSpec& flow, sim::EventHandler& done, std::uint64_t payload) override {
    carrier_.send(static_cast<NodeIndex>(flow.path >> 32), static_cast<NodeIndex>(flow.path), flow.bytes, flow.label,
                  done, payload);
  }

 private:
  MessageCarrier& carrier_;
};

}  // namespace orrery::hw
