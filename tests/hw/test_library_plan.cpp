// Ring or tree over nodes, by the library's own estimates.
#include <catch2/catch.hpp>
#include <cstdint>

#include "hw/network/library_plan.hpp"

namespace test_library_plan {

using namespace orrery;
using namespace orrery::hw;

namespace {

constexpr double kPlanned = 32e9;

NodePlan all_reduce(std::int64_t ranks, std::int64_t in_node, double bytes, double planned = kPlanned,
                    bool ll128 = false) {
  return library_plan(LibraryCall::all_reduce, {ranks, in_node}, bytes, planned, ll128);
}

constexpr NodePlan kRing{false, LibraryProtocol::simple}, kTree{true, LibraryProtocol::simple};

}  // namespace

TEST_CASE("Between two nodes a tree is taken for some powers of two and not for others", "[unit]") {
  // Four ranks, two a node. Ring: 8.4 + 1.9 (4 * 3.4 + 2 * 14) = 87.4 us, 2/3 of 32 GB/s. Tree: 2 (28 + 28) = 112 us,
  // 1/2 * 0.92 * 64 GB/s = 29.4 GB/s times 0.7 from 4 MiB, 0.8 from 8 MiB, 0.7 from 16 MiB, 0.8 from 64 MiB: 20.6 and
  // 23.6 GB/s beside the ring's 21.3.
  constexpr double mib = 1 << 20;
  CHECK(all_reduce(4, 2, 8 * mib - 1) == kRing);
  CHECK(all_reduce(4, 2, 8 * mib) == kTree);
  CHECK(all_reduce(4, 2, 16 * mib - 1) == kTree);
  CHECK(all_reduce(4, 2, 16 * mib) == kRing);
  CHECK(all_reduce(4, 2, 64 * mib) == kTree);
  CHECK(all_reduce(4, 2, 4e9) == kTree);
}

TEST_CASE("More ranks a node put the tree off: 240 us of a ring, 448 us of a tree", "[unit]") {
  // Sixteen ranks in two nodes at 32 GB/s: ring 8.4 + 1.9 (28 * 3.4 + 28) = 242.5 us and S / 17.07 GB/s, tree 448 us
  // and S / 23.55 GB/s from 8 MiB: the same at 205.5 us / (1/17.07 - 1/23.55) ns = 12.75 MB.
  CHECK(all_reduce(16, 8, 12.6e6) == kRing);
  CHECK(all_reduce(16, 8, 12.9e6) == kTree);
  CHECK(all_reduce(16, 8, 17e6) == kRing);
}

TEST_CASE("More than two nodes: no tree has twice the ring's bandwidth", "[unit]") {
  CHECK(all_reduce(4, 1, 16e6) == kRing);
  CHECK(all_reduce(32, 8, 4e9) == kRing);
  // Where latency counts a ring of many ranks is slower: 64 nodes, a kilobyte.
  CHECK(all_reduce(512, 8, 1024).tree);
}

TEST_CASE("Small messages carry flags, those of 128 bytes only where they are trusted", "[unit]") {
  CHECK(all_reduce(2, 1, 4096) == NodePlan{false, LibraryProtocol::ll});
  CHECK(all_reduce(2, 1, 64e6) == kRing);
  CHECK(all_reduce(32, 8, 8e6, kPlanned, true).protocol == LibraryProtocol::ll128);
  CHECK(all_reduce(32, 8, 8e6).protocol == LibraryProtocol::simple);
  // 0.7 of the bandwidth for one rank a node: two ranks at 32 GB/s, 14 + 8 us and S / 22.4 beside 8.4 + 53.2 us and
  // S / 32: 39.6 us / (1/22.4 - 1/32) ns = 2.96 MB.
  CHECK(all_reduce(2, 1, 2.8e6, kPlanned, true).protocol == LibraryProtocol::ll128);
  CHECK(all_reduce(2, 1, 3.1e6, kPlanned, true) == kRing);
}

TEST_CASE("Only an all-reduce goes over trees", "[unit]") {
  for (const LibraryCall call :
       {LibraryCall::all_gather, LibraryCall::reduce_scatter, LibraryCall::broadcast, LibraryCall::reduce})
    for (const double bytes : {1e3, 1e6, 12e6, 4e9})
      CHECK_FALSE(library_plan(call, {16, 8}, bytes, kPlanned, false).tree);
  // Half of an all-reduce's steps and twice its bandwidth: sixteen ranks, 8.4 + 14 * 3.4 + 14 = 70 us and S / 34.1
  // beside 6.6 + 14 * 1.08 + 2.7 = 24.4 us and S / 8.53 GB/s: the same at 45.6 us / (1/8.53 - 1/34.1) ns = 0.52 MB.
  CHECK(library_plan(LibraryCall::all_gather, {16, 8}, 0.50e6, kPlanned, false).protocol == LibraryProtocol::ll);
  CHECK(library_plan(LibraryCall::all_gather, {16, 8}, 0.54e6, kPlanned, false).protocol == LibraryProtocol::simple);
}

}  // namespace test_library_plan
