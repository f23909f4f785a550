// Carriers for tests: messages that cost alpha + bytes / bandwidth and meet nobody, or only at the ports of their ends.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

#include "hw/network/collective_closed_form.hpp"
#include "hw/network/collective_run.hpp"
#include "sim/engine.hpp"

namespace orrery::hw::test {

/// Every pair of nodes has a full-duplex link of its own; `cost` of (from, to) may differ.
class PairCarrier final : public MessageCarrier {
 public:
  PairCarrier(sim::Engine& engine, AlphaBeta cost)
      : engine_(engine), cost_([cost](NodeIndex, NodeIndex) { return cost; }) {}
  PairCarrier(sim::Engine& engine, std::function<AlphaBeta(NodeIndex, NodeIndex)> cost)
      : engine_(engine), cost_(std::move(cost)) {}
  void send(NodeIndex from, NodeIndex to, std::int64_t bytes, std::uint64_t, sim::EventHandler& on_arrival,
            std::uint64_t payload) override {
    engine_.schedule_in(engine_.scale().duration(cost_(from, to).seconds(bytes)), on_arrival, payload);
  }

 private:
  sim::Engine& engine_;
  std::function<AlphaBeta(NodeIndex, NodeIndex)> cost_;
};

/// A node sends one message at a time and receives one at a time; a message holds both ports until it is there. Each
/// sender takes its messages in order.
class PortCarrier final : public MessageCarrier, private sim::EventHandler {
 public:
  PortCarrier(sim::Engine& engine, AlphaBeta cost, std::size_t nodes)
      : engine_(engine), cost_(cost), queue_(nodes), sends_(nodes, false), receives_(nodes, false) {}
  void send(NodeIndex from, NodeIndex to, std::int64_t bytes, std::uint64_t, sim::EventHandler& on_arrival,
            std::uint64_t payload) override {
    queue_[from].push_back({to, bytes, &on_arrival, payload});
    start(from);
  }

 private:
  struct Waiting {
    NodeIndex to;
    std::int64_t bytes;
    sim::EventHandler* on_arrival;
    std::uint64_t payload;
  };
  void start(NodeIndex from) {
    if (sends_[from] || queue_[from].empty() || receives_[queue_[from].front().to]) return;
    sends_[from] = true;
    receives_[queue_[from].front().to] = true;
    engine_.schedule_in(engine_.scale().duration(cost_.seconds(queue_[from].front().bytes)), *this, from);
  }
  void on_event(std::uint64_t from) override {
    const Waiting done = queue_[from].front();
    queue_[from].pop_front();
    sends_[from] = false;
    receives_[done.to] = false;
    done.on_arrival->on_event(done.payload);
    for (NodeIndex node = 0; node < queue_.size(); ++node) start(node);
  }

  sim::Engine& engine_;
  AlphaBeta cost_;
  std::vector<std::deque<Waiting>> queue_;
  std::vector<bool> sends_;
  std::vector<bool> receives_;
};

inline std::unique_ptr<CollectiveSchedule> make_collective(const CollectiveAlgorithm& algorithm,
                                                           const CollectiveSpec& spec) {
  struct Make {
    const CollectiveSpec& spec;
    auto operator()(const RingParams& p) const { return make_ring(p, spec); }
    auto operator()(const DoubleTreeParams& p) const { return make_double_tree(p, spec); }
    auto operator()(const HalvingDoublingParams&) const { return make_halving_doubling(spec); }
    auto operator()(const DirectParams& p) const { return make_direct(p, spec); }
    auto operator()(const HierarchicalParams& p) const { return make_hierarchical(p, spec); }
    auto operator()(const InNetworkParams& p) const { return make_in_network(p, spec); }
  };
  return std::visit(Make{spec}, algorithm);
}

/// Nodes 0 … members-1.
inline std::vector<NodeIndex> plain_nodes(const CollectiveSpec& spec) {
  std::vector<NodeIndex> nodes(static_cast<std::size_t>(spec.ranks) + spec.tree.switches.size());
  for (NodeIndex i = 0; i < nodes.size(); ++i) nodes[i] = i;
  return nodes;
}

/// Ticks until all ranks are done, all entering at 0.
inline std::int64_t simulated_ticks(const CollectiveAlgorithm& algorithm, const CollectiveSpec& spec,
                                    sim::Engine& engine, MessageCarrier& carrier) {
  CollectiveRun run(engine, carrier, make_collective(algorithm, spec), spec.ranks, plain_nodes(spec));
  run.enter_all();
  engine.run();
  return run.done() ? run.done_at().ticks : -1;
}

}  // namespace orrery::hw::test
