// The largest flow and the smallest cut: by hand, and that the cut's edges carry the flow on random networks.
#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "sim/max_flow.hpp"

namespace orrery::sim::test_max_flow {

TEST_CASE("The flow of a small network, and its cut", "[unit]") {
  // 0 -> 2 (3), 0 -> 3 (2), 2 -> 3 (5), 2 -> 1 (2), 3 -> 1 (3): 5, and both edges out of 0 are the cut.
  const std::vector<FlowEdge> edges{{0, 2, 3}, {0, 3, 2}, {2, 3, 5}, {2, 1, 2}, {3, 1, 3}};
  const MaxFlow found = max_flow(4, edges, 0, 1);
  CHECK(found.flow == 5);
  CHECK(found.source_side[0]);
  CHECK_FALSE(found.source_side[1]);
  // Vertices that no path joins.
  CHECK(max_flow(3, std::vector<FlowEdge>{{0, 2, 7}}, 0, 1).flow == 0);
}

TEST_CASE("The edges that leave the source's side carry the whole flow", "[prop]") {
  RandomStream random(4, "max_flow");
  for (int trial = 0; trial < 200; ++trial) {
    const auto vertices = static_cast<std::size_t>(random.integer(2, 12));
    std::vector<FlowEdge> edges;
    for (std::int64_t i = random.integer(0, 40); i > 0; --i) {
      const auto from = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(vertices) - 1));
      const auto to = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(vertices) - 1));
      if (from != to) edges.push_back({from, to, random.integer(0, 100)});
    }
    const MaxFlow found = max_flow(vertices, edges, 0, 1);
    std::int64_t across = 0;
    for (const FlowEdge& edge : edges)
      if (found.source_side[edge.from] && !found.source_side[edge.to]) across += edge.capacity;
    CHECK(across == found.flow);
    CHECK_FALSE(found.source_side[1]);
  }
}

}  // namespace orrery::sim::test_max_flow
