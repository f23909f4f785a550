// What is wrong with a network config is said where it stands, all at once; and the command around a run.
#include <catch2/catch.hpp>

#include "tests/experiments/network_support.hpp"
#include "tests/systems.hpp"

namespace test_network_faults {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

std::string faults_of(const std::string& json) {
  try {
    (void)read_experiment(test_systems(), sim::parse_json(json, "c.json"));
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "none";
}

/// Faults of a job on the star of eight hosts, with kind and bytes given.
std::string job(const std::string& extra, const std::string& kind = "all_reduce") {
  return faults_of(star_config(R"("jobs": [{"collective": ")" + kind + R"(", "bytes": "1 MB", )" + extra + "}]"));
}

std::string traffic(const std::string& inside) {
  return faults_of(star_config(R"("traffic": {"flows": 3, "bytes": "1 kB", )" + inside + "}"));
}

constexpr const char* kJob = R"("jobs": [{"collective": "all_reduce", "bytes": "1 MB"}])";

}  // namespace

TEST_CASE("faults of the machine", "[unit]") {
  CHECK(faults_of(R"({"system": "network", "workload": {"flows": []}})") ==
        "c.json:/machine/network: missing: expected an object\n"
        "c.json:/workload: missing: expected 'jobs', 'flows' or 'traffic'");
  const auto network = [](const std::string& inside) {
    return faults_of(R"({"system": "network", "machine": {"network": {)" + inside + R"(}}, "workload": {)" + kJob +
                     "}}");
  };
  CHECK(network(R"("topology": null)") == "c.json:/machine/network/topology: expected an object, got null");
  CHECK_THAT(network(""), Contains("c.json:/machine/network/topology: missing"));
  CHECK_THAT(
      network(R"("topology": {"policy": "fat_three"})"),
      Contains(
          "c.json:/machine/network/topology/policy: unknown topology policy 'fat_three' (did you mean 'fat_tree'?)"));
  const std::string odd =
      network(R"("topology": {"policy": "fat_tree", "fat_tree": {"k": 3, "bandwidth": "1 GB/s", "latency": "1 us"}})");
  CHECK(odd == "c.json:/machine/network/topology/fat_tree/k: expected an even number of ports, got 3");
  // Links and adapters of the catalog in place of figures.
  const auto part = [&](const std::string& inside) {
    return network(R"("topology": {"policy": "star", "star": {"hosts": 4, )" + inside + "}}");
  };
  CHECK(part(R"("part": "catalog:ib-ndr-4x", "hops": 2)") == "none");
  CHECK(part(R"("part": "catalog:nvlink4", "latency": "1 us")") == "none");
  CHECK_THAT(part(R"("part": "catalog:ib-xyz")"),
             Contains("c.json:/machine/network/topology/star/part: expected a part of the catalog or a file"));
  CHECK_THAT(part(R"("part": "catalog:a40")"),
             Contains("c.json:/machine/network/topology/star/part: expected a part of kind link or nic"));
  CHECK_THAT(part(R"("part": "catalog:nvlink4", "hops": 0)"),
             Contains("c.json:/machine/network/topology/star/hops: expected a count >= 1"));
  const std::string star =
      R"("topology": {"policy": "star", "star": {"hosts": 4, "bandwidth": "1 GB/s", "latency": "1 us"}}, )";
  CHECK(network(star + R"("routing": {"policy": "dimension"})") ==
        "c.json:/machine/network/routing/policy: unknown routing policy 'dimension' (did you mean "
        "'dimension_order'?)");
  CHECK_THAT(network(star + R"("routing": {"policy": "rail"})"),
             Contains("c.json:/machine/network/routing/policy: rail needs a rail_optimised topology"));
  CHECK_THAT(network(star + R"("message_overhead": "-1 us")"),
             Contains("c.json:/machine/network/message_overhead: expected >= 0 s, got \"-1 us\""));
  CHECK_THAT(
      network(R"("topology": {"policy": "star", "star": {"hosts": 4, "bandwidth": "1e20 B/s", "latency": "1 us"}})"),
      Contains("c.json:/machine/network/topology: expected links that carry less in a tick"));
}

TEST_CASE("faults of jobs", "[unit]") {
  CHECK(job(R"("ranks": "0-8")") ==
        "c.json:/workload/jobs/0/ranks: expected a host, got number 8 (the network has hosts 0 to 7)");
  CHECK(job(R"("ranks": [0, "h11"])") == "c.json:/workload/jobs/0/ranks: unknown host 'h11' (did you mean 'h1'?)");
  CHECK(job(R"("ranks": "0,switch")") == "c.json:/workload/jobs/0/ranks: expected a host, got switch 'switch'");
  CHECK(job(R"("ranks": "5-2")") ==
        "c.json:/workload/jobs/0/ranks: expected a range such as \"0-7\" or \"0-62:2\", got \"5-2\"");
  CHECK(job(R"("ranks": "0-4:0")") ==
        "c.json:/workload/jobs/0/ranks: expected a range such as \"0-7\" or \"0-62:2\", got \"0-4:0\"");
  CHECK(job(R"("ranks": "0-4,h3")") == "c.json:/workload/jobs/0/ranks: host 'h3' stands twice");
  CHECK(job(R"("ranks": [])") == "c.json:/workload/jobs/0/ranks: expected at least one host, got none");
  CHECK(
      job(R"("ranks": 7)") ==
      "c.json:/workload/jobs/0/ranks: expected a string with commas, or an array of strings and whole numbers, got 7");
  CHECK(job(R"("ranks": [1, 2.5])") ==
        "c.json:/workload/jobs/0/ranks: expected a string with commas, or an array of "
        "strings and whole numbers, got an array");
  CHECK(job(R"("root": 8)", "broadcast") == "c.json:/workload/jobs/0/root: expected a rank, 0 to 7, got 8");
  CHECK(job(R"("root": 0)", "send_recv") == "c.json:/workload/jobs/0/ranks: expected 2 ranks for send_recv, got 8");
  CHECK(job(R"("algorithm": {"policy": "ring"})", "all_to_all") ==
        "c.json:/workload/jobs/0/algorithm/policy: expected an algorithm that does all_to_all, got 'ring' (known: "
        "direct, hierarchical)");
  CHECK(job(R"("algorithm": {"policy": "in_network"})") ==
        "c.json:/workload/jobs/0/root_switch: missing: in_network needs the switch at the root of its tree (known: "
        "switch)");
  CHECK(job(R"("root_switch": "h3", "algorithm": {"policy": "in_network"})") ==
        "c.json:/workload/jobs/0/root_switch: expected a switch, got 'h3' (known: switch)");
  CHECK_THAT(
      job(R"("algorithm": {"policy": "ring", "ring": {"chunk_bytes": "1 B", "channels": 4096}}, "bytes": "1 PB")"),
      Contains("twice"));  // a key given twice is the document's fault
  CHECK_THAT(job(R"("algorithm": 3)"), Contains("c.json:/workload/jobs/0/algorithm: expected an object, got 3"));
  CHECK_THAT(job(R"("window": 0)"), Contains("c.json:/workload/jobs/0/window: expected 1 to 1000000000, got 0"));
  CHECK_THAT(job(R"("mode": "close")"), Contains("c.json:/workload/jobs/0/mode: expected one of auto, chunks, closed, "
                                                 "got \"close\" (did you mean 'closed'?)"));
  CHECK(job(R"("mode": "closed", "stragglers": {"spread": "1 us"})") ==
        "c.json:/workload/jobs/0/mode: expected a job alone in the network, without flows, traffic, events and "
        "stragglers "
        "(use \"auto\" or \"chunks\")");
  CHECK(
      job(R"("mode": "closed", "window": 2)") ==
      "c.json:/workload/jobs/0/mode: expected a job with a closed form: its messages meet, its window is not 1, or its "
      "algorithm has none (use \"auto\" or \"chunks\")");
  CHECK(faults_of(star_config(R"("jobs": [{"name": "x", "collective": "all_reduce", "bytes": "1 B"},
                                          {"name": "x", "collective": "all_reduce", "bytes": "1 B"}])")) ==
        "c.json:/workload/jobs/1/name: expected another name, 'x' is that of job 0");
  CHECK_THAT(
      faults_of(R"({"system": "network", "machine": {"network": {"topology": {"policy": "ring", "ring": {"hosts": 8,
      "bandwidth": "1 GB/s", "latency": "1 us"}}}}, "workload": {"jobs": [{"collective": "all_reduce", "bytes": "1 B",
      "algorithm": {"policy": "hierarchical"}}]}})"),
      Contains("c.json:/workload/jobs/0/ranks_per_machine: missing: a ring topology does not tell which ranks are "
               "one machine"));
}

TEST_CASE("faults of flows, traffic and events", "[unit]") {
  CHECK(faults_of(star_config(
            R"("flows": [{"from": "h0", "to": "h0", "bytes": "1 B"}, {"from": "a", "to": "h1", "bytes": "1 B"}])")) ==
        "c.json:/workload/flows/0/to: expected another host than 'from'\n"
        "c.json:/workload/flows/1/from: unknown host 'a' (known: h0, h1, h2, h3, h4, h5, h6, h7)");
  CHECK(traffic(R"("pattern": "uniform")") == "c.json:/workload/traffic: missing: expected 'window' or 'rate'");
  CHECK(traffic(R"("pattern": "uniform", "window": 2, "rate": "1 1/s")") ==
        "c.json:/workload/traffic/rate: expected 'window' or 'rate', got both");
  CHECK(traffic(R"("pattern": "uniform", "window": 2, "bytes_max": "1 B")") ==
        "c.json:/workload/traffic/bytes_max: expected 1000 bytes or more, got 1");
  CHECK(traffic(R"("pattern": "uniform", "window": 2, "hosts": "3")") ==
        "c.json:/workload/traffic/hosts: expected two hosts or more, got 1");
  CHECK(traffic(R"("pattern": "uniform", "window": 2, "target": "h3")") ==
        "c.json:/workload/traffic/target: expected no target but with the pattern incast");
  CHECK(traffic(R"("pattern": "incast", "window": 2, "hosts": "0-2", "target": "h3")") ==
        "c.json:/workload/traffic/target: expected one of the hosts that take part, got 'h3'");
  CHECK_THAT(traffic(R"("pattern": "in_cast", "window": 2)"), Contains("did you mean 'incast'?"));
  const auto event = [](const std::string& link) {
    return faults_of(
        star_config(std::string(kJob) + R"(, "events": [{"at": "1 us", "link": ")" + link + R"(", "share": 0}])"));
  };
  CHECK_THAT(event("h0"), Contains("c.json:/workload/events/0/link: expected a link such as \"a->b\""));
  CHECK_THAT(event("h0->h1"), Contains("c.json:/workload/events/0/link: no link leads from 'h0' to 'h1'"));
  CHECK_THAT(event("h0->swich"), Contains("unknown node 'swich' (did you mean 'switch'?)"));
  CHECK_THAT(
      faults_of(star_config(std::string(kJob) + R"(, "events": [{"at": "1 us", "link": "h0->switch", "share": 2}])")),
      Contains("c.json:/workload/events/0/share: expected 0 to 1, got 2"));
}

TEST_CASE("all faults of a network config at once", "[cli]") {
  const Scratch scratch;
  scratch.write("c.json",
                star_config(R"("jobs": [{"collective": "all_reduce", "bytes": "1 MB", "ranks": "0-99"},
    {"collective": "all_to_all", "bytes": "1 MB", "algorithm": {"policy": "direct", "direct": {"windw": 3}}}],
    "flows": [{"from": "h9", "to": "h1", "bytes": 3}])",
                            R"(, "rum": {}, "run": {"tick": "1.5 ps", "timeline": {"begin": "2 s", "end": "1 s"}})"));
  const CommandResult result = command(scratch, "run c.json --out r");
  CHECK(result.exit_code == 2);
  for (const char* place :
       {"c.json:/rum: unknown key 'rum'", "c.json:/run/tick: expected a whole number of ps",
        "c.json:/run/timeline/end: expected more than begin", "c.json:/workload/jobs/0/ranks: expected a host",
        "c.json:/workload/jobs/1/algorithm/direct/windw: unknown key 'windw' (did you mean 'window'?)",
        "c.json:/workload/flows/0/bytes: expected a quantity in B", "c.json:/workload/flows/0/from: unknown host 'h9'"})
    CHECK_THAT(result.err, Contains(place));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 7);  // one line a fault
  CHECK_FALSE(fs::exists(scratch / "r"));
}

TEST_CASE("figures past the reach of the clock are faults, not garbage", "[unit]") {
  const auto run = [](const std::string& json) -> std::string {
    try {
      (void)read_experiment(test_systems(), sim::parse_json(json, "c.json"))->run({});
    } catch (const sim::ConfigError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK_THAT(run(star_config(R"("flows": [{"from": "h0", "to": "h1", "bytes": "1e17 B"}])")),
             Contains("set run.tick to"));
  CHECK_THAT(run(star_config(R"("flows": [{"from": "h0", "to": "h1", "bytes": "1 B", "start": "1000 d"}])")),
             Contains("set run.tick to"));
}

TEST_CASE("more messages at once than can be held are a fault before they are sent", "[unit]") {
  const auto faults = [](const std::string& mode, int window) {
    return faults_of(
        R"({"system": "network", "machine": {"network": {"topology": {"policy": "star", "star": {"hosts": 5000,
      "bandwidth": "1 GB/s", "latency": "1 us"}}}}, "workload": {"jobs": [{"collective": "all_to_all", "bytes": "1 GB",
      "algorithm": {"policy": "direct", "direct": {"window": )" +
        std::to_string(window) + R"(}}, "mode": ")" + mode + "\"}]}}");
  };
  CHECK(faults("chunks", 0) ==
        "c.json:/workload/jobs/0/algorithm: expected at most 16777215 messages at once, got "
        "24995000 (set direct.window, the messages that a rank has under way)");
  CHECK(faults("chunks", 4) == "none");
}

TEST_CASE("the command around a network run", "[cli]") {
  const Scratch scratch;
  scratch.write(
      "c.json",
      star_config(R"("jobs": [{"name": "dp", "collective": "all_reduce", "bytes": "8 MB", "mode": "chunks"}])"));
  const CommandResult run = command(scratch, "run c.json --out r");
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  // 14 x (1 MB / 1 GB/s + 2 us)
  CHECK_THAT(run.out, Contains("simulated    14.03 ms, makespan 14.03 ms"));
  CHECK_THAT(run.out, Contains("dp               all_reduce      ring                   8      1   14.03 ms"));
  for (const char* file : {"manifest.json", "summary.json", "jobs.csv", "flows.csv", "links.csv", "timeline.pftrace"})
    CHECK(fs::file_size(scratch / "r" / file) > 0);
  scratch.write("again.json", sim::read_json(scratch / "r/manifest.json").find("config")->dump(2));
  CHECK(command(scratch, "validate again.json").exit_code == 0);
  CHECK_THAT(command(scratch, "run c.json --out r").err, Contains("reused"));

  const CommandResult dry = command(scratch, "run c.json --dry-run --set workload.jobs.0.window=3");
  CHECK(sim::parse_json(dry.out, "stdout").at("workload.jobs")->items().front().find("window")->as_integer() == 3);
  CHECK_THAT(dry.err, Contains("hosts            8\nswitches         1\ncables           8\nbisection        4 GB/s"));

  CHECK_THAT(command(scratch, "list topology").out, Contains("fat_tree") && Contains("dragonfly"));
  CHECK_THAT(command(scratch, "list routing").out, Contains("valiant"));
  CHECK_THAT(command(scratch, "list collective").out, Contains("halving_doubling"));
  CHECK_THAT(command(scratch, "list system").out, Contains("network") && Contains("serving"));
  CHECK_THAT(command(scratch, "describe fat_tree").out,
             Contains("oversubscription: number (ratio)") || Contains("oversubscription"));
  CHECK_THAT(command(scratch, "describe ring").out, Contains("ring (topology)") && Contains("ring (collective)"));
  CHECK_THAT(command(scratch, "schema").out, Contains("\"const\": \"network\"") && Contains("\"const\": \"serving\""));

  const CommandResult stalled = command(
      scratch, R"(run c.json --out s --set 'workload.events=[{"at": "1 ms", "link": "switch->h3", "share": 0}]')");
  CHECK(stalled.exit_code == 0);
  CHECK_THAT(stalled.out, Contains("status       stalled: ") && Contains("job dp"));
}

TEST_CASE("a network from a file is an input of the run", "[cli]") {
  const Scratch scratch;
  fs::create_directory(scratch / "nets");
  const auto write_net = [&](const char* bandwidth) {
    scratch.write("nets/pair.json", std::string(R"({"kind": "network", "version": 1, "name": "pair",
      "nodes": [{"name": "left", "kind": "host"}, {"name": "right", "kind": "host"}],
      "cables": [{"from": "left", "to": "right", "latency": "1 us", "bandwidth": ")") +
                                        bandwidth + "\"}]}");
  };
  write_net("1 GB/s");
  const fs::path config = scratch.write("c.json", R"({"system": "network", "machine": {"network": {"topology":
    {"policy": "graph", "graph": {"file": "nets/pair.json"}}}}, "workload": {"flows": [{"from": "left", "to": "right", "bytes": "1 MB"}]}})");
  const auto experiment = read_experiment(test_systems(), config);
  REQUIRE(experiment->inputs().size() == 1);
  CHECK(experiment->run({}).summary.find("makespan_s")->as_number() == Approx(1.001e-3));
  write_net("2 GB/s");
  CHECK(read_experiment(test_systems(), config)->run({}).summary.find("makespan_s")->as_number() == Approx(0.501e-3));
  CHECK_THAT(experiment->identity().dump(), Catch::Contains("an input"));
}

}  // namespace test_network_faults
