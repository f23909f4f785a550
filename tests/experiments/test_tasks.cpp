// Replays of execution traces: hand-made ones tick by tick, closed forms, controls, and what does not fit together.
#include <catch2/catch.hpp>
#include <filesystem>

#include "experiments/systems/tasks/run.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_tasks {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

/// Traces as JSON, a text a rank, and a config over them; the ring's links are 1 GB/s after 1 us.
class Traces {
 public:
  explicit Traces(const std::vector<std::string>& ranks) {
    for (std::size_t i = 0; i < ranks.size(); ++i)
      scratch_.write("t." + std::to_string(i) + ".json", R"({"workload_graph": [)" + ranks[i] + "]}");
  }
  sim::Node config(const std::string& machine = "", const std::string& workload = "", int hosts = 3,
                   const std::string& link = R"("bandwidth": "1 GB/s", "latency": "1 us")") const {
    return sim::read_json(scratch_.write(
        "config.json",
        R"({"system": "tasks", "machine": {"network": {"topology": {"policy": "ring", "ring": {"hosts": )" +
            std::to_string(hosts) + ", " + link + "}}}" + machine + R"(}, "workload": {"traces": "t.{rank}.json")" +
            workload + "}}"));
  }
  sim::Node run(const sim::Node& root) const { return read_experiment(test_systems(), root)->run({}).summary; }
  std::string fault(const sim::Node& root) const {
    try {
      (void)run(root);
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return "none";
  }

 private:
  Scratch scratch_;
};

/// A node of type 4 (compute), 5 (send), 6 (receive), 7 (collective).
std::string compute(int id, int us, const std::string& after = "") {
  return R"({"Id": )" + std::to_string(id) + R"(, "Name": "compute", "NodeType": 4, "runtime": )" + std::to_string(us) +
         R"(, "data_deps": [)" + after + "]}";
}
std::string send(int id, int from, int to, int bytes, const std::string& after = "", int tag = 0) {
  return R"({"Id": )" + std::to_string(id) + R"(, "Name": "send", "NodeType": 5, "comm_src": )" + std::to_string(from) +
         R"(, "comm_dst": )" + std::to_string(to) + R"(, "comm_size": )" + std::to_string(bytes) + R"(, "comm_tag": )" +
         std::to_string(tag) + R"(, "data_deps": [)" + after + "]}";
}
std::string receive(int id, int from, int to, const std::string& after = "", int tag = 0) {
  return R"({"Id": )" + std::to_string(id) + R"(, "Name": "receive", "NodeType": 6, "comm_src": )" +
         std::to_string(from) + R"(, "comm_dst": )" + std::to_string(to) + R"(, "comm_tag": )" + std::to_string(tag) +
         R"(, "data_deps": [)" + after + "]}";
}
std::string collective(int id, int type, int bytes, const std::string& after = "") {
  return R"({"Id": )" + std::to_string(id) + R"(, "Name": "collective", "NodeType": 7, "comm_type": )" +
         std::to_string(type) + R"(, "comm_size": )" + std::to_string(bytes) + R"(, "data_deps": [)" + after + "]}";
}

double number(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  REQUIRE(value != nullptr);
  return value->as_number();
}

double of_rank(const sim::Node& summary, std::size_t rank, std::string_view figure) {
  return number(summary.find("ranks")->items()[rank], figure);
}

}  // namespace

TEST_CASE("Three ranks hand on a message, tick by tick", "[golden]") {
  // Rank 0 computes 10 us and sends 5,000 B: 1 us and 5 us. Rank 1, busy with 4 us of its own, gets it at 16 us,
  // computes 20 us and sends 2,000 B: 1 + 2 us. Rank 2 gets it at 39 us and computes 1 us: 40 us.
  const Traces traces(
      {compute(0, 10) + "," + send(1, 0, 1, 5000, "0"),
       compute(0, 4) + "," + receive(1, 0, 1) + "," + compute(2, 20, "1") + "," + send(3, 1, 2, 2000, "2"),
       receive(7, 1, 2) + "," + compute(8, 1, "7")});
  const sim::Node summary = traces.run(traces.config());
  CHECK(number(summary, "makespan_s") == Approx(40e-6).epsilon(1e-12));
  CHECK(number(summary, "critical_path.compute_s") == Approx(31e-6).epsilon(1e-12));
  CHECK(number(summary, "critical_path.communication_s") == Approx(9e-6).epsilon(1e-12));
  CHECK(number(summary, "critical_path.waiting_s") == 0);
  CHECK(of_rank(summary, 0, "busy_s") == Approx(10e-6));
  CHECK(of_rank(summary, 0, "exposed_s") == Approx(6e-6));  // nothing runs on rank 0 while it sends
  CHECK(of_rank(summary, 1, "busy_s") == Approx(24e-6));
  CHECK(of_rank(summary, 1, "communication_s") == Approx(9e-6));
  CHECK(of_rank(summary, 1, "exposed_s") == Approx(9e-6));
  CHECK(of_rank(summary, 2, "finish_s") == Approx(40e-6));
  CHECK(number(summary, "carried_bytes") == 7000);
}

TEST_CASE("Communication that work hides is not exposed, and messages share a link", "[golden]") {
  // Two messages of 4,000 B on one link: half of it each, 8 us after 1 us of latency. Rank 0 computes 6 us beside them.
  const Traces traces({send(0, 0, 1, 4000, "", 1) + "," + send(1, 0, 1, 4000, "", 2) + "," + compute(2, 6),
                       receive(0, 0, 1, "", 2) + "," + receive(1, 0, 1, "", 1)});
  const sim::Node summary = traces.run(traces.config());
  CHECK(number(summary, "makespan_s") == Approx(9e-6).epsilon(1e-6));
  CHECK(of_rank(summary, 0, "communication_s") == Approx(9e-6).epsilon(1e-6));
  CHECK(of_rank(summary, 0, "exposed_s") == Approx(3e-6).epsilon(1e-6));
}

TEST_CASE("A ring all-reduce of equal ranks takes its closed form, and late ranks hold it up", "[theory]") {
  // 2 (n - 1) steps of bytes / n over a link: for 4 ranks and 8,000 B six times 2,000 B: 6 (1 + 2) us = 18 us.
  const std::string one = collective(0, 0, 8000);
  const Traces traces({one, one, one, one});
  CHECK(number(traces.run(traces.config("", "", 4)), "makespan_s") == Approx(18e-6).epsilon(1e-9));
  // In two pieces, one after the other: 12 (1 + 1) us.
  CHECK(number(traces.run(traces.config("", R"(, "splits": 2)", 4)), "makespan_s") == Approx(24e-6).epsilon(1e-9));
  // Reduce-scatter is half of it; an all-gather's size is a rank's part: three steps of 8,000 B.
  const std::string scatter = collective(0, 7, 8000);
  const std::string gather = collective(0, 2, 8000);
  const Traces scatters({scatter, scatter, scatter, scatter});
  const Traces gathers({gather, gather, gather, gather});
  CHECK(number(scatters.run(scatters.config("", "", 4)), "makespan_s") == Approx(9e-6).epsilon(1e-9));
  CHECK(number(gathers.run(gathers.config("", "", 4)), "makespan_s") == Approx(27e-6).epsilon(1e-9));
  // The last rank comes 50 us late: nobody is done before it has come and its part has gone round.
  const Traces late({one, one, one, compute(1, 50) + "," + collective(0, 0, 8000, "1")});
  const sim::Node summary = late.run(late.config("", "", 4));
  CHECK(number(summary, "makespan_s") >= 50e-6 + 9e-6);
  CHECK(number(summary, "makespan_s") <= 68e-6 * (1 + 1e-9));
}

TEST_CASE("Controls: one rank sends nothing; links without bounds leave the longest chain", "[theory]") {
  const Traces alone({compute(0, 5) + "," + collective(1, 0, 1'000'000, "0") + "," + compute(2, 7, "1")});
  const sim::Node one = alone.run(alone.config());
  CHECK(number(one, "makespan_s") == Approx(12e-6));
  CHECK(number(one, "carried_bytes") == 0);
  CHECK(number(one, "collectives") == 0);
  const std::string step = compute(0, 5) + "," + collective(1, 0, 8000, "0") + "," + compute(2, 7, "1");
  const Traces many({step, step, compute(0, 9) + "," + collective(1, 0, 8000, "0") + "," + compute(2, 1, "1")});
  const sim::Node fast = many.run(many.config("", "", 3, R"("bandwidth": "1000 TB/s", "latency": "0 s")"));
  CHECK(number(fast, "makespan_s") == Approx(16e-6).epsilon(1e-6));  // 9 us of the last, then 7 us
}

TEST_CASE("A device prices FLOPs and bytes, whichever takes longer", "[unit]") {
  const std::string node =
      R"({"Id": 0, "Name": "product", "NodeType": 4, "runtime": 3, "num_ops": 312000000000, "tensor_size": 1000})";
  const Traces traces({node});
  CHECK(number(traces.run(traces.config()), "makespan_s") == Approx(3e-6));  // as recorded
  // An A100's 312 TFLOP/s in fp16: 1 ms.
  const sim::Node priced = traces.run(traces.config(R"(, "device": {"part": "a100-sxm4-80gb"})"));
  CHECK(number(priced, "makespan_s") == Approx(1e-3).epsilon(1e-3));
}

TEST_CASE("Traces that do not fit together say what and where", "[unit]") {
  const Traces unmatched({compute(0, 1), receive(4, 0, 1)});
  CHECK_THAT(unmatched.fault(unmatched.config()),
             Contains("t.1.json") && Contains("node 4 'receive'") && Contains("send of rank 0 with tag 0"));
  const Traces sizes({collective(0, 0, 100), collective(3, 0, 200)});
  CHECK_THAT(sizes.fault(sizes.config()), Contains("node 3") && Contains("200 bytes") && Contains("rank 0 has 100"));
  const Traces kinds({collective(0, 3, 100), collective(0, 3, 100)});
  CHECK_THAT(kinds.fault(kinds.config()), Contains("type 3") && Contains("all-reduce"));
  const Traces nowhere({send(0, 0, 9, 100)});
  CHECK_THAT(nowhere.fault(nowhere.config()), Contains("expected a rank from 0 to 0 in comm_dst, got 9"));
  const Traces untimed({R"({"Id": 0, "Name": "product", "NodeType": 4, "num_ops": 5})"});
  CHECK_THAT(untimed.fault(untimed.config()), Contains("no runtime") && Contains("machine.device"));
  // Each waits for the other's message before it sends.
  const Traces cross(
      {receive(0, 1, 0) + "," + send(1, 0, 1, 10, "0"), receive(0, 0, 1) + "," + send(1, 1, 0, 10, "0")});
  CHECK_THAT(cross.fault(cross.config()),
             Contains("/workload/traces") && Contains("wait for each other") && Contains("rank 0 node 0 'receive'"));
  // Each enters first what the other enters second, with different groups.
  const std::string a = R"({"Id": 0, "Name": "a", "NodeType": 7, "comm_type": 0, "comm_size": 10)";
  const std::string b = R"({"Id": 1, "Name": "b", "NodeType": 7, "comm_type": 7, "comm_size": 10)";
  const Traces blocked({a + "}," + b + R"(, "data_deps": [0]})", b + "}," + a + R"(, "data_deps": [1]})"});
  CHECK_THAT(blocked.fault(blocked.config()), Contains("block each other") && Contains("rank 0 waits in node 0 'a'"));
}

TEST_CASE("Faults of a tasks config name their place", "[unit]") {
  const Traces traces({compute(0, 1), compute(0, 1)});
  CHECK_THAT(traces.fault(traces.config("", R"(, "ranks": 3)")), Contains("t.2.json"));
  CHECK_THAT(traces.fault(traces.config("", R"(, "ranks": 4)")), Contains("/workload/ranks") && Contains("3 hosts"));
  sim::Node root = traces.config();
  sim::assign(root, "workload.traces", sim::Node::string("t.json"));
  CHECK_THAT(traces.fault(root), Contains("expected a path with {rank}"));
  sim::assign(root, "workload.traces", sim::Node::string("other.{rank}.et"));
  CHECK_THAT(traces.fault(root), Contains("trace of rank 0") && Contains("other.0.et"));
  CHECK_THAT(traces.fault(traces.config("", R"(, "algorithm": {"policy": "rong"})")), Contains("ring"));
  CHECK_THAT(traces.fault(traces.config(R"(, "device": {"part": "a1000"})")), Contains("/machine/device"));
}

TEST_CASE("ASTRA-sim's 8-NPU ring of 1 MB: the network's part of its 117,780 cycles", "[golden]") {
  const std::filesystem::path data =
      std::filesystem::path(ORRERY_SHARED_DIR) / "data/chakra/astra-sim/examples/workload";
  if (!std::filesystem::is_directory(data)) {
    WARN("skipped: no shared data");
    return;
  }
  // Four pieces, one after the other, of 14 steps of 32,768 B at 50 GiB/s (its GB are 2^30) after 500 ns, and 10 ns at
  // the end of each message. What is left of its figure is the reduction at local-mem-bw 50 GB/s, which collectives
  // here do not have: two reads and a write of 32,768 B, 3 * 655.36 ns, in each of the 28 steps that reduce.
  const sim::Node root = sim::parse_json(
      R"({"system": "tasks", "machine": {"network": {"message_overhead": "10 ns", "topology": {"policy": "ring", "ring":
    {"hosts": 8, "bandwidth": "50 GiB/s", "latency": "500 ns"}}}}, "workload": {"splits": 4, "traces": ")" +
          (data / "microbenchmarks/all_reduce/8npus_1MB/all_reduce.{rank}.et").string() + R"("}})",
      "astra");
  const double network_ns = number(read_experiment(test_systems(), root)->run({}).summary, "makespan_s") * 1e9;
  CHECK(network_ns == Approx(56 * (32768 / 53.6870912 + 510)).epsilon(1e-4));
  CHECK(network_ns + 28 * 3 * 655.36 == Approx(117'780).epsilon(2e-4));
}

}  // namespace test_tasks
