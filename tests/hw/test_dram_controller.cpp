#include <catch2/catch.hpp>

#include "hw/memory/dram_address.hpp"
#include "hw/memory/dram_controller.hpp"
#include "hw/memory/dram_rate.hpp"
#include "sim/base/random.hpp"
#include "tests/hw/dram_parts.hpp"

namespace test_dram_controller {

using namespace orrery;
using namespace orrery::hw;
using orrery::hw::test::dram;

namespace {

/// The first pseudo-channel's share of a stream over consecutive addresses.
std::vector<DramRequest> stream(const DramParams& params, std::int64_t count, bool write = false) {
  const DramAddressMap map(params);
  std::vector<DramRequest> requests;
  for (std::int64_t i = 0; i < count; ++i) {
    const DramPlace place = map.place(static_cast<std::uint64_t>(i * params.lanes() * params.access_bytes()));
    requests.push_back({0, place.bank, place.row, write});
  }
  return requests;
}

std::vector<DramRequest> scattered(const DramParams& params, std::int64_t count, double writes, std::uint64_t seed) {
  sim::RandomStream random(seed, "requests");
  std::vector<DramRequest> requests;
  for (std::int64_t i = 0; i < count; ++i)
    requests.push_back({0, random.integer(0, params.banks_per_lane() - 1),
                        random.integer(0, params.organisation.rows - 1), random.bernoulli(writes)});
  return requests;
}

double share(const DramParams& params, const DramRun& run) {
  const double bytes = static_cast<double>((run.reads + run.writes) * params.access_bytes());
  const double peak = params.peak_bandwidth() / static_cast<double>(params.lanes());
  return bytes / (static_cast<double>(run.clocks) / params.clock_hz) / peak;
}

}  // namespace

TEST_CASE("one read, by hand", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  // ACT at 0, RD at 14, first word at 34, last at 36. The second read of the row: RD at 18, done at 40.
  const std::vector<DramRequest> one{{0, 0, 5, false}};
  std::vector<DramCommand> log;
  const DramRun run = run_requests(hbm2, one, {.log = &log});
  CHECK(run.clocks == 36);
  CHECK(run.activations == 1);
  CHECK(run.row_hits == 0);
  REQUIRE(log.size() == 2);
  CHECK(log[1].clock == 14);
  const std::vector<DramRequest> two{{0, 0, 5, false}, {0, 0, 5, false}};
  const DramRun both = run_requests(hbm2, two);
  CHECK(both.clocks == 40);
  CHECK(both.row_hits == 1);
  // Another row of the bank: PRE at max(tRAS 33, 14 + tRTP 5) = 33, ACT at 47, RD at 61, done at 83.
  const std::vector<DramRequest> conflict{{0, 0, 5, false}, {0, 0, 6, false}};
  CHECK(run_requests(hbm2, conflict).clocks == 83);
  CHECK(hit_latency_s(hbm2) == Approx(22e-9));
  CHECK(miss_latency_s(hbm2) == Approx(36e-9));
  CHECK(conflict_latency_s(hbm2) == Approx(50e-9));
}

TEST_CASE("row hits go before older misses, and a row with hits stays open", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  const std::vector<DramRequest> requests{{0, 0, 1, false}, {0, 0, 2, false}, {0, 0, 1, false}};
  const DramRun run = run_requests(hbm2, requests);
  CHECK(run.activations == 2);
  CHECK(run.precharges == 1);
  CHECK(run.row_hits == 1);
}

TEST_CASE("no timing is violated, whatever the requests", "[prop]") {
  for (const std::string& name : test::dram_names()) {
    const DramParams params = dram(name);
    for (const double writes : {0.0, 0.3, 1.0}) {
      INFO(name << ", writes " << writes);
      std::vector<DramCommand> log;
      std::vector<DramRequest> requests = scattered(params, 1500, writes, 7);
      sim::RandomStream random(3, "hits");
      for (DramRequest& r : requests) r.row = random.integer(0, 3);  // some hits
      std::int64_t clock = 0;
      for (DramRequest& r : requests) r.arrival = clock += random.integer(0, 6);
      const DramRun run = run_requests(params, requests, {.window = 24, .log = &log});
      CHECK(run.reads + run.writes == 1500);
      CHECK(run.commands() == static_cast<std::int64_t>(log.size()));
      const auto broken = test::broken_rule(params, log);
      INFO(broken.value_or(""));
      CHECK_FALSE(broken.has_value());
      CHECK(share(params, run) <= 1);
    }
  }
}

TEST_CASE("the checker finds what is wrong", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  const std::vector<DramCommand> early{{0, DramOp::activate, 0, 5}, {13, DramOp::read, 0, 5}};
  CHECK(test::broken_rule(hbm2, early).value_or("") == "tRCDRD at command 1");
  const std::vector<DramCommand> wrong{{0, DramOp::activate, 0, 5}, {14, DramOp::read, 0, 6}};
  CHECK(test::broken_rule(hbm2, wrong).value_or("") == "column command to another row at command 1");
}

TEST_CASE("streams and random reads reach what the closed form says", "[prop]") {
  for (const std::string& name : test::dram_names()) {
    const DramParams params = dram(name);
    INFO(name);
    const double streamed = share(params, run_requests(params, stream(params, 40000), {.window = 32}));
    CHECK(streamed == Approx(streaming_share(params)).epsilon(0.03));
    const double random = share(params, run_requests(params, scattered(params, 20000, 0, 1), {.window = 32}));
    CHECK(random == Approx(random_share(params, 32)).epsilon(0.06));
    CHECK(random < streamed);
  }
}

TEST_CASE("refreshes take tRFC of every tREFI", "[prop]") {
  for (const std::string& name : test::dram_names()) {
    const DramParams params = dram(name);
    INFO(name);
    const auto requests = stream(params, 60000);
    const DramRun with = run_requests(params, requests, {.refresh = true});
    const DramRun without = run_requests(params, requests, {.refresh = false});
    const double lost = 1 - static_cast<double>(without.clocks) / static_cast<double>(with.clocks);
    CHECK(lost >= refresh_share_idle(params) * 0.95);
    CHECK(lost == Approx(refresh_share(params)).margin(0.02));
    CHECK(with.refreshes == Approx(static_cast<double>(with.clocks) / static_cast<double>(params.timing.refi) *
                                   static_cast<double>(params.organisation.ranks))
                                .margin(2));
  }
}

TEST_CASE("more hits, wider windows and faster timings never slow a run much", "[prop]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  // Hits are faster than misses, misses than conflicts.
  std::vector<DramRequest> hits, misses, conflicts;
  for (std::int64_t i = 0; i < 2000; ++i) {
    hits.push_back({0, 0, 1, false});
    conflicts.push_back({0, 0, i, false});
    misses.push_back({0, i % 16, i, false});
  }
  const std::int64_t hit = run_requests(hbm2, hits).clocks, miss = run_requests(hbm2, misses).clocks,
                     conflict = run_requests(hbm2, conflicts).clocks;
  CHECK(hit < miss);
  CHECK(miss < conflict);
  // tCCD_L = 4 apart within one bank, tRC = 47 apart for conflicts, plus refreshes.
  CHECK(hit == Approx(2000 * 4 / (1 - refresh_share(hbm2))).epsilon(0.03));
  CHECK(conflict == Approx(2000 * 47 / (1 - refresh_share(hbm2))).epsilon(0.03));
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t window : {1, 4, 16, 64}) {
    const std::int64_t clocks = run_requests(hbm2, scattered(hbm2, 5000, 0, 2), {.window = window}).clocks;
    CHECK(clocks <= last);
    last = clocks;
  }
}

TEST_CASE("energy counts rows and bits", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  // One row of 1 KiB at 0.11 pJ a bit: 901 pJ. Two bursts of 256 bits at 0.44 + 1.01 + 1.23 + 0.5 + 0.3 = 3.48 pJ.
  const std::vector<DramRequest> two{{0, 0, 5, false}, {0, 0, 5, false}};
  CHECK(run_energy_j(hbm2, run_requests(hbm2, two)) == Approx(901.12e-12 + 512 * 3.48e-12));
}

TEST_CASE("faulty requests are refused", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  const std::vector<DramRequest> bank{{0, 16, 0, false}}, order{{5, 0, 0, false}, {4, 0, 0, false}};
  CHECK_THROWS_WITH(run_requests(hbm2, bank), Catch::Contains("does not have"));
  CHECK_THROWS_WITH(run_requests(hbm2, order), Catch::Contains("order of arrival"));
  CHECK_THROWS_WITH(run_requests(hbm2, {}, {.window = 0}), Catch::Contains("at least one"));
  CHECK(run_requests(hbm2, {}).clocks == 0);
}

}  // namespace test_dram_controller
