// Max-min fair sharing: cases solved by hand, and the conditions of optimality on random networks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/max_min.hpp"
#include "tests/sim/max_min_reference.hpp"

namespace test_max_min {

using namespace orrery::sim;
using namespace orrery::test;

namespace {

/// Feasible, and every flow has a full link where nobody is faster: then, and only then, it is max-min fair.
void check_optimal(const MaxMinSolver& solver, const Net& net) {
  std::vector<std::int64_t> load(net.capacity.size(), 0), fastest(net.capacity.size(), 0),
      count(net.capacity.size(), 0);
  for (std::size_t p = 0; p < net.routes.size(); ++p) {
    const std::int64_t rate = solver.rate(static_cast<std::uint32_t>(p));
    for (const auto link : net.routes[p]) {
      load[link] += rate * net.flows[p];
      count[link] += net.flows[p];
      if (net.flows[p] > 0) fastest[link] = std::max(fastest[link], rate);
    }
  }
  for (std::size_t l = 0; l < load.size(); ++l) {
    REQUIRE(load[l] <= net.capacity[l]);
    REQUIRE(solver.load(static_cast<std::uint32_t>(l)) == load[l]);
  }
  for (std::size_t p = 0; p < net.routes.size(); ++p) {
    const auto path = static_cast<std::uint32_t>(p);
    if (net.flows[p] == 0) {
      REQUIRE(solver.bottleneck(path) == MaxMinSolver::kNoLink);
      continue;
    }
    const auto link = solver.bottleneck(path);
    REQUIRE(std::find(net.routes[p].begin(), net.routes[p].end(), link) != net.routes[p].end());
    REQUIRE(net.capacity[link] - load[link] < count[link]);  // full: no flow could have one unit more each
    REQUIRE(solver.rate(path) == fastest[link]);
    REQUIRE(solver.rate(path) == solver.level(link));
  }
}

Net random_net(RandomStream& random, std::size_t links, std::size_t paths, std::size_t longest) {
  Net net;
  for (std::size_t l = 0; l < links; ++l) {
    // Few different capacities give many ties, which is where such solvers go wrong.
    const std::int64_t unit = random.below(2) == 0 ? 1'000'000'007 : 1'000'000'000;
    net.capacity.push_back(unit * static_cast<std::int64_t>(1 + random.below(4)) * 1000);
  }
  for (std::size_t p = 0; p < paths; ++p) {
    Route route(links);
    std::iota(route.begin(), route.end(), 0U);
    for (std::size_t i = 0; i < links; ++i) std::swap(route[i], route[i + random.below(links - i)]);
    route.resize(1 + random.below(std::min(longest, links)));
    net.routes.push_back(route);
  }
  net.flows.assign(paths, 0);
  return net;
}

}  // namespace

TEST_CASE("three flows on two links", "[unit]") {
  // Links A (10) and B (4). Flow 1 on A, flow 2 on A and B, flow 3 on B. B is full first: 4 / 2 = 2 for flows 2 and 3;
  // flow 1 takes what A has left: 10 - 2 = 8.
  MaxMinSolver solver;
  const auto a = solver.add_link(10);
  const auto b = solver.add_link(4);
  const auto one = solver.add_path(std::vector{a});
  const auto two = solver.add_path(std::vector{a, b});
  const auto three = solver.add_path(std::vector{b});
  for (const auto path : {one, two, three}) solver.set_flows(path, 1);
  solver.solve();
  CHECK(solver.rate(one) == 8);
  CHECK(solver.rate(two) == 2);
  CHECK(solver.rate(three) == 2);
  CHECK(solver.bottleneck(one) == a);
  CHECK(solver.load(a) == 10);
  // Flow 3 ends: B alone would give flow 2 its 4; A gives 10 - 4 = 6 to flow 1.
  solver.set_flows(three, 0);
  const auto changes = solver.solve();
  CHECK(solver.rate(one) == 6);
  CHECK(solver.rate(two) == 4);
  CHECK(solver.rate(three) == 0);
  CHECK(changes.placed.empty());  // both keep their bottleneck, at other levels
  CHECK(std::vector(changes.levels.begin(), changes.levels.end()).size() == 2);
  // B grows to 100: A is shared, 5 each, and flow 2 has another bottleneck.
  solver.set_capacity(b, 100);
  const auto grown = solver.solve();
  CHECK(solver.rate(one) == 5);
  CHECK(solver.rate(two) == 5);
  REQUIRE(grown.placed.size() == 1);
  CHECK(grown.placed[0] == two);
}

TEST_CASE("flows of one path count each", "[unit]") {
  // 12 units: three flows of one path and one of another get 3 each.
  MaxMinSolver solver;
  const auto link = solver.add_link(12);
  const auto many = solver.add_path(std::vector{link});
  const auto one = solver.add_path(std::vector{link});
  solver.set_flows(many, 3);
  solver.set_flows(one, 1);
  solver.solve();
  CHECK(solver.rate(many) == 3);
  CHECK(solver.rate(one) == 3);
  // 13 units among five: 2 each, and a rest of 3 that is smaller than the number of flows.
  solver.set_capacity(link, 13);
  solver.set_flows(one, 2);
  solver.solve();
  CHECK(solver.rate(many) == 2);
  CHECK(solver.load(link) == 10);
}

TEST_CASE("a link that is down gives nothing, and gives again when it is up", "[unit]") {
  MaxMinSolver solver;
  const auto up = solver.add_link(8);
  const auto down = solver.add_link(0);
  const auto a = solver.add_path(std::vector{up, down});
  const auto b = solver.add_path(std::vector{up});
  solver.set_flows(a, 1);
  solver.set_flows(b, 1);
  solver.solve();
  CHECK(solver.rate(a) == 0);
  CHECK(solver.rate(b) == 8);
  solver.set_capacity(down, 3);
  solver.solve();
  CHECK(solver.rate(a) == 3);
  CHECK(solver.rate(b) == 5);
  solver.set_capacity(up, 2);  // below what it carries
  solver.solve();
  CHECK(solver.rate(a) == 1);
  CHECK(solver.rate(b) == 1);
}

TEST_CASE("only those concerned are filled again", "[unit]") {
  // A hundred separate links with two flows each; one flow ends: of 199, one is filled again.
  MaxMinSolver solver;
  for (std::uint32_t i = 0; i < 100; ++i) {
    solver.add_link(10);
    solver.add_path(std::vector{i});
    solver.set_flows(i, 2);
    solver.add_path(std::vector{i});
  }
  for (std::uint32_t p = 0; p < 200; ++p) solver.set_flows(p, 1);
  solver.solve();
  const auto before = solver.effort().freed;
  solver.set_flows(0, 0);
  solver.solve();
  CHECK(solver.rate(1) == 10);
  CHECK(solver.effort().freed - before <= 1);
}

TEST_CASE("the effort counts what was done", "[unit]") {
  // Links of 10 and 4; paths over the first, over both, over the second: filled at 2 (the second link), then at 8. With
  // 100 in place of 4 all three are filled again: the first link at 5, the second at 95.
  MaxMinSolver solver;
  const auto a = solver.add_link(10);
  const auto b = solver.add_link(4);
  const auto one = solver.add_path(std::vector{a});
  const auto two = solver.add_path(std::vector{a, b});
  const auto three = solver.add_path(std::vector{b});
  for (const auto path : {one, two, three}) solver.set_flows(path, 1);
  solver.solve();
  CHECK(solver.effort().solves == 1);
  CHECK(solver.effort().freed == 3);
  CHECK(solver.effort().levels == 2);
  const auto changes = solver.effort().changes;
  solver.solve();  // nothing changed
  CHECK(solver.effort().solves == 2);
  CHECK(solver.effort().freed == 3);
  CHECK(solver.effort().levels == 2);
  CHECK(solver.effort().changes == changes);
  solver.set_capacity(b, 100);
  solver.solve();
  CHECK(solver.rate(three) == 95);
  CHECK(solver.effort().solves == 3);
  CHECK(solver.effort().freed == 6);
  CHECK(solver.effort().levels == 4);
  CHECK(solver.effort().changes == changes + 1);
}

TEST_CASE("bad networks are refused", "[unit]") {
  MaxMinSolver solver;
  const auto link = solver.add_link(1);
  CHECK_THROWS_WITH(solver.add_link(-1), "max-min: a capacity is not in 0 … 2^62");
  CHECK_THROWS_WITH(solver.set_capacity(link, MaxMinSolver::kMaxCapacity + 1),
                    "max-min: a capacity is not in 0 … 2^62");
  CHECK_THROWS_WITH(solver.add_path(Route{}), "max-min: a path without links");
  CHECK_THROWS_WITH(solver.add_path(Route{7}), "max-min: a path over a link that is not there");
  CHECK_THROWS_WITH(solver.add_path(Route{link, link}), "max-min: a path crosses a link twice");
  const auto path = solver.add_path(Route{link});
  CHECK_THROWS_WITH(solver.set_flows(path, -1), "max-min: a number of flows is not in 0 … 2^32 - 1");
}

TEST_CASE("rounding cannot make a path lose its bottleneck", "[unit]") {
  // Found by random search: P has less than a unit's share more than Q, so that N seems to be full above Q's level
  // while Q is not freed yet. L, full at 3, must still know at the end that it limits A.
  MaxMinSolver solver;
  const auto m = solver.add_link(41), n = solver.add_link(2), l = solver.add_link(57);
  const auto p = solver.add_path(Route{m, n}), q = solver.add_path(Route{m, l}), a = solver.add_path(Route{l});
  solver.set_flows(p, 1);
  solver.set_flows(q, 10);
  solver.set_flows(a, 2);
  solver.solve();
  solver.set_capacity(n, 10);
  solver.set_flows(a, 3);
  solver.solve();
  solver.set_capacity(l, 1'000'000);
  solver.solve();
  // M gives 41 / 11 = 3 to P and each Q; A shares what Q leaves of L: (1,000,000 - 30) / 3.
  CHECK(solver.rate(q) == 3);
  CHECK(solver.rate(a) == 333'323);
  CHECK(solver.level(l) == solver.rate(a));
}

namespace {

/// Changes a random network step by step and checks it after each solve; `pick` draws flows and capacities.
template <class Flows, class Capacity>
void change_and_check(RandomStream& random, Net net, int steps, double tolerance, Flows flows, Capacity capacity) {
  MaxMinSolver solver;
  for (const auto c : net.capacity) solver.add_link(c);
  for (const auto& route : net.routes) solver.add_path(route);
  for (int step = 0; step < steps; ++step) {
    for (std::uint64_t change = random.below(4); change-- > 0;) {
      const auto path = static_cast<std::uint32_t>(random.below(net.routes.size()));
      net.flows[path] = flows();
      solver.set_flows(path, net.flows[path]);
      if (random.below(8) != 0) continue;
      const auto link = static_cast<std::uint32_t>(random.below(net.capacity.size()));
      net.capacity[link] = capacity();
      solver.set_capacity(link, net.capacity[link]);
    }
    solver.solve();
    check_optimal(solver, net);
    const std::vector<double> expected = reference(net);
    for (std::size_t p = 0; p < net.routes.size(); ++p) {
      if (net.flows[p] == 0) continue;
      REQUIRE(std::abs(static_cast<double>(solver.rate(static_cast<std::uint32_t>(p))) - expected[p]) <=
              tolerance + 1e-6 * expected[p]);
    }
  }
}

}  // namespace

TEST_CASE("every flow has a full bottleneck where it is fastest, after any change", "[prop]") {
  RandomStream random(5, "max-min");
  // Rounding levels down loses at most a unit a flow and link: 1e5 of 1e12 here.
  for (int round = 0; round < 150; ++round)
    change_and_check(
        random, random_net(random, 1 + random.below(30), 1 + random.below(60), 6), 60, 1e5,
        [&] { return static_cast<std::int64_t>(random.below(random.below(10) == 0 ? 1000 : 3)); },
        [&] { return random.below(4) == 0 ? 0 : static_cast<std::int64_t>(1'000'000'000'000 * random.below(5)); });
}

TEST_CASE("ties, long paths and links that go down and come up", "[prop]") {
  RandomStream random(8, "max-min/ties");
  for (int round = 0; round < 150; ++round) {
    Net net = random_net(random, 1 + random.below(20), 1 + random.below(40), 12);
    for (auto& capacity : net.capacity) capacity = 1'000'000'000;
    change_and_check(
        random, net, 80, 1e4, [&] { return static_cast<std::int64_t>(random.below(31)); },
        [&] { return random.below(2) == 0 ? 0 : 1'000'000'000; });
  }
}

TEST_CASE("the order in which links, paths and changes come does not show", "[prop]") {
  RandomStream random(6, "max-min/order");
  for (int round = 0; round < 60; ++round) {
    const std::size_t links = 2 + random.below(20);
    const std::size_t paths = 2 + random.below(50);
    const Net net = random_net(random, links, paths, 5);
    const auto shuffled = [&](std::size_t n) {
      std::vector<std::uint32_t> order(n);
      std::iota(order.begin(), order.end(), 0U);
      for (std::size_t i = 0; i < n; ++i) std::swap(order[i], order[i + random.below(n - i)]);
      return order;
    };
    // place[k] is where the k-th link (path) of the net was added in the second solver.
    const auto link_order = shuffled(links);
    const auto path_order = shuffled(paths);
    std::vector<std::uint32_t> link_place(links), path_place(paths);
    MaxMinSolver first, second;
    for (const auto capacity : net.capacity) first.add_link(capacity);
    for (const auto& route : net.routes) first.add_path(route);
    for (const auto link : link_order) link_place[link] = second.add_link(net.capacity[link]);
    for (const auto path : path_order) {
      Route route;
      for (const auto link : net.routes[path]) route.push_back(link_place[link]);
      std::reverse(route.begin(), route.end());
      path_place[path] = second.add_path(route);
    }
    for (int step = 0; step < 40; ++step) {
      std::vector<std::pair<std::uint32_t, std::int64_t>> changes;
      for (std::uint64_t i = 1 + random.below(5); i-- > 0;)
        changes.emplace_back(static_cast<std::uint32_t>(random.below(paths)),
                             static_cast<std::int64_t>(random.below(3)));
      std::sort(changes.begin(), changes.end());
      changes.erase(std::unique(changes.begin(), changes.end(), [](auto& a, auto& b) { return a.first == b.first; }),
                    changes.end());
      for (const auto& [path, flows] : changes) first.set_flows(path, flows);
      for (auto it = changes.rbegin(); it != changes.rend(); ++it) second.set_flows(path_place[it->first], it->second);
      first.solve();
      second.solve();
      for (std::uint32_t p = 0; p < paths; ++p) REQUIRE(first.rate(p) == second.rate(path_place[p]));
    }
  }
}

TEST_CASE("bad networks are refused at the ends of the ranges", "[unit]") {
  MaxMinSolver solver;
  CHECK(solver.add_link(0) == 0);
  CHECK(solver.add_link(MaxMinSolver::kMaxCapacity) == 1);
  CHECK_THROWS_WITH(solver.add_link(MaxMinSolver::kMaxCapacity + 1), "max-min: a capacity is not in 0 … 2^62");
  CHECK_THROWS_WITH(solver.set_capacity(0, -1), "max-min: a capacity is not in 0 … 2^62");
  CHECK_THROWS_WITH(solver.add_path(Route{2}), "max-min: a path over a link that is not there");
  const auto path = solver.add_path(Route{1});
  CHECK_THROWS_WITH(solver.set_flows(path, std::int64_t{1} << 32), "max-min: a number of flows is not in 0 … 2^32 - 1");
  solver.set_flows(path, (std::int64_t{1} << 32) - 1);
  solver.set_capacity(1, MaxMinSolver::kMaxCapacity);
  solver.solve();
  CHECK(solver.rate(path) == MaxMinSolver::kMaxCapacity / ((std::int64_t{1} << 32) - 1));
  // Paths of 32,766 links are the longest.
  MaxMinSolver wide;
  Route all;
  for (int i = 0; i < 32'767; ++i) all.push_back(wide.add_link(i == 30'000 ? 3 : 5));
  CHECK_THROWS_WITH(wide.add_path(all), "max-min: a path too long");
}

TEST_CASE("links and paths are told as they were given", "[unit]") {
  MaxMinSolver solver;
  for (int i = 0; i < 8; ++i) solver.add_link(100 - i);
  for (const std::size_t length : {1, 5, 6, 7, 8}) {  // six stand in place, longer ones elsewhere
    Route route;
    for (std::size_t i = 0; i < length; ++i) route.push_back(static_cast<MaxMinSolver::Link>(7 - i));
    const auto path = solver.add_path(route);
    CHECK(solver.hops(path) == length);
    for (std::size_t i = 0; i < length; ++i) CHECK(solver.link_of(path, i) == 7 - i);
    CHECK(solver.flows(path) == 0);
    CHECK(solver.rate(path) == 0);
    CHECK(solver.bottleneck(path) == MaxMinSolver::kNoLink);
    solver.set_flows(path, 2);
    CHECK(solver.flows(path) == 2);  // as set
    CHECK(solver.rate(path) == 0);   // not solved yet
    solver.solve();
    CHECK(solver.rate(path) == 46);  // 93 / 2 of the narrowest
    CHECK(solver.bottleneck(path) == 7);
    CHECK(solver.load(7) == 92);
    CHECK(solver.level(7) == 46);
    solver.set_flows(path, 0);
    solver.solve();
    CHECK(solver.load(7) == 0);
    CHECK(solver.bottleneck(path) == MaxMinSolver::kNoLink);
  }
  CHECK(solver.links() == 8);
  CHECK(solver.paths() == 5);
  CHECK(solver.capacity(3) == 97);
}

TEST_CASE("a path that shares no link needs no filling", "[unit]") {
  MaxMinSolver solver;
  for (const std::int64_t capacity : {30, 20, 20}) solver.add_link(capacity);
  const auto path = solver.add_path(Route{0, 1, 2});
  solver.set_flows(path, 3);
  const auto first = solver.solve();
  CHECK(solver.rate(path) == 6);        // 20 / 3
  CHECK(solver.bottleneck(path) == 1);  // the first of two as narrow
  CHECK(std::vector(first.placed.begin(), first.placed.end()) == std::vector<MaxMinSolver::Path>{path});
  CHECK(std::vector(first.levels.begin(), first.levels.end()) == std::vector<MaxMinSolver::Link>{1, 2});
  CHECK(solver.level(0) == -1);  // never full
  CHECK(solver.load(0) == 18);
  CHECK(solver.effort().freed == 0);
  CHECK(solver.effort().levels == 0);
  CHECK(solver.effort().changes == 1);
  // The number of flows as it was: nothing changed. Another capacity of the narrowest: the other one is the bottleneck.
  solver.set_flows(path, 4);
  solver.set_flows(path, 3);
  solver.set_capacity(1, 20);
  solver.solve();
  CHECK(solver.effort().changes == 1);
  solver.set_flows(path, 1);
  const auto alone = solver.solve();
  CHECK(solver.rate(path) == 20);
  CHECK(alone.placed.empty());
  CHECK(alone.levels.size() == 2);
  solver.set_capacity(1, 25);
  const auto moved = solver.solve();
  CHECK(solver.rate(path) == 20);
  CHECK(solver.bottleneck(path) == 2);
  CHECK(std::vector(moved.placed.begin(), moved.placed.end()) == std::vector<MaxMinSolver::Path>{path});
}

TEST_CASE("a bottleneck stays as long as it is one of those that limit", "[unit]") {
  // Two links of 10 under a path and each a path of its own: full together at 5. It stays with the one that it had.
  MaxMinSolver solver;
  const auto a = solver.add_link(10), b = solver.add_link(12);
  const auto both = solver.add_path(Route{a, b}), on_a = solver.add_path(Route{a}), on_b = solver.add_path(Route{b});
  for (const auto path : {both, on_a, on_b}) solver.set_flows(path, 1);
  solver.solve();
  CHECK(solver.bottleneck(both) == a);
  CHECK(solver.rate(on_b) == 7);
  solver.set_capacity(b, 10);
  const auto tie = solver.solve();
  CHECK(solver.bottleneck(both) == a);
  CHECK(tie.placed.empty());
  CHECK(solver.rate(on_b) == 5);
  solver.set_capacity(b, 8);
  const auto lower = solver.solve();
  CHECK(solver.bottleneck(both) == b);
  CHECK(solver.rate(both) == 4);
  CHECK(solver.rate(on_a) == 6);
  CHECK(std::vector(lower.placed.begin(), lower.placed.end()) == std::vector<MaxMinSolver::Path>{both});
  solver.set_capacity(b, 0);
  solver.solve();
  CHECK(solver.rate(both) == 0);
  CHECK(solver.rate(on_a) == 10);
  CHECK(solver.load(b) == 0);
}

TEST_CASE("rates, changes and effort of a network that changes", "[golden]") {
  // Golden values are this implementation's own, written down once: results to the unit, and how much was filled again.
  RandomStream random(17, "max-min/golden");
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto add = [&](std::int64_t value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3ULL; };
  MaxMinSolver::Effort sum;
  std::size_t levels = 0, placed = 0;
  for (int round = 0; round < 40; ++round) {
    Net net = random_net(random, 2 + random.below(24), 4 + random.below(60), 9);
    MaxMinSolver solver;
    for (const auto c : net.capacity) solver.add_link(c);
    for (const auto& route : net.routes) solver.add_path(route);
    for (int step = 0; step < 60; ++step) {
      for (std::uint64_t change = random.below(4); change-- > 0;)
        solver.set_flows(static_cast<std::uint32_t>(random.below(net.routes.size())),
                         static_cast<std::int64_t>(random.below(4)));
      if (random.below(5) == 0)
        solver.set_capacity(static_cast<std::uint32_t>(random.below(net.capacity.size())),
                            1'000'000'007 * static_cast<std::int64_t>(random.below(4)));
      const auto changes = solver.solve();
      levels += changes.levels.size();
      placed += changes.placed.size();
    }
    for (std::uint32_t p = 0; p < net.routes.size(); ++p) add(solver.rate(p)), add(solver.bottleneck(p));
    for (std::uint32_t l = 0; l < net.capacity.size(); ++l) add(solver.load(l)), add(solver.level(l));
    sum.changes += solver.effort().changes;
    sum.freed += solver.effort().freed;
    sum.levels += solver.effort().levels;
  }
  CHECK(hash == 0xf3778963aa294e57ULL);
  CHECK(sum.changes == 2986);
  CHECK(sum.freed == 17953);
  CHECK(sum.levels == 5626);
  CHECK(levels == 3671);
  CHECK(placed == 2208);
}

}  // namespace test_max_min
