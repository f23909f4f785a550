// A network that carries messages in simulated time: a topology, a routing policy, and flows over its links.
//
// A message costs the overhead of a message and the latencies of its path's links, then moves at its max-min fair share
// of every link (sim/flow_network.hpp). Links can degrade or fail while messages are under way: what is on a link that
// fails goes on over another path with the bytes it has left, after that path's latency; what finds no path waits until
// a link comes up.
// Left out: packets, buffers, and the time that routing needs to notice a failure.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hw/network/message_carrier.hpp"
#include "hw/network/routing.hpp"
#include "hw/network/topology.hpp"
#include "sim/base/params.hpp"
#include "sim/flow_network.hpp"

namespace orrery::hw {

/// What a network costs besides its links.
struct NetworkParams {
  double message_overhead_s = 0;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("message_overhead", &NetworkParams::message_overhead_s, sim::Unit::seconds, sim::at_least(0),
                   "Time added to every message before it takes any bandwidth, for software, NIC and protocol.")};
  }
};

class Network final : public MessageCarrier {
 public:
  /// Engine and topology must outlive the network; the routing must be one for this topology.
  Network(sim::Engine& engine, const Topology& topology, std::unique_ptr<Routing> routing, NetworkParams params = {});
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// A message to oneself arrives after the overhead alone. Throws std::invalid_argument for a node that is not there
  /// or bytes < 0.
  void send(NodeIndex from, NodeIndex to, std::int64_t bytes, std::uint64_t label, sim::EventHandler& on_arrival,
            std::uint64_t payload) override;

  /// From now on the link has `share` (>= 0) of its bandwidth; 0 is a link that is down. Throws std::invalid_argument
  /// for a link that is not there, and for a share below 0.
  void set_link(LinkIndex link, double share);

  const Topology& topology() const { return topology_; }
  Routing& routing() { return *routing_; }
  /// Rates, loads and bytes carried; link numbers are the topology's.
  const sim::FlowNetwork& flows() const { return flows_; }
  /// Messages that have no path or no bandwidth now; one whose path fails while it waits for its latency counts from
  /// the end of that.
  std::size_t without_path() const { return waiting_.size() + flows_.stalled(); }
  /// How often a message changed its path, because a link failed or because another way came up.
  std::int64_t rerouted() const { return rerouted_; }
  /// The path that a message would take now, and its latency without the overhead. False if there is none.
  bool path(NodeIndex from, NodeIndex to, std::uint64_t label, std::vector<LinkIndex>& links, sim::Duration& latency);

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Known {  // where messages of (from, to, label) go
    std::uint64_t ends = 0;
    std::uint64_t label = 0;
    sim::FlowNetwork::Path path = kNone;
  };
  struct Waiting {
    NodeIndex from, to;
    std::int64_t bytes;
    std::uint64_t label;
    sim::EventHandler* on_arrival;
    std::uint64_t payload;
  };

  sim::FlowNetwork::Path find_path(NodeIndex from, NodeIndex to, std::uint64_t label);
  sim::FlowNetwork::Path intern(const std::vector<LinkIndex>& links);
  void grow_known();
  void reroute_flows(LinkIndex failed);
  void retry_waiting();

  sim::Engine& engine_;
  const Topology& topology_;
  std::unique_ptr<Routing> routing_;
  sim::FlowNetwork flows_;
  sim::Duration overhead_;
  std::vector<sim::Duration> latency_;  // by link
  std::vector<bool> up_;
  std::vector<Known> known_;  // open addressing, a power of two, at most half full
  std::size_t known_count_ = 0;
  // Paths by their links, so that labels which choose the same links share one.
  struct Interned {
    std::uint64_t hash = 0;
    std::uint32_t begin = 0, length = 0;  // in interned_links_
    sim::FlowNetwork::Path path = kNone;
  };
  std::vector<Interned> interned_;  // open addressing
  std::size_t interned_count_ = 0;
  std::vector<LinkIndex> interned_links_;
  std::vector<std::uint64_t> path_hash_;  // by path: of its links
  sim::FlowNetwork::Path local_ = kNone;  // without links
  std::vector<LinkIndex> scratch_;
  std::vector<Waiting> waiting_;
  std::int64_t rerouted_ = 0;
};

}  // namespace orrery::hw
