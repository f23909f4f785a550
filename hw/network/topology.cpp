#include "hw/network/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "hw/network/topology_build.hpp"

namespace orrery::hw {

NodeIndex add_node(Topology& topology, std::string name) {
  topology.nodes.push_back(std::move(name));
  return static_cast<NodeIndex>(topology.nodes.size() - 1);
}

void add_hosts(Topology& topology, std::int64_t count) {
  topology.hosts = count;
  for (std::int64_t h = 0; h < count; ++h) add_node(topology, fmt::format("h{}", h));
}

void add_cable(Topology& topology, NodeIndex a, NodeIndex b, const Cable& cable) {
  topology.links.push_back({a, b, cable.bandwidth, cable.latency_s});
  topology.links.push_back({b, a, cable.one_way ? 0 : cable.bandwidth, cable.latency_s});
}

bool fits(Topology& topology, const NetworkSize& size, const sim::Origin& where, sim::Faults& faults) {
  const auto over = [&](double count, std::int64_t most, const char* what) {
    if (count <= static_cast<double>(most)) return false;
    faults.add(where, fmt::format("{} of {:.0f} {}: a network holds at most {}", topology.kind, count, what, most));
    return true;
  };
  const bool too_large = over(size.hosts, kMaxHosts, "hosts") || over(size.hosts + size.switches, kMaxNodes, "nodes") ||
                         over(size.cables, kMaxCables, "cables");
  if (too_large) return false;
  topology.nodes.reserve(static_cast<std::size_t>(size.hosts + size.switches));
  topology.links.reserve(static_cast<std::size_t>(2 * size.cables));
  return true;
}

sim::Origin below(const sim::Origin& where, const std::string& key) {
  return {where.file, where.pointer + "/" + key};
}

bool has_bandwidth(double bandwidth, const char* key, const sim::Origin& where, sim::Faults& faults) {
  if (bandwidth > 0) return true;
  faults.add(below(where, key), "missing: expected a quantity in B/s such as \"900 GB/s\"");
  return false;
}

std::unique_ptr<Topology> make_topology(const TopologyRegistry& registry, const sim::Node& block, sim::Faults& faults) {
  if (block.is_object() && block.find("policy") == nullptr) {
    faults.add(block.origin_of("policy"), "missing: the name of a topology is required",
               sim::name_hint("", registry.names()));
    return nullptr;
  }
  const std::vector<std::string> names = registry.names();
  const sim::Node* policy = block.find("policy");
  const std::string name = policy != nullptr && policy->is_string() ? policy->as_string() : "";
  if (std::binary_search(names.begin(), names.end(), name) && block.find(name) == nullptr) {
    // No topology has parameters enough by default: an empty block has every missing one reported.
    sim::Node filled = block;
    sim::Node none = sim::Node::object();
    none.set_origin(block.origin_of(name));
    filled.set(name, std::move(none));
    return make_topology(registry, filled, faults);
  }
  const std::size_t before = faults.size();
  const auto choice = registry.parse_block(block, "", faults);
  if (faults.size() != before) {
    // The names of a graph can be checked beside its numbers, so that all faults of a long list are told at once.
    if (choice.name == "graph") (void)choice.make(block.find(choice.name)->origin(), faults);
    return nullptr;
  }
  return choice.make(block.find(choice.name)->origin(), faults);
}

std::unique_ptr<Topology> make_topology(const sim::Node& block, sim::Faults& faults) {
  TopologyRegistry registry("topology");
  register_topologies(registry);
  return make_topology(registry, block, faults);
}

void register_topologies(TopologyRegistry& registry) {
  register_ring(registry);
  register_torus(registry);
  register_fully_connected(registry);
  register_star(registry);
  register_switch_hierarchy(registry);
  register_fat_tree(registry);
  register_rail_optimised(registry);
  register_dragonfly(registry);
  register_graph(registry);
}

}  // namespace orrery::hw
