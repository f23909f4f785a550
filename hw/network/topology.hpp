// Who is connected to whom: hosts and switches (nodes), directed links with bandwidth and latency.
//
// A cable is two links, one each way. Builders (ring, torus, fat tree …) fill this struct and nothing else looks at how
// it came about; routing works on the graph alone. Nodes 0 … hosts-1 are the hosts (what runs ranks), switches follow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery::hw {

using NodeIndex = std::uint32_t;
using LinkIndex = std::uint32_t;

struct NetworkLink {
  NodeIndex from = 0;
  NodeIndex to = 0;
  double bandwidth = 0;  ///< bytes/s, this direction
  double latency_s = 0;  ///< propagation and switching
};

struct Topology {
  std::string kind;                 ///< the builder's name
  std::int64_t hosts = 0;           ///< nodes 0 … hosts-1
  std::vector<std::string> nodes;   ///< names, unique
  std::vector<NetworkLink> links;   ///< a cable's two directions stand side by side (2k and 2k+1)
};

}  // namespace orrery::hw
