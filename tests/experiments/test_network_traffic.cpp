// Generated traffic: who sends to whom, closed and open loops, and bytes that add up.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "tests/experiments/network_support.hpp"
#include "tests/systems.hpp"

namespace test_network_traffic {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

NetworkOutcome traffic(const std::string& inside, const std::string& extra = "") {
  return run_network_config(star_config(R"("traffic": {)" + inside + "}", extra));
}

/// How often each pair of hosts stands in flows.csv.
std::map<std::pair<std::string, std::string>, int> pairs(const NetworkOutcome& run) {
  std::map<std::pair<std::string, std::string>, int> all;
  for (const Row& row : run.flows) ++all[{row.at("from"), row.at("to")}];
  return all;
}

/// Most flows under way at a time.
int most_at_once(const NetworkOutcome& run) {
  std::map<std::int64_t, int> change;  // an end before a start at the same time
  for (const Row& row : run.flows) {
    ++change[2 * picoseconds(row.at("started_s")) + 1];
    --change[2 * picoseconds(row.at("finished_s"))];
  }
  int now = 0, most = 0;
  for (const auto& [time, by] : change) most = std::max(most, now += by);
  return most;
}

}  // namespace

TEST_CASE("patterns of traffic", "[unit]") {
  const std::string rest = R"(, "bytes": "1 kB", "window": 4)";
  const auto ring = pairs(traffic(R"("pattern": "neighbour", "flows": 16)" + rest));
  CHECK(ring.size() == 8);
  CHECK(ring.at({"h7", "h0"}) == 2);

  const auto all = pairs(traffic(R"("pattern": "all_to_all", "flows": 112)" + rest));
  CHECK(all.size() == 56);
  for (const auto& [ends, count] : all) CHECK(count == 2);

  const auto incast = pairs(traffic(R"("pattern": "incast", "target": "h3", "flows": 14)" + rest));
  CHECK(incast.size() == 7);
  for (const auto& [ends, count] : incast) {
    CHECK(ends.second == "h3");
    CHECK(count == 2);
  }

  std::set<std::string> to;
  const auto permutation = pairs(traffic(R"("pattern": "permutation", "flows": 24)" + rest));
  CHECK(permutation.size() == 8);
  for (const auto& [ends, count] : permutation) {
    CHECK(ends.first != ends.second);
    CHECK(count == 3);
    to.insert(ends.second);
  }
  CHECK(to.size() == 8);

  // 56 pairs, 100 each in the mean with a deviation of 10.
  const auto uniform = pairs(traffic(R"("pattern": "uniform", "flows": 5600)" + rest));
  CHECK(uniform.size() == 56);
  for (const auto& [ends, count] : uniform) CHECK(std::abs(count - 100) < 50);

  const auto some = pairs(traffic(R"("pattern": "all_to_all", "flows": 6, "hosts": "1,h4,6")" + rest));
  CHECK(some.size() == 6);
  CHECK(some.contains({"h6", "h1"}));
}

TEST_CASE("a closed loop keeps its window, an open one its rate", "[prop]") {
  const NetworkOutcome closed =
      traffic(R"("pattern": "uniform", "flows": 500, "window": 6, "bytes": "10 kB", "start": "1 ms")");
  CHECK(most_at_once(closed) == 6);
  CHECK(closed.number("flows.completed") == 500);

  // 2,000 messages at 10,000 a second last 0.2 s, give or take 2 %; at 100 B each they do not disturb each other.
  const NetworkOutcome open = traffic(R"("pattern": "uniform", "flows": 2000, "rate": "1e4 1/s", "bytes": "100 B")");
  CHECK(open.number("makespan_s") == Approx(0.2).epsilon(0.08));
  CHECK(open.number("flows.slowdown.p50") == Approx(1).epsilon(1e-5));
}

TEST_CASE("incast is as slow as the one link that all need", "[golden]") {
  // 7 x 1 MB into 1 GB/s, at once: 2 us + 7 ms, against 2 us + 1 ms alone.
  const NetworkOutcome run = traffic(R"("pattern": "incast", "flows": 7, "window": 7, "bytes": "1 MB")");
  CHECK(run.number("makespan_s") == Approx(7.002e-3));
  CHECK(run.number("flows.slowdown.mean") == Approx(7002.0 / 1002.0).epsilon(1e-5));
  CHECK(run.summary.at("links.busiest")->as_string() == "switch->h0");
}

TEST_CASE("what the links carried is what was sent, times the links of its way", "[prop]") {
  const NetworkOutcome run = run_network_config(tree_config(
      R"("traffic": {"pattern": "uniform", "flows": 800, "window": 40, "bytes": "1 kB", "bytes_max": "300 kB"},
         "flows": [{"from": "h0", "to": "h15", "bytes": "12345 B"}])"));
  std::int64_t sent = 0, carried = 0;
  std::set<std::string> sizes, hops;
  for (const Row& row : run.flows) {
    sent += std::stoll(row.at("bytes")) * std::stoll(row.at("hops"));
    sizes.insert(row.at("bytes"));
    hops.insert(row.at("hops"));
    CHECK(std::stod(row.at("slowdown")) > 0.9999);
  }
  for (const Row& row : run.links) carried += std::stoll(row.at("carried_bytes"));
  CHECK(carried == sent);
  CHECK(run.number("links.carried_bytes") == static_cast<double>(sent));
  CHECK(sizes.size() > 700);
  CHECK(hops == std::set<std::string>{"2", "4", "6"});
  CHECK(run.links.size() == 96);  // 48 cables, both ways
}

TEST_CASE("a run gives the same bytes again, another seed does not", "[cli]") {
  const Scratch scratch;
  scratch.write(
      "c.json",
      tree_config(
          R"("traffic": {"pattern": "uniform", "flows": 300, "rate": "1e5 1/s", "bytes": "1 kB", "bytes_max": "90 kB"},
         "jobs": [{"collective": "all_reduce", "bytes": "1 MB", "stragglers": {"spread": "10 us"}}],
         "events": [{"at": "1 ms", "link": "edge0.0->agg0.0", "share": 0}])"));
  for (const char* line : {"run c.json --out a", "run c.json --out b", "run c.json --out c --seed 2"}) {
    const CommandResult result = command(scratch, line);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
  }
  for (const char* file : {"summary.json", "jobs.csv", "flows.csv", "links.csv", "timeline.pftrace"}) {
    CAPTURE(file);
    CHECK(slurp(scratch / "a" / file) == slurp(scratch / "b" / file));
    CHECK(slurp(scratch / "a" / file) != slurp(scratch / "c" / file));
  }
  // What a run measures does not depend on whether it writes files.
  CHECK(read_experiment(test_systems(), scratch / "c.json")->run({}).summary.dump(2) + "\n" ==
        slurp(scratch / "a/summary.json"));
}

}  // namespace test_network_traffic
