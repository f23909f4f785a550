// The system `network` against times worked out by hand: collectives, flows, links that degrade, fail and come back.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/systems/network/summary.hpp"
#include "tests/experiments/network_support.hpp"
#include "tests/sim/decode_timeline.hpp"
#include "tests/systems.hpp"
#include "timeline.pb.h"

namespace test_network_system {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

constexpr const char* kStudies = ORRERY_SOURCE_DIR "/experiments/studies/";

/// Runs a study without files.
sim::Node study(const std::string& name, const std::vector<std::string>& assignments = {}) {
  return read_experiment(test_systems(), kStudies + name, assignments)->run({}).summary;
}

/// Whether a time is `ps` as computed, or so many ticks later: every end is rounded up to a tick, and rates are whole
/// units a tick.
bool within_ticks(double seconds, double ps, double ticks) {
  const double late = seconds * 1e12 - ps;
  return late > -0.5 && late < ticks + 0.5;
}

/// finished_s of a repetition, in ps.
std::int64_t end_of(const NetworkOutcome& run, const std::string& job, int repetition = 0) {
  for (const Row& row : run.jobs)
    if (row.at("name") == job && row.at("repetition") == std::to_string(repetition))
      return picoseconds(row.at("finished_s"));
  return -1;
}

std::int64_t end_of_flow(const NetworkOutcome& run, int id) {
  for (const Row& row : run.flows)
    if (row.at("id") == std::to_string(id)) return picoseconds(row.at("finished_s"));
  return -1;
}

}  // namespace

TEST_CASE("study ring_all_reduce: 2(n-1) steps of a shard each", "[golden]") {
  // A step: 64 MiB / n over 50 GiB/s = 1,250,000,000 ps / n, and two links of 250 ns.
  //   n = 8    14 x (156,250,000 + 500,000) = 2,194,500,000 ps
  //   n = 64   126 x (19,531,250 + 500,000) = 2,523,937,500 ps
  //   n = 256  510 x (4,882,812.5 + 500,000) = 2,745,234,375 ps
  //   n = 1024 2046 x (1,220,703.125 + 500,000) = 3,520,558,593.75 ps
  struct Case {
    const char* ranks;
    double n, ps;
  };
  for (const Case& c : {Case{"0-7", 8, 2'194'500'000}, Case{"0-63", 64, 2'523'937'500},
                        Case{"0-255", 256, 2'745'234'375}, Case{"0-1023", 1024, 3'520'558'593.75}}) {
    CAPTURE(c.ranks);
    const sim::Node summary = study("ring_all_reduce.json", {std::string("workload.jobs.0.ranks=") + c.ranks});
    CHECK(summary.find("status")->as_string() == "ok");
    CHECK(within_ticks(summary.find("makespan_s")->as_number(), c.ps, 2 * (c.n - 1)));
    const sim::Node& job = *summary.at("jobs.by_name.dp");
    CHECK(job.find("messages")->as_number() == 2 * (c.n - 1) * c.n);
    // nccl-tests: algbw = bytes / time, busbw = algbw x 2 (n-1) / n.
    const double algbw = 67'108'864 / (c.ps * 1e-12);
    CHECK(job.find("algbw_bytes_per_s")->as_number() == Approx(algbw));
    CHECK(job.find("busbw_bytes_per_s")->as_number() == Approx(algbw * 2 * (c.n - 1) / c.n));
    // Every byte crosses two links: n ranks send 2(n-1)/n of 64 MiB each.
    CHECK(summary.at("links.carried_bytes")->as_number() == 2 * 2 * (c.n - 1) * 67'108'864);
  }
}

TEST_CASE("study rail_all_to_all: the NICs are what is full", "[golden]") {
  // Every GPU holds 2 MiB for each of 32. Over a rail's NIC go the messages of the 8 GPUs of a machine to the 3 others
  // on that rail: 48 MiB / 50 GB/s = 1006.63296 us, from the moment when the first message has crossed two links of 1
  // us.
  const sim::Node summary = study("rail_all_to_all.json");
  CHECK(within_ticks(summary.find("makespan_s")->as_number(), 1'008'632'960, 100));
  // Links: 32 x (7 x 2 inside, 3 x 2 on the same rail, 21 x 4 over another GPU's rail) messages of 2 MiB.
  CHECK(summary.at("links.carried_bytes")->as_number() == 32.0 * (14 + 6 + 84) * 2'097'152);
}

TEST_CASE("study shared_fat_tree: slower while the link is down, as before once it is back", "[golden]") {
  const Scratch scratch;
  fs::create_directory(scratch / "run");
  const Outcome outcome =
      read_experiment(test_systems(), std::string(kStudies) + "shared_fat_tree.json")->run({scratch / "run", {}});
  const std::vector<Row> rows = read_csv(scratch / "run/jobs.csv");
  REQUIRE(rows.size() == 8);
  const auto time = [&](std::size_t row) {
    return picoseconds(rows[row].at("finished_s")) - picoseconds(rows[row].at("started_s"));
  };
  // 14 steps. Four channels of 2 MiB a rank; hashing puts three of them on one of the two links up from an edge switch,
  // for both jobs: 6 x 2 MiB / 50 GB/s = 251.65824 us, and 1 us + 6 x 500 ns before.
  CHECK(within_ticks(static_cast<double>(time(0)) * 1e-12, 14 * 255'658'240.0, 100));
  CHECK(time(6) == time(0));
  // All eight channels over the link that is left: 8 x 2 MiB / 50 GB/s = 335.54432 us, 1 us + 4 x 500 ns before.
  CHECK(time(2) > time(0));
  CHECK(static_cast<double>(time(4)) < 14 * 339'544'320.0);
  CHECK(static_cast<double>(time(4)) > 13 * 338'544'320.0);
  CHECK(outcome.summary.find("rerouted")->as_number() > 0);
  CHECK(outcome.summary.find("without_path")->as_number() == 0);
}

TEST_CASE("flows share links, and the files say by how much they were slowed", "[golden]") {
  // Two of 1 MB into h2's link: 2 us, then half of 1 GB/s each; the third shares nothing.
  const NetworkOutcome run = run_network_config(star_config(
      R"("flows": [{"from": "h0", "to": "h2", "bytes": "1 MB"}, {"from": "h1", "to": "2", "bytes": "1 MB"},
                   {"from": "h3", "to": "h4", "bytes": "500 kB", "start": "1 ms"}])"));
  CHECK(run.status() == "ok");
  for (const int id : {0, 1}) CHECK(end_of_flow(run, id) == Approx(2'002'000'000).margin(5));
  CHECK(end_of_flow(run, 2) == Approx(1'502'000'000).margin(5));
  for (const Row& row : run.flows) {
    CHECK(row.at("hops") == "2");
    // (2 us + 2 ms) / (2 us + 1 ms)
    CHECK(std::stod(row.at("slowdown")) == Approx(row.at("id") == "2" ? 1 : 2002.0 / 1002.0).margin(2e-6));
  }
  CHECK(run.number("flows.time_s.max") == Approx(2.002e-3));
  CHECK(run.number("makespan_s") == Approx(2.002e-3));
  CHECK(run.summary.at("links.busiest")->as_string() == "switch->h2");
  CHECK(run.number("links.utilisation.max") == Approx(2.0 / 2.002));
}

TEST_CASE("a link that degrades, one that fails and comes back", "[golden]") {
  const std::string flow = R"("flows": [{"from": "h0", "to": "h1", "bytes": "1 MB"}])";
  // 500 kB have gone at 502 us; the rest takes twice as long.
  const NetworkOutcome slow =
      run_network_config(star_config(flow + R"(, "events": [{"at": "502 us", "link": "switch->h1", "share": 0.5}])"));
  CHECK(end_of_flow(slow, 0) == Approx(1'502'000'000).margin(5));
  // Nothing moves from 502 us to 1 ms.
  const NetworkOutcome back = run_network_config(star_config(
      flow +
      R"(, "events": [{"at": "1 ms", "link": "h0->switch", "share": 1}, {"at": "502 us", "link": "h0->switch", "share": 0}])"));
  CHECK(back.status() == "ok");
  CHECK(end_of_flow(back, 0) == Approx(1'500'000'000).margin(5));
  // An event after the end changes nothing, nor does it prolong the run.
  const NetworkOutcome late = run_network_config(
      star_config(flow + R"(, "events": [{"at": "1 h", "link": "h0->switch", "share": 0, "both_ways": true}])"));
  CHECK(late.number("simulated_s") == Approx(1.002e-3));
}

TEST_CASE("messages that never find a path stall the run: a result that names them", "[golden]") {
  const NetworkOutcome run = run_network_config(star_config(
      R"("jobs": [{"name": "stuck", "collective": "all_reduce", "bytes": "1 MB"},
                  {"name": "fine", "collective": "broadcast", "bytes": "1 kB", "ranks": "4-7"}],
        "flows": [{"from": "h1", "to": "h2", "bytes": "1 kB"}, {"from": "h0", "to": "h1", "bytes": "10 MB"}],
        "events": [{"at": "100 us", "link": "h0->switch", "share": 0}])"));
  CHECK(run.status() == "stalled");
  CHECK_THAT(run.summary.find("reason")->as_string(), Contains("have no path, and no link comes back"));
  CHECK(run.summary.at("stalled.jobs")->dump() == R"(["stuck"])");
  CHECK(run.summary.at("stalled.flows")->dump() == "[1]");
  CHECK(run.number("flows.unfinished") == 1);
  CHECK(run.number("jobs.unfinished") == 1);
  REQUIRE(run.jobs.size() == 2);
  CHECK(run.jobs.back().at("name") == "stuck");
  CHECK(run.jobs.back().at("finished_s").empty());
  CHECK(run.flows.back().at("finished_s").empty());
}

TEST_CASE("run.until ends a run before everything has arrived", "[golden]") {
  const NetworkOutcome run = run_network_config(
      star_config(R"("jobs": [{"collective": "all_reduce", "bytes": "8 MB", "repeat": 3, "mode": "chunks"}])",
                  R"(, "run": {"until": "20 ms"})"));
  CHECK(run.status() == "ok");
  CHECK(run.number("simulated_s") == Approx(0.02));
  // A repetition: 14 x (1 MB / 1 GB/s + 2 us) = 14.028 ms; the second is under way.
  CHECK(run.number("jobs.repetitions") == 1);
  CHECK(run.number("jobs.unfinished") == 2);
  CHECK_THAT(run.notes.front(), Contains("run.until"));
}

TEST_CASE("repetitions follow each other after the gap", "[golden]") {
  const NetworkOutcome run = run_network_config(star_config(
      R"("jobs": [{"name": "j", "collective": "all_gather", "bytes": "8 MB", "start": "1 ms", "repeat": 3, "gap": "5 ms"}])"));
  REQUIRE(run.jobs.size() == 3);
  // 7 x (1 MB / 1 GB/s + 2 us) = 7.014 ms each.
  for (int i = 0; i < 3; ++i) {
    const std::int64_t start = 1'000'000'000 + i * 12'014'000'000LL;
    CHECK(picoseconds(run.jobs[static_cast<std::size_t>(i)].at("started_s")) == Approx(start).margin(100));
    CHECK(end_of(run, "j", i) == Approx(start + 7'014'000'000LL).margin(100));
  }
  CHECK(run.number("makespan_s") == Approx(31.042e-3));
}

TEST_CASE("ranks that enter late delay the others", "[prop]") {
  const auto config = [](int seed) {
    return star_config(
        R"("jobs": [{"name": "j", "collective": "all_reduce", "bytes": "80 kB", "repeat": 20, "stragglers": {"spread": "1 ms"}}])",
        R"(, "run": {"seed": )" + std::to_string(seed) + "}");
  };
  const NetworkOutcome run = run_network_config(config(1));
  const sim::Node& job = *run.summary.at("jobs.by_name.j");
  // In time it takes 14 x (10 us + 2 us) = 168 us; the last of eight is 8/9 ms late in the mean.
  CHECK(job.at("time_s.mean")->as_number() == Approx(1e-3 * 8 / 9 + 168e-6).epsilon(0.1));
  CHECK(job.at("time_s.max")->as_number() <= 1.168001e-3);
  CHECK(run_network_config(config(1)).summary.dump() == run.summary.dump());
  CHECK(run_network_config(config(2)).summary.dump() != run.summary.dump());
  const NetworkOutcome many = run_network_config(
      star_config(R"("jobs": [{"collective": "all_reduce", "bytes": "80 kB", "stragglers": {"spread": "1 ms"}}])",
                  R"(, "run": {"replications": 10})"));
  CHECK(many.number("replications.count") == 10);
  CHECK(many.summary.find("replications")->find("makespan_s")->find("half_width")->as_number() > 0);
}

TEST_CASE("whoever lists jobs and flows in another order gets the same times", "[prop]") {
  const std::string a =
      R"({"name": "a", "collective": "all_reduce", "algorithm": {"policy": "double_tree"}, "bytes": "1 MB",
                            "ranks": "0-15:2", "stragglers": {"spread": "50 us"}, "repeat": 2})";
  const std::string b = R"({"name": "b", "collective": "all_to_all", "bytes": "1 MB", "ranks": [1, 3, "h5", 9, 11]})";
  const std::string f = R"({"from": "h0", "to": "h9", "bytes": "300 kB"})";
  const std::string g = R"({"from": "h0", "to": "h9", "bytes": "200 kB"})";
  const std::string events = R"("events": [{"at": "400 us", "link": "edge0.0->agg0.0", "share": 0, "both_ways": true},
                                           {"at": "600 us", "link": "edge0.1->agg0.1", "share": 0.3}])";
  const NetworkOutcome one =
      run_network_config(tree_config("\"jobs\": [" + a + "," + b + "], \"flows\": [" + f + "," + g + "]," + events));
  const NetworkOutcome two =
      run_network_config(tree_config("\"jobs\": [" + b + "," + a + "], \"flows\": [" + g + "," + f + "]," + events));
  for (const char* job : {"a", "b"}) CHECK(end_of(one, job) == end_of(two, job));
  CHECK(end_of(one, "a", 1) == end_of(two, "a", 1));
  CHECK(end_of_flow(one, 0) == end_of_flow(two, 1));
  CHECK(end_of_flow(one, 1) == end_of_flow(two, 0));
  CHECK(one.links == two.links);
  CHECK(one.number("rerouted") > 0);
}

TEST_CASE("every collective by every algorithm that does it", "[unit]") {
  for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"}) {
    for (const char* algorithm : {"ring", "double_tree", "halving_doubling", "direct", "hierarchical", "in_network"}) {
      hw::CollectiveKind parsed = hw::CollectiveKind::all_reduce;
      for (const auto& [name, value] : sim::names_of<hw::CollectiveKind>)
        if (name == kind) parsed = value;
      if (!hw::supports(algorithm, parsed)) continue;
      CAPTURE(kind, algorithm);
      const NetworkOutcome run = run_network_config(tree_config(
          std::string(R"("jobs": [{"collective": ")") + kind + R"(", "algorithm": {"policy": ")" + algorithm +
          R"("}, "bytes": "1 MB", "root": 1, "mode": "chunks", "root_switch": "core0.0", "ranks": ")" +
          (parsed == hw::CollectiveKind::send_recv ? "0,5" : "0-7") + R"("}])"));
      CHECK(run.status() == "ok");
      REQUIRE(run.jobs.size() == 1);
      CHECK(run.jobs[0].at("mode") == "chunks");
      CHECK(std::stod(run.jobs[0].at("algbw_bytes_per_s")) > 0);
    }
  }
}

TEST_CASE("machines of hierarchical come from the network or from the config", "[golden]") {
  // Two ranks below each edge switch: reduce-scatter in the pair (1 step of 500 kB), a ring of 2(4-1) steps of 125 kB
  // between them, and back; the paths have 2, 4 or 6 links of 1 us. So at least 500 + 750 + 500 us.
  const std::string job =
      R"("jobs": [{"collective": "all_reduce", "algorithm": {"policy": "hierarchical"}, "bytes": "1 MB",
                              "ranks": "0-7", "mode": "chunks")";
  const double derived = run_network_config(tree_config(job + "}]")).number("makespan_s");
  CHECK(derived > 1750e-6);
  CHECK(derived == run_network_config(tree_config(job + R"(, "ranks_per_machine": 2}])")).number("makespan_s"));
  CHECK(derived != run_network_config(tree_config(job + R"(, "ranks_per_machine": 4}])")).number("makespan_s"));
}

TEST_CASE("a job alone takes its closed form, which is what its messages take", "[prop]") {
  const auto times = [](const std::string& job, std::string& mode) {
    const std::string start = R"("jobs": [{"collective": )" + job;
    const NetworkOutcome closed = run_network_config(star_config(start + "}]"));
    const NetworkOutcome chunks = run_network_config(star_config(start + R"(, "mode": "chunks"}])"));
    mode = closed.jobs.at(0).at("mode");
    // A tick a step, at some hundred steps at most.
    CHECK(within_ticks(chunks.number("makespan_s"), closed.number("makespan_s") * 1e12, 300));
    return closed.summary.find("links")->is_null();
  };
  std::string mode;
  for (const char* job :
       {R"("all_reduce", "bytes": "8 MB")", R"("all_reduce", "bytes": "8 MB", "repeat": 3, "gap": "1 ms")",
        R"("all_gather", "bytes": "8 MB", "algorithm": {"policy": "halving_doubling"})",
        R"("all_to_all", "bytes": "8 MB")",
        R"("broadcast", "bytes": "8 MB", "algorithm": {"policy": "ring", "ring": {"chunks": 8}})",
        R"("all_reduce", "bytes": "8 MB", "algorithm": {"policy": "in_network"}, "root_switch": "switch")"}) {
    CAPTURE(job);
    CHECK(times(job, mode));
    CHECK(mode == "closed");
  }
  // Not where the formula does not hold, or another job could be met.
  CHECK_FALSE(times(R"("all_reduce", "bytes": "8 MB", "window": 2)", mode));
  CHECK(mode == "chunks");
  const NetworkOutcome two = run_network_config(star_config(
      R"("jobs": [{"collective": "all_reduce", "bytes": "8 MB", "ranks": "0-3"}, {"collective": "all_reduce", "bytes": "8 MB", "ranks": "4-7"}])"));
  for (const Row& row : two.jobs) CHECK(row.at("mode") == "chunks");
}

TEST_CASE("bus bandwidth is what nccl-tests says it is", "[unit]") {
  using hw::CollectiveKind;
  CHECK(network::bus_factor(CollectiveKind::all_reduce, 8) == 1.75);
  CHECK(network::bus_factor(CollectiveKind::all_gather, 8) == 0.875);
  CHECK(network::bus_factor(CollectiveKind::reduce_scatter, 4) == 0.75);
  CHECK(network::bus_factor(CollectiveKind::all_to_all, 4) == 0.75);
  CHECK(network::bus_factor(CollectiveKind::broadcast, 8) == 1);
  CHECK(network::bus_factor(CollectiveKind::send_recv, 2) == 1);
}

TEST_CASE("nothing to do takes no time and breaks nothing", "[unit]") {
  const NetworkOutcome run = run_network_config(star_config(
      R"("jobs": [{"name": "one", "collective": "all_reduce", "bytes": "1 MB", "ranks": "3", "repeat": 2},
                  {"name": "none", "collective": "all_gather", "bytes": "0 B"}],
        "flows": [{"from": "h0", "to": "h1", "bytes": "0 B"}])"));
  CHECK(run.status() == "ok");
  CHECK(run.jobs[0].at("algbw_bytes_per_s").empty());
  CHECK(run.number("makespan_s") == Approx(2e-6));  // the flow's latency
}

TEST_CASE("the timeline shows repetitions, ranks and the busiest links, up to its caps", "[unit]") {
  const Scratch scratch;
  const auto slices = [&](const std::string& timeline, const std::string& folder, std::size_t& counters) {
    fs::create_directory(scratch / folder);
    const std::string json =
        star_config(R"("jobs": [{"collective": "all_reduce", "bytes": "1 MB", "repeat": 3, "mode": "chunks"}])",
                    R"(, "run": {"timeline": )" + timeline + "}");
    (void)read_experiment(test_systems(), sim::parse_json(json, "c.json"))->run({scratch / folder, {}});
    const orrery::timeline::Trace trace = orrery::test::decode_timeline(scratch / (folder + "/timeline.pftrace"));
    std::size_t begins = 0;
    counters = 0;
    for (const auto& packet : trace.packet()) {
      if (!packet.has_track_event()) continue;
      if (packet.track_event().type() == orrery::timeline::TrackEvent::SLICE_BEGIN) ++begins;
      if (packet.track_event().type() == orrery::timeline::TrackEvent::COUNTER) ++counters;
    }
    return begins;
  };
  std::size_t counters = 0;
  CHECK(slices("{}", "all", counters) == 3 * (1 + 8));
  CHECK(counters >= 8 * 2);
  CHECK(slices(R"({"ranks": 2, "links": 0})", "few", counters) == 3 * (1 + 2));
  CHECK(counters == 0);
  CHECK(slices(R"({"slices": 4})", "capped", counters) == 4);
  // A repetition: 14 x (125 us + 2 us) = 1.778 ms; the window holds the end of the second and the start of the third.
  CHECK(slices(R"({"begin": "3.5 ms", "end": "3.6 ms"})", "late", counters) == 2 * (1 + 8));
}

}  // namespace test_network_system
