// Controllers out of the design space: by hand, against the controller of dram_controller.hpp, and what holds of all.
#include <catch2/catch.hpp>
#include <map>

#include "hw/memory/dram_traffic.hpp"
#include "tests/hw/dram_parts.hpp"

namespace test_dram_design {

using namespace orrery;
using namespace orrery::hw;
using orrery::hw::test::dram;

namespace {

DramDesign random_design(sim::RandomStream& random) {
  const auto pick = [&](auto e, std::uint64_t n) { return static_cast<decltype(e)>(random.below(n)); };
  DramDesign design;
  design.page_policy = pick(PagePolicy{}, 4);
  design.scheduler = pick(DramScheduler{}, 3);
  design.scheduler_buffer = pick(DramBuffer{}, 3);
  design.request_buffer_size = std::int64_t{1} << random.below(8);
  design.response_queue = pick(DramResponses{}, 2);
  design.refresh_policy = pick(DramRefresh{}, 2);
  design.refresh_max_postponed = std::int64_t{1} << random.below(4);
  design.refresh_max_pulled_in = std::int64_t{1} << random.below(4);
  design.arbiter = pick(DramArbiter{}, 3);
  design.max_active_transactions = std::int64_t{1} << random.below(8);
  return design;
}

/// FR-FCFS with open pages, one buffer, refreshes when they fall due.
DramDesign plain(std::int64_t window, bool refresh) {
  return {.request_buffer_size = window,
          .refresh_policy = refresh ? DramRefresh::all_bank : DramRefresh::none,
          .refresh_max_postponed = 0,
          .refresh_max_pulled_in = 0};
}

std::vector<DramAccess> one_row(std::int64_t count) {
  std::vector<DramAccess> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back({.bank = 0, .row = 5});
  return all;
}

}  // namespace

TEST_CASE("open pages and FR-FCFS are the plain controller, command by command", "[prop]") {
  for (const char* name : {"ddr4-3200", "hbm2-2gbps", "gddr6-16gbps"}) {
    const DramParams memory = dram(name);
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      sim::RandomStream random(seed, "accesses");
      std::vector<DramAccess> accesses;
      std::vector<DramRequest> requests;
      for (int i = 0; i < 600; ++i) {
        const std::int64_t bank = random.integer(0, memory.banks_per_lane() - 1), row = random.integer(0, 3);
        const bool write = random.bernoulli(0.3);
        accesses.push_back({.bank = bank, .row = row, .write = write});
        requests.push_back({0, bank, row, write});
      }
      const std::int64_t window = std::int64_t{1} << random.below(7);
      const bool refresh = seed % 2 == 0;
      std::vector<DramCommand> ours, plain_log;
      const DramDesignRun run = run_design(memory, plain(window, refresh), accesses, &ours);
      const DramRun expected =
          run_requests(memory, requests, {.window = window, .refresh = refresh, .log = &plain_log});
      REQUIRE(ours.size() == plain_log.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        REQUIRE(ours[i].clock == plain_log[i].clock);
        REQUIRE(ours[i].op == plain_log[i].op);
        REQUIRE(ours[i].bank == plain_log[i].bank);
      }
      CHECK(run.commands.clocks == expected.clocks);
      CHECK(run.commands.latency_clocks == expected.latency_clocks);
      CHECK(run.commands.row_hits == expected.row_hits);
    }
  }
}

TEST_CASE("two reads of a row under each page policy, by hand", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  // As in test_dram_controller: ACT 0, RD 14, done 36; a second hit RD 18, done 40.
  DramDesign design = plain(8, false);
  for (const PagePolicy page : {PagePolicy::open, PagePolicy::open_adaptive, PagePolicy::closed_adaptive}) {
    design.page_policy = page;
    const DramDesignRun run = run_design(hbm2, design, one_row(2));
    CHECK(run.latencies == std::vector<std::int64_t>{36, 40});
    CHECK(run.commands.activations == 1);
  }
  // Closed: the row closes at max(tRAS 33, 14 + tRTP 5) = 33, ACT 33 + tRP 14 = 47, RD 61, done 83.
  design.page_policy = PagePolicy::closed;
  const DramDesignRun run = run_design(hbm2, design, one_row(2));
  CHECK(run.latencies == std::vector<std::int64_t>{36, 83});
  CHECK(run.commands.activations == 2);
  CHECK(run.commands.row_hits == 0);
}

TEST_CASE("a limit of one makes a thread's accesses follow each other", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  DramDesign design = plain(8, false);
  design.max_active_transactions = 1;
  design.arbiter = DramArbiter::fifo;
  // The second enters at 36, when the first's response is out: RD 36, done 36 + RL 20 + 2 = 58.
  CHECK(run_design(hbm2, design, one_row(2)).latencies == std::vector<std::int64_t>{36, 58});
  design.arbiter = DramArbiter::simple;  // which has no limit
  CHECK(run_design(hbm2, design, one_row(2)).latencies == std::vector<std::int64_t>{36, 40});
}

TEST_CASE("a dependent access starts after the response before it", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  std::vector<DramAccess> chain = one_row(3);
  chain[1].dependent = chain[2].dependent = true;
  chain[1].ready = 10;
  // 36; ready 46, RD 46, done 68, so 22; ready 68, RD 68, done 90: 22.
  CHECK(run_design(hbm2, plain(8, false), chain).latencies == std::vector<std::int64_t>{36, 22, 22});
}

TEST_CASE("responses in order wait for those before them", "[unit]") {
  const DramParams hbm2 = dram("hbm2-2gbps");
  // Row 5, row 6, row 5 of a bank: FR-FCFS serves 0 and 2 first (36, 40); 1 after PRE 33, ACT 47, RD 61: 83.
  std::vector<DramAccess> accesses = one_row(3);
  accesses[1].row = 6;
  DramDesign design = plain(8, false);
  CHECK(run_design(hbm2, design, accesses).latencies == std::vector<std::int64_t>{36, 83, 40});
  design.response_queue = DramResponses::reorder;
  CHECK(run_design(hbm2, design, accesses).latencies == std::vector<std::int64_t>{36, 83, 83});
  design.response_queue = DramResponses::fifo;
  design.arbiter = DramArbiter::reorder;  // the same for one thread …
  CHECK(run_design(hbm2, design, accesses).latencies == std::vector<std::int64_t>{36, 83, 83});
  accesses[2].thread = 1;  // … but not across threads
  CHECK(run_design(hbm2, design, accesses).latencies == std::vector<std::int64_t>{36, 83, 40});
  design.scheduler = DramScheduler::fifo;  // by age: 2 waits for row 6, and opens row 5 once more
  CHECK(run_design(hbm2, design, accesses).commands.activations == 3);
}

TEST_CASE("every design serves every access, once, in legal times", "[prop]") {
  const DramParams memory = dram("ddr4-3200");
  sim::RandomStream random(1, "designs");
  for (int i = 0; i < 400; ++i) {
    const DramDesign design = random_design(random);
    DramTraffic traffic{.accesses = random.integer(1, 400),
                        .threads = random.integer(1, 6),
                        .interval_s = random.bernoulli(0.2) ? 0 : random.uniform(1e-9, 200e-9),
                        .write_share = random.uniform(),
                        .sequential = random.uniform(),
                        .skew = random.uniform(0, 2),
                        .footprint_bytes = random.uniform(4096, 1e8),
                        .dependent = random.bernoulli(0.3)};
    const auto accesses = draw_traffic(memory, traffic, random.child(static_cast<std::uint64_t>(i)));
    REQUIRE(std::ssize(accesses) == traffic.accesses);
    const DramDesignRun run = run_design(memory, design, accesses);
    const DramRun& c = run.commands;
    CHECK(c.reads + c.writes == traffic.accesses);
    CHECK(c.row_hits + c.activations >= traffic.accesses);  // what is no hit was opened, if only to be closed unused
    CHECK(c.precharges <= c.activations);
    CHECK(c.precharges >= c.activations - memory.banks_per_lane());
    const std::int64_t least = std::min(memory.timing.rl, memory.timing.wl) + memory.burst_clocks();
    for (const std::int64_t latency : run.latencies) CHECK(latency >= least);
    CHECK(c.clocks >= traffic.accesses * memory.burst_clocks());
    CHECK(run.open_clocks <= c.clocks + memory.timing.ras + memory.timing.wr);
    if (design.refresh_policy == DramRefresh::none) {
      CHECK(c.refreshes == 0);
    } else {
      const std::int64_t due = c.clocks / memory.timing.refi;
      CHECK(c.refreshes >= due - design.refresh_max_postponed - 1);
      CHECK(c.refreshes <= due + design.refresh_max_pulled_in + 1);
    }
    if (design.page_policy == PagePolicy::closed) CHECK(c.activations >= traffic.accesses);
    if (design.page_policy == PagePolicy::closed && c.refreshes == 0) CHECK(c.activations == traffic.accesses);
  }
}

TEST_CASE("traffic is what it is asked for", "[unit]") {
  const DramParams memory = dram("ddr4-3200");
  const auto rows_of = [&](const DramTraffic& traffic) {
    std::map<std::pair<std::int64_t, std::int64_t>, int> rows;
    for (const DramAccess& access : draw_traffic(memory, traffic, {1, "t"})) ++rows[{access.bank, access.row}];
    return rows;
  };
  // A stream of 1,000 bursts of 64 B fills 8 rows of 8 KiB and a part of the banks' next ones.
  CHECK(rows_of({.accesses = 1000, .sequential = 1}).size() <= 16);
  CHECK(rows_of({.accesses = 1000, .sequential = 0}).size() > 500);
  // Zipf with exponent 2: the first page has 1 / zeta(2) = 61 % of the accesses.
  int most = 0;
  for (const auto& [row, count] : rows_of({.accesses = 10'000, .sequential = 0, .skew = 2}))
    most = std::max(most, count);
  CHECK(most > 1000);
  CHECK_THROWS_AS(draw_traffic(memory, {.footprint_bytes = 1e15}, {1, "t"}), std::invalid_argument);
}

TEST_CASE("energy of a design adds up", "[unit]") {
  const DramParams memory = dram("ddr4-3200");
  DramDesignRun run;
  run.commands.reads = 3;
  run.commands.activations = 2;
  run.commands.refreshes = 1;
  run.commands.clocks = 1600;  // 1 us
  run.open_clocks = 800;
  const DramDesignEnergy energy = design_energy(memory, run);
  // Row: 1024 words of 64 bits, 0.11 pJ each = 7.209 nJ. Bits: 3 * 64 B * 8 * (0.44 + 1.01 + 1.23 + 8) pJ.
  CHECK(energy.rows == Approx(2 * 7.20896e-9));
  CHECK(energy.bits == Approx(3 * 512 * 10.68e-12));
  // A refresh takes 16 banks * 65536 rows / 8192 = 128 rows.
  CHECK(energy.refresh == Approx(128 * 7.20896e-9));
  CHECK(energy.background == Approx(0.5e-6 + 0.13 * 0.5e-6));
}

}  // namespace test_dram_design
