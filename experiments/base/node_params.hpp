// A node as a config names it: devices that links join, and the adapters to other nodes.
#pragma once

#include <cstdint>
#include <string>

#include "sim/base/params.hpp"

namespace orrery::experiments {

struct NodeParams {
  std::int64_t devices = 8, nics = 8;
  std::string nic = "ib-hdr-4x";
  static constexpr auto fields() {
    using sim::Unit;
    using N = NodeParams;
    return sim::FieldTable{
        sim::field("devices", &N::devices, Unit::count, sim::between(1, 4096),
                   "Devices of a node, connected by their own links."),
        sim::field("nic", &N::nic, Unit::reference, sim::any_value(), "Network adapter from the catalog."),
        sim::field("nics", &N::nics, Unit::count, sim::between(1, 4096), "Network adapters per node.")};
  }
};

}  // namespace orrery::experiments
