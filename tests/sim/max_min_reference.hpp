// Max-min fair shares the slow way: what the solver and the flow network are held to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/max_min.hpp"

namespace orrery::test {

using Route = std::vector<sim::MaxMinSolver::Link>;

/// A network as data, so that it can be built in several orders and solved by the reference below.
struct Net {
  std::vector<std::int64_t> capacity;
  std::vector<Route> routes;
  std::vector<std::int64_t> flows;  // of each route
};

/// Progressive filling from scratch, in doubles, the slow way: raise the lowest link, fix, repeat.
inline std::vector<double> reference(const Net& net) {
  std::vector<double> rate(net.routes.size(), -1);
  std::vector<double> rest(net.capacity.begin(), net.capacity.end());
  while (true) {
    std::vector<double> open(rest.size(), 0);
    for (std::size_t p = 0; p < net.routes.size(); ++p)
      if (rate[p] < 0 && net.flows[p] > 0)
        for (const auto link : net.routes[p]) open[link] += static_cast<double>(net.flows[p]);
    double level = std::numeric_limits<double>::infinity();
    std::size_t full = 0;
    for (std::size_t l = 0; l < rest.size(); ++l)
      if (open[l] > 0 && rest[l] / open[l] < level) {
        level = rest[l] / open[l];
        full = l;
      }
    if (std::isinf(level)) return rate;
    for (std::size_t p = 0; p < net.routes.size(); ++p) {
      if (rate[p] >= 0 || net.flows[p] == 0) continue;
      if (std::find(net.routes[p].begin(), net.routes[p].end(), full) == net.routes[p].end()) continue;
      rate[p] = level;
      for (const auto link : net.routes[p])
        rest[link] = std::max(0.0, rest[link] - level * static_cast<double>(net.flows[p]));
    }
  }
}

}  // namespace orrery::test
