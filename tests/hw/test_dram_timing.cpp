#include <catch2/catch.hpp>

#include "hw/memory/dram_address.hpp"
#include "hw/memory/dram_timing.hpp"
#include "sim/base/random.hpp"
#include "tests/hw/dram_parts.hpp"

namespace test_dram_timing {

using namespace orrery;
using namespace orrery::hw;
using orrery::hw::test::dram;

namespace {

constexpr std::int64_t kFar = 10000;  // a clock by which nothing earlier matters

/// A timer whose banks in `open` have their row 7 open since long ago.
DramTimer opened(const DramParams& params, std::initializer_list<std::int64_t> open) {
  DramTimer timer(params);
  std::int64_t clock = 0;
  for (const std::int64_t bank : open) {
    timer.issue(DramOp::activate, bank, clock, 7);
    clock += 100;
  }
  return timer;
}

/// Clocks from the command `first` (to bank a, far from everything) to the earliest `second` (to bank b): the command
/// passes at that distance and fails one clock before.
std::int64_t distance(DramTimer timer, DramOp first, std::int64_t a, DramOp second, std::int64_t b) {
  timer.issue(first, a, kFar, 9);
  return timer.earliest(second, b) - kFar;
}

}  // namespace

// Banks of hbm2-2gbps: 0-3 group 0, 4-7 group 1, 8-11 group 2, 12-15 group 3; clocks of its entry in the catalog.
TEST_CASE("each timing holds to the clock", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  using enum DramOp;
  CHECK(distance(DramTimer(hbm2), activate, 0, read, 0) == 14);         // tRCDRD
  CHECK(distance(DramTimer(hbm2), activate, 0, write, 0) == 10);        // tRCDWR
  CHECK(distance(DramTimer(hbm2), activate, 0, precharge, 0) == 33);    // tRAS
  CHECK(distance(DramTimer(hbm2), activate, 0, activate, 0) == 47);     // tRC
  CHECK(distance(DramTimer(hbm2), activate, 0, activate, 1) == 6);      // tRRD_L: the same group
  CHECK(distance(DramTimer(hbm2), activate, 0, activate, 4) == 4);      // tRRD_S: another
  CHECK(distance(opened(hbm2, {0}), precharge, 0, activate, 0) == 14);  // tRP
  CHECK(distance(opened(hbm2, {0}), precharge, 0, refresh, 0) == 14);   // tRP before a refresh
  CHECK(distance(opened(hbm2, {0}), read, 0, read, 0) == 4);            // tCCD_L
  CHECK(distance(opened(hbm2, {0, 1}), read, 0, read, 1) == 4);         // tCCD_L, another bank of the group
  CHECK(distance(opened(hbm2, {0, 4}), read, 0, read, 4) == 2);         // tCCD_S
  CHECK(distance(opened(hbm2, {0, 4}), write, 0, write, 0) == 4);
  CHECK(distance(opened(hbm2, {0, 4}), write, 0, write, 4) == 2);
  CHECK(distance(opened(hbm2, {0}), read, 0, precharge, 0) == 5);    // tRTP
  CHECK(distance(opened(hbm2, {0}), write, 0, precharge, 0) == 26);  // WL 8 + burst 2 + tWR 16
  CHECK(distance(opened(hbm2, {0}), write, 0, read, 0) == 18);       // WL 8 + burst 2 + tWTR_L 8
  CHECK(distance(opened(hbm2, {0, 4}), write, 0, read, 4) == 16);    // WL 8 + burst 2 + tWTR_S 6
  CHECK(distance(opened(hbm2, {0}), read, 0, write, 0) == 15);       // RL 20 + burst 2 + gap 1 - WL 8
  CHECK(distance(DramTimer(hbm2), refresh, 0, activate, 5) == 350);  // tRFC, every bank of the rank
}

TEST_CASE("at most four activations of a rank fall into tFAW", "[unit]") {
  DramParams hbm2 = dram("hbm2-2gbps");
  hbm2.timing.faw = 40;
  DramTimer timer(hbm2);
  // One a group, tRRD_S = 4 apart: 0, 4, 8, 12; the fifth waits for 0 + 40, the sixth for 4 + 40.
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(timer.earliest(DramOp::activate, 4 * i) == 4 * i);
    timer.issue(DramOp::activate, 4 * i, 4 * i);
  }
  CHECK(timer.earliest(DramOp::activate, 1) == 40);
  timer.issue(DramOp::activate, 1, 40);
  CHECK(timer.earliest(DramOp::activate, 5) == 44);
}

TEST_CASE("ranks share the bus and nothing else", "[unit]") {
  const DramParams hbm3 = dram("hbm3-5.2gbps");  // two ranks of 16 banks; burst 2, tRTRS 1
  CHECK(distance(DramTimer(hbm3), DramOp::activate, 0, DramOp::activate, 16) == 1);  // the command bus only
  CHECK(distance(opened(hbm3, {0, 16}), DramOp::read, 0, DramOp::read, 16) == 3);    // burst 2 + gap 1
  CHECK(distance(opened(hbm3, {0, 16}), DramOp::write, 0, DramOp::read, 16) == 1);   // WL 6 + 2 + 1 - RL 19 < 0
  CHECK(distance(DramTimer(hbm3), DramOp::refresh, 0, DramOp::activate, 16) == 1);
}

TEST_CASE("a set command goes when it may go in every bank", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  DramTimer timer(hbm2, 12);  // the activations of a set spread over 12 clocks
  const BankSet all = timer.all_banks();
  CHECK(all == 0xffff);
  timer.issue(DramOp::activate, 3, 100, 1);
  CHECK(timer.earliest_set(DramOp::precharge, all) == 133);  // tRAS of bank 3; closed banks wait for nothing
  timer.issue_set(DramOp::precharge, all, 133);
  CHECK(timer.earliest_set(DramOp::activate, all) == 147);
  timer.issue_set(DramOp::activate, all, 147, 5);
  CHECK(timer.open_row(15) == 5);
  CHECK(timer.earliest_set(DramOp::read, all) == 147 + 12 + 14);
  timer.issue_set(DramOp::read, all, 200);
  CHECK(timer.earliest_set(DramOp::read, all) == 204);  // tCCD_L: every group is in the set
  timer.issue_set(DramOp::precharge, all, 220);
  CHECK(timer.earliest_set(DramOp::refresh, all) == 234);
}

TEST_CASE("addresses and places are one to one", "[prop]") {
  sim::RandomStream random(1, "addresses");
  for (const std::string& name : test::dram_names()) {
    const DramParams params = dram(name);
    const DramAddressMap map(params);
    const auto bursts =
        static_cast<std::uint64_t>(params.capacity_bytes()) / static_cast<std::uint64_t>(params.access_bytes());
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t address = random.below(bursts) * static_cast<std::uint64_t>(params.access_bytes());
      const DramPlace place = map.place(address);
      CHECK(map.address(place) == address);
      CHECK(place.channel < params.lanes());
      CHECK(place.bank < params.banks_per_lane());
      CHECK(place.row < params.organisation.rows);
      CHECK(place.column < params.accesses_per_row());
    }
  }
}

TEST_CASE("consecutive bursts spread over channels, then over bank groups", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");  // 16 pseudo-channels, bursts of 32 bytes
  const DramAddressMap map(hbm2);
  CHECK(map.place(0) == DramPlace{0, 0, 0, 0});
  CHECK(map.place(32) == DramPlace{1, 0, 0, 0});
  CHECK(map.place(32 * 16) == DramPlace{0, 4, 0, 0});      // the next bank group
  CHECK(map.place(32 * 16 * 4) == DramPlace{0, 0, 0, 1});  // the next column
  const std::array<DramLevel, 2> two{DramLevel::channel, DramLevel::row};
  CHECK_THROWS_WITH(DramAddressMap(hbm2, two), Catch::Contains("every level once"));
  const std::array<DramLevel, 6> twice{DramLevel::channel, DramLevel::row,    DramLevel::row,
                                       DramLevel::bank,    DramLevel::column, DramLevel::rank};
  CHECK_THROWS_WITH(DramAddressMap(hbm2, twice), Catch::Contains("every level once"));
}

TEST_CASE("memories that contradict themselves are refused, a line a fault", "[unit]") {
  const auto faults_after = [](const std::string& assignment) {
    sim::Node node = sim::read_config(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/hbm2-2gbps.json");
    sim::assign(node, assignment);
    sim::Faults faults;
    (void)parse_part<DramParams>(node, faults);
    std::string text;
    for (const sim::Fault& fault : faults.all()) text += fault.where.pointer + ": " + fault.text() + "\n";
    return text;
  };
  CHECK(faults_after("name=\"x\"").empty());
  CHECK_THAT(faults_after("timing.rc=40"), Catch::Contains("/timing/rc") && Catch::Contains("ras + rp = 47"));
  CHECK_THAT(faults_after("timing.ras=10"), Catch::Contains("/timing/ras") && Catch::Contains("rcd_rd = 14"));
  CHECK_THAT(faults_after("timing.ccd_l=1"), Catch::Contains("/timing/ccd_l") && Catch::Contains("ccd_s = 2"));
  CHECK_THAT(faults_after("timing.ccd_s=1"), Catch::Contains("/timing/ccd_s") && Catch::Contains("burst's 2"));
  CHECK_THAT(faults_after("timing.rrd_l=2"), Catch::Contains("/timing/rrd_l"));
  CHECK_THAT(faults_after("timing.faw=2"), Catch::Contains("/timing/faw"));
  CHECK_THAT(faults_after("timing.wtr_l=1"), Catch::Contains("/timing/wtr_l"));
  CHECK_THAT(faults_after("timing.refi=300"), Catch::Contains("/timing/refi"));
  CHECK_THAT(faults_after("organisation.bus_bits=60"), Catch::Contains("whole bytes"));
  CHECK_THAT(faults_after("organisation.columns=30"), Catch::Contains("multiple of the burst"));
  CHECK_THAT(faults_after("organisation.ranks=5"), Catch::Contains("at most 64 banks"));
  CHECK_THAT(faults_after("organisation.channels=0"), Catch::Contains("/organisation/channels"));
  CHECK_THAT(faults_after("clock=3"), Catch::Contains("/clock"));
  CHECK_THAT(faults_after("standard=\"hbm9\""), Catch::Contains("/standard"));
}

TEST_CASE("peaks and capacities are the data sheets'", "[golden]") {
  CHECK(dram("hbm2-2.4gbps").peak_bandwidth() == Approx(307.2e9));  // catalog_facts.json: 307 GB/s a stack
  CHECK(dram("hbm3-5.2gbps").peak_bandwidth() == Approx(670.4e9).epsilon(0.01));  // AttAcc: 670.4 GB/s
  CHECK(dram("hbm2-neupims").peak_bandwidth() == Approx(1024e9));
  CHECK(dram("ddr4-3200").peak_bandwidth() == Approx(25.6e9));
  CHECK(dram("ddr5-4800").peak_bandwidth() == Approx(38.4e9));
  CHECK(dram("gddr6-16gbps").peak_bandwidth() == Approx(64e9));
  CHECK(dram("hbm3-5.2gbps").capacity_bytes() == 16.0 * (1 << 30));
  CHECK(dram("hbm2-neupims").capacity_bytes() == 32.0 * (1 << 30));
  CHECK(dram("gddr6-16gbps").capacity_bytes() == 1.0 * (1 << 30));
  CHECK(dram("ddr4-3200").capacity_bytes() == 8.0 * (1 << 30));
  CHECK(dram("ddr5-4800").capacity_bytes() == 16.0 * (1 << 30) * 1.0);
}

}  // namespace test_dram_timing
