// What the builders of topologies share: nodes, cables, and the check that a network is not too large to hold.
#pragma once

#include <string>

#include "hw/network/topology.hpp"

namespace orrery::hw {

/// Both directions of a cable, or the one that it has.
struct Cable {
  double bandwidth = 0;  ///< bytes/s each way
  double latency_s = 0;
  bool one_way = false;
};

/// Appends a node; hosts must come first. Returns its index.
NodeIndex add_node(Topology& topology, std::string name);
/// Appends hosts h0 … h(count-1) to an empty topology.
void add_hosts(Topology& topology, std::int64_t count);
/// Appends the two links of a cable from `a` to `b`.
void add_cable(Topology& topology, NodeIndex a, NodeIndex b, const Cable& cable);

/// Counts of a network to be. Doubles, because a product of parameters may not fit an integer.
struct NetworkSize {
  double hosts = 0;
  double switches = 0;
  double cables = 0;
};
/// A fault at `where` if the network is past kMaxHosts, kMaxNodes or kMaxCables, and reserves room otherwise.
bool fits(Topology& topology, const NetworkSize& size, const sim::Origin& where, sim::Faults& faults);

/// Origin of a key below `where`.
sim::Origin below(const sim::Origin& where, const std::string& key);

/// A fault at `where`/bandwidth unless it is positive: a block that was left out has no bandwidth to read.
bool has_bandwidth(double bandwidth, const char* key, const sim::Origin& where, sim::Faults& faults);

}  // namespace orrery::hw
