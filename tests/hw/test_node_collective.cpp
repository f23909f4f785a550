// Collectives over nodes: what a group has of links and adapters, and what a rank sends.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "hw/network/node_collective.hpp"

namespace test_node_collective {

using namespace orrery;
using namespace orrery::hw;

namespace {

/// Nodes of eight devices with links of 400 GB/s; an adapter of 50 GB/s a device. 1 pJ and 10 pJ a byte.
struct Nodes {
  LinkParams link;
  NicPart nic;
  Nodes() {
    link.bandwidth = 400e9;
    link.byte_j = 1e-12;
    link.ring.simple_efficiency = 1;
    nic.bandwidth = 50e9;
    nic.byte_j = 10e-12;
  }
  NodeFabric fabric() const { return {link, 8, &nic, 8}; }
};

}  // namespace

TEST_CASE("A ring over nodes is as fast as the group's adapters, and sends one share a node through them", "[unit]") {
  const Nodes nodes;
  const double wire = achieved_bandwidth(nodes.nic);
  // Sixteen ranks in two nodes have eight adapters: 15/16 of 16 GB over 8 x 50 GB/s, less than the link's 400 GB/s.
  const GroupCost gather = node_collective(nodes.fabric(), LibraryCall::all_gather, {16, 8}, 16e9);
  CHECK(gather.time_s == Approx(15e9 / std::min(8 * wire, 400e9)).epsilon(0.01));
  // Two of sixteen ranks send through an adapter.
  CHECK(gather.energy_j == Approx(15e9 * (2.0 / 16 * 10e-12 + 14.0 / 16 * 1e-12)));
}

TEST_CASE("All-to-all sends each part on its own way, near ones and far ones at once", "[unit]") {
  const Nodes nodes;
  const double wire = achieved_bandwidth(nodes.nic);
  // Of 16 parts of 1 GB eight go to the other node over one adapter, seven over the link.
  const GroupCost both = node_collective(nodes.fabric(), LibraryCall::all_to_all, {16, 8}, 16e9);
  CHECK(both.time_s == Approx(8e9 / wire).epsilon(0.01));
  CHECK(both.energy_j == Approx(8e9 * 10e-12 + 7e9 * 1e-12));
  // One rank a node: all parts but its own are far.
  const GroupCost apart = node_collective(nodes.fabric(), LibraryCall::all_to_all, {4, 1}, 4e9);
  CHECK(apart.time_s == Approx(3e9 / wire).epsilon(0.01));
  // In a node it is the library's.
  CHECK(node_collective(nodes.fabric(), LibraryCall::all_to_all, {8, 8}, 8e9).time_s ==
        library_collective(nodes.link, LibraryCall::all_to_all, 8, 8'000'000'000).time_s);
}

TEST_CASE("Unlike much to all: the fullest way sets the time", "[unit]") {
  const Nodes nodes;
  const double wire = achieved_bandwidth(nodes.nic);
  // Equal parts are the all-to-all's: in a node the library's, over nodes each way at once.
  const std::vector<double> even(64, 1e9), over(256, 1e9);
  CHECK(uneven_exchange(nodes.fabric(), {8, 8}, even).time_s ==
        Approx(node_collective(nodes.fabric(), LibraryCall::all_to_all, {8, 8}, 8e9).time_s));
  const GroupCost both = uneven_exchange(nodes.fabric(), {16, 8}, over);
  CHECK(both.time_s == Approx(8e9 / wire).epsilon(0.01));
  CHECK(both.energy_j == Approx(8e9 * 10e-12 + 7e9 * 1e-12));
  // Rank 0 gets 2 GB from each of the eight ranks of the other node: 16 GB through its share, whoever sends them.
  std::vector<double> one(256, 0);
  for (std::size_t from = 8; from < 16; ++from) one[from * 16] = 2e9;
  CHECK(uneven_exchange(nodes.fabric(), {16, 8}, one).time_s == Approx(16e9 / wire).epsilon(0.01));
  // Turned round it is a rank that sends as much.
  std::vector<double> back(256, 0);
  for (std::size_t to = 8; to < 16; ++to) back[to] = 2e9;
  CHECK(uneven_exchange(nodes.fabric(), {16, 8}, back).time_s == uneven_exchange(nodes.fabric(), {16, 8}, one).time_s);
  // What stays is free, and nothing is nothing.
  std::vector<double> own(64, 0);
  for (std::size_t rank = 0; rank < 8; ++rank) own[rank * 9] = 1e9;
  CHECK(uneven_exchange(nodes.fabric(), {8, 8}, own).time_s == 0);
}

TEST_CASE("Messages cross a link in a node and an adapter between nodes", "[unit]") {
  const Nodes nodes;
  CHECK(node_message(nodes.fabric(), 4, 1e9).time_s ==
        library_collective(nodes.link, LibraryCall::send_recv, 2, 1'000'000'000).time_s);
  CHECK(node_message(nodes.fabric(), 8, 1e9).time_s == Approx(1e9 / achieved_bandwidth(nodes.nic)).epsilon(0.01));
  CHECK(node_message(nodes.fabric(), 8, 1e9).energy_j == Approx(1e9 * 10e-12));
  CHECK(node_message(nodes.fabric(), 8, 0).time_s == 0);
}

TEST_CASE("A token goes once to each rank and node that wants it", "[unit]") {
  const Nodes nodes;
  const double wire = achieved_bandwidth(nodes.nic);
  // Sixteen ranks in two nodes, four choices: the other node has one of them with 1 - (1/2)^4 = 15/16, a rank with
  // 1 - (15/16)^4. Of 4 GB of rows a token's row is 1 GB.
  const double rank = 1 - std::pow(15.0 / 16, 4);
  const GroupCost once = routed_exchange(nodes.fabric(), {16, 8}, 4e9, 4);
  CHECK(once.time_s == Approx(15e9 / 16 / wire).epsilon(0.01));
  CHECK(once.energy_j == Approx(15e9 / 16 * 10e-12 + 1e9 * 2 * 7 * rank * 1e-12));
  // Row by row half of them go to the other node: twice as much and more.
  CHECK(node_collective(nodes.fabric(), LibraryCall::all_to_all, {16, 8}, 4e9).time_s > 2 * once.time_s);
  // One choice is one row, whichever way.
  const GroupCost single = routed_exchange(nodes.fabric(), {16, 8}, 4e9, 1);
  const GroupCost rows = node_collective(nodes.fabric(), LibraryCall::all_to_all, {16, 8}, 4e9);
  CHECK(single.time_s == Approx(rows.time_s));
  CHECK(routed_exchange(nodes.fabric(), {8, 8}, 4e9, 1).time_s ==
        Approx(node_collective(nodes.fabric(), LibraryCall::all_to_all, {8, 8}, 4e9).time_s));
  CHECK(routed_exchange(nodes.fabric(), {8, 8}, 4e9, 4).time_s <
        node_collective(nodes.fabric(), LibraryCall::all_to_all, {8, 8}, 4e9).time_s);
  CHECK(routed_exchange(nodes.fabric(), {1, 1}, 4e9, 4).time_s == 0);
  // Of four nodes any: 1 - (3/4)^4 of each of the three others. Of at most two: 2 (1 - (1/2)^4) nodes in all, three
  // quarters of them others. A limit of all is none.
  const GroupCost any = routed_exchange(nodes.fabric(), {32, 8}, 4e9, 4);
  CHECK(any.time_s == Approx(3e9 * (1 - std::pow(0.75, 4)) / wire).epsilon(0.01));
  const GroupCost two = routed_exchange(nodes.fabric(), {32, 8}, 4e9, 4, 2);
  CHECK(two.time_s == Approx(0.75 * 2e9 * 15 / 16 / wire).epsilon(0.01));
  CHECK(routed_exchange(nodes.fabric(), {32, 8}, 4e9, 4, 4).time_s == Approx(any.time_s));
  CHECK(routed_exchange(nodes.fabric(), {32, 8}, 4e9, 4, 9).time_s == Approx(any.time_s));
}

TEST_CASE("A ring keeps its share of the adapters, a tree of two nodes sends a byte once", "[unit]") {
  Nodes nodes;
  nodes.link.planned_share = 1;
  nodes.nic.ring_share = 0.5;
  nodes.nic.rdma = false;
  const NodeFabric fabric = nodes.fabric();
  const double adapters = std::min(8 * achieved_bandwidth(nodes.nic), 400e9);
  // Sixteen ranks, 16 GB: past the sizes that the library's table corrects it takes the tree, S once. Of a node's S
  // each rank answers for an eighth; in the node a chain carries S up and down over seven of eight links.
  const GroupCost tree = node_collective(fabric, LibraryCall::all_reduce, {16, 8}, 16e9);
  CHECK(tree.time_s == Approx(16e9 / adapters).epsilon(0.02));
  CHECK(tree.energy_j == Approx(16e9 / 8 * 10e-12 + 2 * 16e9 * 7 / 8 * 1e-12));
  // Four nodes: no tree has twice the bandwidth there, and the ring sends 2 * 31/32 S at half of the adapters.
  const GroupCost ring = node_collective(fabric, LibraryCall::all_reduce, {32, 8}, 16e9);
  CHECK(ring.time_s == Approx(31e9 / (0.5 * adapters)).epsilon(0.02));
  // A gather is a ring of half as many bytes, held back likewise.
  const GroupCost gather = node_collective(fabric, LibraryCall::all_gather, {32, 8}, 16e9);
  CHECK(gather.time_s == Approx(31e9 / 2 / (0.5 * adapters)).epsilon(0.02));
  nodes.nic.ring_share = 1;
  CHECK(node_collective(fabric, LibraryCall::all_gather, {32, 8}, 16e9).time_s ==
        Approx(gather.time_s / 2).epsilon(0.02));
}

}  // namespace test_node_collective
