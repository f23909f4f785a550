#include "hw/network/library_collective.hpp"

#include <catch2/catch.hpp>

#include "hw/network/collective_closed_form.hpp"
#include "sim/base/random.hpp"
#include "tests/hw/parts.hpp"

namespace test_library_collective {

using namespace orrery;
using namespace orrery::hw;
using orrery::hw::test::part;

namespace {

constexpr LibraryCall kCalls[]{LibraryCall::all_reduce, LibraryCall::all_gather, LibraryCall::reduce_scatter,
                               LibraryCall::all_to_all, LibraryCall::broadcast,  LibraryCall::reduce,
                               LibraryCall::send_recv};

/// 100 GB/s, plain constants: us for latencies, tenths for shares.
constexpr const char* kCubeMesh = "01122000 10210200 12020010 21200001 20000112 02001021 00101202 00012120";

LinkParams plain() {
  LinkParams link;
  link.bandwidth = 100e9;
  link.byte_j = 10e-12;
  link.planned_share = 1;
  link.ll_ceiling = 40e9;
  link.ring = {.base_s = 5e-6,
               .ramp_s = 2e-6,
               .ramp_bytes = 1000,
               .ll_step_s = 1e-6,
               .ll_efficiency = 0.25,
               .ll128_step_s = 2e-6,
               .ll128_efficiency = 0.5,
               .simple_start_s = 10e-6,
               .simple_step_s = 4e-6,
               .simple_efficiency = 0.8,
               .local_ratio = 2};
  return link;
}

}  // namespace

TEST_CASE("ring collectives by hand", "[unit]") {
  const LinkParams link = plain();
  // all_reduce, 4 ranks, 1,000 bytes: 6 steps, 1,500 bytes sent. The library reckons LL 6.6 + 3.6 = 10.2 us, LL128
  // 25.4, Simple 28.8: LL. 5 + 6 * 1 + 2 * 1000/2000 + 1500/25e9 = 12 us + 60 ns.
  const CollectiveCost small = library_collective(link, LibraryCall::all_reduce, 4, 1000);
  CHECK(small.protocol == LibraryProtocol::ll);
  CHECK(small.time_s == Approx(12.06e-6));
  CHECK(small.link_bytes == Approx(1500));
  CHECK(small.link_energy_j == Approx(15e-9));
  // 400 MB: 600 MB sent, Simple. 5 + 10 + 6 * 4 = 39 us, 600e6/80e9 = 7.5 ms, own 100e6/200e9 = 0.5 ms.
  const CollectiveCost large = library_collective(link, LibraryCall::all_reduce, 4, 400'000'000);
  CHECK(large.protocol == LibraryProtocol::simple);
  CHECK(large.time_s == Approx(8.039e-3));
  // all_gather and reduce_scatter send half of that in half of the steps: 15 + 12 us + 3.75 ms + 0.5 ms.
  for (const LibraryCall call : {LibraryCall::all_gather, LibraryCall::reduce_scatter})
    CHECK(library_collective(link, call, 4, 400'000'000).time_s == Approx(4.277e-3));
  // A chain of 4: 3 steps, all bytes over each link, no shard of its own: 27 us + 5 ms.
  for (const LibraryCall call : {LibraryCall::broadcast, LibraryCall::reduce})
    CHECK(library_collective(link, call, 4, 400'000'000).time_s == Approx(5.027e-3));
  // LL128 lies between: 8 ranks, all_gather (7 steps), 12 MB, w = 10.5 MB. The library: LL 10.8 + 262.5 us, LL128
  // 27.3 + 10.5e6/92e9 = 114.1 -> 141.4 us, Simple 32.2 + 105 = 137.2 us at 12 MB; at 4 MB (w = 3.5 MB): LL 98.3,
  // LL128 65.3, Simple 67.2 us. Cost: 5 + 2 + 14 us + 3.5e6/50e9 = 70 us + own 0.5e6/200e9 = 2.5 us.
  CHECK(library_protocol(link, LibraryCall::all_gather, 8, 12'000'000) == LibraryProtocol::simple);
  CHECK(library_protocol(link, LibraryCall::all_gather, 8, 4'000'000) == LibraryProtocol::ll128);
  CHECK(library_collective(link, LibraryCall::all_gather, 8, 4'000'000).time_s == Approx(93.5e-6));
}

TEST_CASE("all-reduce inside the switch by hand", "[unit]") {
  LinkParams link = plain();
  link.in_switch = {.ranks = 8, .chunk_s = 1e-6, .efficiency = 0.9};
  // 8 ranks, 80 MB: y = 9/8 * 80e6 / 90e9 = 1 ms; 5 + 10 us + 1 ms + 2 sqrt(1e-6 * 1e-3) = 63.2 us.
  const CollectiveCost cost = library_collective(link, LibraryCall::all_reduce, 8, 80'000'000);
  CHECK(cost.protocol == LibraryProtocol::in_switch);
  CHECK(cost.time_s == Approx(1.078246e-3).epsilon(1e-6));
  CHECK(cost.link_bytes == Approx(90e6));
  CHECK(library_collective(link, LibraryCall::all_reduce, 4, 80'000'000).protocol == LibraryProtocol::simple);
  CHECK(library_collective(link, LibraryCall::all_gather, 8, 80'000'000).protocol == LibraryProtocol::simple);
}

TEST_CASE("messages between pairs by hand", "[unit]") {
  LinkParams link = plain();
  link.peer = {.base_s = 10e-6,
               .per_peer_s = 1e-6,
               .ramp_s = 4e-6,
               .ramp_bytes = 1'000'000,
               .chunk_s = 0,
               .efficiency = 0.5,
               .local_ratio = 2,
               .send_base_s = 3e-6,
               .send_ramp_s = 2e-6,
               .send_ramp_bytes = 1'000'000,
               .copy_bandwidth = 200e9,
               .buffer_bytes = 2'000'000};
  // 4 ranks of 4 MB: z = 1 MB. 10 + 2 + 4/2 = 14 us, 3 MB / 50e9 = 60 us, own 1e6/200e9 = 5 us.
  CHECK(library_collective(link, LibraryCall::all_to_all, 4, 4'000'000).time_s == Approx(79e-6));
  // 1 MB to a peer: 3 + 1 us + 20 us; the sender is free after 4 + 5 us. 3 MB do not fit the buffer.
  const CollectiveCost send = library_collective(link, LibraryCall::send_recv, 2, 1'000'000);
  CHECK(send.time_s == Approx(24e-6));
  CHECK(send.sender_s == Approx(9e-6));
  const CollectiveCost large = library_collective(link, LibraryCall::send_recv, 2, 3'000'000);
  CHECK(large.time_s == Approx(64.5e-6));
  CHECK(large.sender_s == large.time_s);
}

TEST_CASE("groups that the links do not join go the far way", "[unit]") {
  LinkParams link = plain();
  link.peers = 2;
  link.far = {.bandwidth = 20e9, .efficiency = 0.5, .step_s = 3e-6};
  // 4 ranks, 10 MB: 15 MB at 10 GB/s = 1.5 ms, 5 us, ramp 2 * 1e7/(1e7+1e3) us, 6 * 3 us.
  const CollectiveCost cost = library_collective(link, LibraryCall::all_reduce, 4, 10'000'000);
  CHECK(cost.protocol == LibraryProtocol::far);
  CHECK(cost.time_s == Approx(1.525e-3).epsilon(1e-6));
  CHECK(library_collective(link, LibraryCall::all_reduce, 2, 10'000'000).protocol == LibraryProtocol::simple);
}

TEST_CASE("the far path is started anew under Simple, and sockets share it", "[unit]") {
  LinkParams link = plain();
  link.peers = 2;
  link.planned_share = 0.5;
  link.far = {.bandwidth = 20e9, .efficiency = 0.5, .step_s = 3e-6, .simple_start_s = 40e-6};
  // Four ranks, six steps: the library expects 6.6 + 3.6 us and w / 5 GB/s of LL, 8.4 + 20.4 us and w / 10 GB/s of
  // Simple, the same at w = 186 kB: S = 124 kB.
  const auto seconds = [&](std::int64_t bytes) {
    return library_collective(link, LibraryCall::all_reduce, 4, bytes).time_s;
  };
  CHECK(seconds(125'000) - seconds(123'000) == Approx(40e-6 + 3000 / 10e9).epsilon(1e-3));
  CHECK(seconds(123'000) - seconds(121'000) == Approx(3000 / 10e9).epsilon(0.05));
  // Eight ranks on two sockets of four get a quarter: 2 * 7/8 * 80 MB = 140 MB at 10 and at 2.5 GB/s.
  const double one = library_collective(link, LibraryCall::all_reduce, 8, 80'000'000).time_s;
  link.far.socket_ranks = 4;
  link.far.socket_share = 0.25;
  CHECK(library_collective(link, LibraryCall::all_reduce, 8, 80'000'000).time_s - one == Approx(42e-3));
  CHECK(seconds(125'000) - seconds(123'000) == Approx(40e-6 + 3000 / 10e9).epsilon(1e-3));
  const double sent = library_collective(link, LibraryCall::send_recv, 8, 10'000'000).time_s;
  CHECK(sent - library_collective(link, LibraryCall::send_recv, 4, 10'000'000).time_s == Approx(3e-3));
}

TEST_CASE("beside a far path a device handles its own shard", "[unit]") {
  LinkParams link = plain();
  link.peers = 1;
  link.far = {.bandwidth = 20e9, .efficiency = 0.5, .step_s = 3e-6, .local_bandwidth = 5e9};
  // As above, and 2.5 MB at 5 GB/s: 0.5 ms.
  CHECK(library_collective(link, LibraryCall::all_reduce, 4, 10'000'000).time_s == Approx(2.025e-3).epsilon(1e-6));
}

TEST_CASE("parts that are not aligned keep a share of the bandwidth", "[unit]") {
  LinkParams link = plain();
  link.unaligned = {.gather = 0.5, .reduce = 0.25, .peer = 0.2};
  const auto slower = [&](LibraryCall call) {
    return library_collective(link, call, 4, 400'000'000, PartAlignment::partial).time_s -
           library_collective(link, call, 4, 400'000'000).time_s;
  };
  // 300 MB at 80 GB/s take 3.75 ms: at half of that as much again, at a quarter three times as much.
  CHECK(slower(LibraryCall::all_gather) == Approx(3.75e-3));
  CHECK(slower(LibraryCall::reduce_scatter) == Approx(11.25e-3));
  CHECK(slower(LibraryCall::all_to_all) > 4 * 300e6 / (link.peer.efficiency * link.bandwidth));
  for (const LibraryCall call : {LibraryCall::all_reduce, LibraryCall::broadcast, LibraryCall::send_recv})
    CHECK(slower(call) == 0);
}

TEST_CASE("a plain link takes its latency a step, and its bytes", "[unit]") {
  const LinkParams link = plain_link(1e9, 2e-6);
  const auto us = [&](LibraryCall call, std::int64_t ranks, std::int64_t bytes) {
    return library_collective(link, call, ranks, bytes).time_s * 1e6;
  };
  // Four ranks, 8 MB and 8 kB (which protocol the library takes makes no difference): 2 (n-1) or n-1 steps of a
  // quarter.
  for (const std::int64_t bytes : {8'000'000, 8'000}) {
    const double part_us = static_cast<double>(bytes) / 4 * 1e-3;
    CHECK(us(LibraryCall::all_reduce, 4, bytes) == Approx(6 * (2 + part_us)));
    for (const LibraryCall call : {LibraryCall::all_gather, LibraryCall::reduce_scatter, LibraryCall::all_to_all})
      CHECK(us(call, 4, bytes) == Approx(3 * (2 + part_us)));
    CHECK(us(LibraryCall::send_recv, 2, bytes) == Approx(2 + 4 * part_us));
  }
  CHECK(us(LibraryCall::all_reduce, 1, 8'000) == 0);
}

TEST_CASE("a mesh whose pairs differ", "[unit]") {
  LinkParams link = plain();
  link.pair_bandwidth = 25e9;
  link.mesh = kCubeMesh;
  link.ring.local_ratio = 1e9;
  link.peer = {.base_s = 0, .per_peer_s = 0, .ramp_s = 0, .chunk_s = 0, .efficiency = 1, .local_ratio = 1e9};
  const auto ms = [&](LibraryCall call, std::int64_t ranks) {
    return library_collective(link, call, ranks, 8'000'000'000).time_s * 1e3;
  };
  // Rings of 2, 4 and 8 ranks send 8, 12 and 14 GB at 0.8 of 25, 100 and 150 GB/s, after 23, 39 and 71 us.
  CHECK(ms(LibraryCall::all_reduce, 2) == Approx(400.023));
  CHECK(ms(LibraryCall::all_reduce, 4) == Approx(150.039));
  CHECK(ms(LibraryCall::all_reduce, 8) == Approx(116.738));
  // Three have one ring: 8 GB x 4/3 at 0.8 of 50 GB/s, after 15 + 4 x 4 = 31 us.
  CHECK(ms(LibraryCall::all_reduce, 3) == Approx(266.698).epsilon(1e-4));
  // All-to-all: 4, 6 and 7 GB at 25, 75 and 7 x 25 / 3 GB/s.
  CHECK(ms(LibraryCall::all_to_all, 2) == Approx(160));
  CHECK(ms(LibraryCall::all_to_all, 4) == Approx(80));
  CHECK(ms(LibraryCall::all_to_all, 8) == Approx(120));
  // A group through which no ring closes takes the far path.
  link.mesh = "010 101 010";
  link.far = {.bandwidth = 10e9, .efficiency = 1, .step_s = 0};
  CHECK(library_protocol(link, LibraryCall::all_reduce, 3, 1000) == LibraryProtocol::far);
  CHECK(library_protocol(link, LibraryCall::all_reduce, 2, 1000) != LibraryProtocol::far);
}

TEST_CASE("one rank or no bytes are free", "[unit]") {
  const LinkParams link = part("a100-sxm4-80gb").link;
  for (const LibraryCall call : kCalls) {
    CHECK(library_collective(link, call, 8, 0).time_s == 0);
    if (call == LibraryCall::send_recv) continue;
    CHECK(library_collective(link, call, 1, 1 << 20).time_s == 0);
    CHECK(library_collective(link, call, 1, 1 << 20).link_bytes == 0);
  }
}

TEST_CASE("the library's choices on real parts", "[unit]") {
  // The tables of measurements jump where LL hands over: nccl_a100_sxm all_gather among 2 and 4 between 1 and 2 MiB,
  // nccl_b200_sxm among 4 between 4 and 8 MiB; LL128 to Simple among 8 on A100 between 8 and 16 MiB.
  constexpr std::int64_t kMiB = 1 << 20;
  const LinkParams a100 = part("a100-sxm4-80gb").link, b200 = part("b200-sxm").link, h100 = part("h100-sxm5-80gb").link;
  const auto gather = [](const LinkParams& link, std::int64_t ranks, std::int64_t mib) {
    return library_protocol(link, LibraryCall::all_gather, ranks, mib * kMiB);
  };
  for (const std::int64_t ranks : {2, 4}) {
    CHECK(gather(a100, ranks, 1) == LibraryProtocol::ll);
    CHECK(gather(a100, ranks, 2) == LibraryProtocol::simple);
  }
  CHECK(gather(a100, 8, 8) == LibraryProtocol::ll128);
  CHECK(gather(a100, 8, 16) == LibraryProtocol::simple);
  CHECK(gather(b200, 4, 4) == LibraryProtocol::ll);
  CHECK(gather(b200, 4, 8) == LibraryProtocol::simple);
  CHECK(library_protocol(h100, LibraryCall::all_reduce, 8, 64 * kMiB) == LibraryProtocol::in_switch);
  CHECK(library_protocol(a100, LibraryCall::all_reduce, 8, 64 * kMiB) == LibraryProtocol::simple);
}

TEST_CASE("limits of collectives", "[prop]") {
  for (const char* name :
       {"a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm", "gb200", "a100-pcie-80gb"}) {
    const LinkParams link = part(name).link;
    sim::RandomStream random(5, name);
    for (int i = 0; i < 2000; ++i) {
      const LibraryCall call = kCalls[random.below(7)];
      const std::int64_t ranks = call == LibraryCall::send_recv ? 2 : 2 + static_cast<std::int64_t>(random.below(15));
      const std::int64_t bytes = std::int64_t{1} << random.below(34);
      const CollectiveCost cost = library_collective(link, call, ranks, bytes);
      // Never faster than the bytes at the link's peak.
      CHECK(cost.time_s > cost.link_bytes / link.bandwidth);
      CHECK(cost.sender_s <= cost.time_s);
      CHECK(cost.sender_s > 0);
      // Within a protocol more bytes take longer.
      const CollectiveCost more = library_collective(link, call, ranks, bytes + 1 + bytes / 3);
      if (more.protocol == cost.protocol) CHECK(more.time_s > cost.time_s);
      // Where the library changes its mind it may gain, never more than half.
      CHECK(more.time_s > cost.time_s / 2);
      // A faster link never hurts as long as the protocol stays.
      LinkParams faster = link;
      faster.bandwidth *= 2;
      const CollectiveCost quick = library_collective(faster, call, ranks, bytes);
      if (quick.protocol == cost.protocol) CHECK(quick.time_s <= cost.time_s);
    }
  }
}

TEST_CASE("the library's bandwidth term is that of the engine's ring", "[prop]") {
  // Large buffers: what a rank sends over the share of the link that the library reaches, as the ring's closed form
  // has it with that bandwidth, no latency and one chunk. The library adds its steps and the rank's own shard.
  LinkParams link = part("a100-sxm4-80gb").link;
  link.ring.local_ratio = 1e9;
  constexpr std::int64_t kBytes = std::int64_t{1} << 34;
  for (const std::int64_t ranks : {2, 3, 8})
    for (const auto& [call, kind] : {std::pair{LibraryCall::all_reduce, CollectiveKind::all_reduce},
                                     {LibraryCall::all_gather, CollectiveKind::all_gather},
                                     {LibraryCall::reduce_scatter, CollectiveKind::reduce_scatter}}) {
      CollectiveSpec spec;
      spec.kind = kind;
      spec.ranks = ranks;
      spec.bytes = kBytes;
      const AlphaBeta cost{0, link.bandwidth * link.ring.simple_efficiency};
      const double ring = collective_seconds(RingParams{}, spec, cost).value();
      CHECK(library_collective(link, call, ranks, kBytes).time_s == Approx(ring).epsilon(0.005));
    }
}

}  // namespace test_library_collective
