// Groups of hosts as a config writes them: "0-7,16-30:2,h40" or [0, 1, "h40"].
#pragma once

#include <vector>

#include "hw/network/topology_query.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::network {

/// The hosts of a list, in its order. An item is a number, a range "first-last" or "first-last:step" of numbers, or a
/// host's name. Faults stand at `where`: what is no host (with the nearest name), a host twice, an empty list.
std::vector<hw::NodeIndex> parse_hosts(const sim::TextList& list, const hw::Topology& topology,
                                       const hw::TopologyNames& names, const sim::Origin& where, sim::Faults& faults);
/// Every host, by number.
std::vector<hw::NodeIndex> all_hosts(const hw::Topology& topology);

/// The host of a name or number; nothing and a fault at `where` if it is none.
std::optional<hw::NodeIndex> parse_host(const std::string& text, const hw::Topology& topology,
                                        const hw::TopologyNames& names, const sim::Origin& where, sim::Faults& faults);

}  // namespace orrery::experiments::network
