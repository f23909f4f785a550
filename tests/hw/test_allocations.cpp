// Messages over a network allocate nothing in a steady state.
#include "tests/allocations.hpp"

#include <catch2/catch.hpp>

#include "hw/network/collective_parts.hpp"
#include "hw/network/collective_run.hpp"
#include "hw/network/network.hpp"
#include "tests/hw/networks.hpp"

namespace test_allocations {

using namespace orrery;
using namespace orrery::hw;
using orrery::test::allocations;

namespace {

constexpr std::int64_t kRanks = 16;

std::unique_ptr<CollectiveSchedule> ring(std::int64_t chunks) {
  CollectiveSpec spec;
  spec.ranks = kRanks;
  spec.bytes = 64 << 20;
  return make_ring({.chunks = chunks, .bidirectional = true}, spec);
}

std::vector<NodeIndex> nodes(NodeIndex stride) {
  std::vector<NodeIndex> all(kRanks);
  for (NodeIndex rank = 0; rank < kRanks; ++rank) all[rank] = rank * stride % kRanks;
  return all;
}

}  // namespace

TEST_CASE("rings over a network allocate nothing in a steady state", "[unit]") {
  const auto topology = hw::test::network("fat_tree", R"({"k": 4, "bandwidth": "10 GB/s", "latency": "1 us"})");
  sim::Engine engine;
  Network network(engine, *topology, hw::test::router("shortest", *topology), {.message_overhead_s = 1e-6});
  // Two rings in different orders of the same hosts: they meet on links. The first time is the warm-up of the network,
  // the first quarter of the second time that of the runs.
  for (const bool warm : {false, true}) {
    CollectiveRun first(engine, network, ring(16), kRanks, nodes(1));
    CollectiveRun second(engine, network, ring(16), kRanks, nodes(5));
    first.enter_all();
    second.enter_all();
    // A ring of n ranks sends 2 (n-1) n messages for every chunk, here of each direction.
    constexpr std::int64_t kMessages = 2 * 15 * 16 * 16 * 2;
    while (first.messages() < kMessages / 4 && engine.step()) {
    }
    const std::int64_t before = allocations();
    engine.run();
    if (warm) CHECK(allocations() == before);
    CHECK(first.done());
    CHECK(second.done());
    CHECK(first.messages() == kMessages);
  }
}

TEST_CASE("a collective on a network that knows its paths allocates tables, not messages", "[unit]") {
  const auto topology = hw::test::network("star", R"({"hosts": 16, "bandwidth": "10 GB/s", "latency": "1 us"})");
  sim::Engine engine;
  Network network(engine, *topology, hw::test::router("shortest", *topology));
  const auto taken_by = [&](std::int64_t chunks) {
    const std::int64_t before = allocations();
    CollectiveRun run(engine, network, ring(chunks), kRanks, nodes(1));
    run.enter_all();
    engine.run();
    CHECK(run.done());
    return allocations() - before;
  };
  taken_by(64);
  const std::int64_t few = taken_by(2), many = taken_by(64);
  // 32 = 2^5 times the messages: five more for each table that doubles, the run's records and the schedule's own.
  CHECK(few < 40);
  CHECK(many - few <= 5 * 3);
}

}  // namespace test_allocations
