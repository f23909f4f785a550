// Replicas, jobs and failing links on one network and one clock.
#include <fmt/format.h>

#include "hw/network/transfer_path.hpp"
#include "tests/experiments/fabric_configs.hpp"
#include "tests/experiments/leaps.hpp"

namespace test_fabric {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// Bytes that a rank of Llama-2-13B sends in an iteration of decodes: 81 all-reduces (the embedding's, two a layer) of
/// n rows of 5,120 values of 2 bytes among two ranks, each of which sends half of it twice, and half of 32,000 logits.
double bytes_of_decodes(double n) {
  return 81 * n * 5120 * 2 + n * 32000 / 2 * 2;
}

}  // namespace

TEST_CASE("a ring's share of a network is what its hops get when all send at once", "[unit]") {
  const hw::RoutingRegistry::Choice routing = [] {
    sim::Faults faults;
    return test_systems().registries()->get<hw::RoutingRegistry>().prepare("shortest", nullptr, {}, faults);
  }();
  const auto topology = [](const std::string& text) {
    sim::Faults faults;
    auto made = hw::make_topology(*sim::parse_json("{" + text + "}", "test").find("topology"), faults);
    faults.throw_if_any();
    return made;
  };
  const std::vector<hw::NodeIndex> pair{0, 1}, four{0, 1, 2, 3}, same_switch{0, 2}, lone{0};
  const auto narrow = topology(two_switches(4, "20 GB/s"));
  const auto ring = [&](const hw::Topology& on, const std::vector<hw::NodeIndex>& hosts, double overhead = 0) {
    hw::Transfer transfer{.messages = {}, .label = 7};
    hw::add_ring(hosts, transfer);
    return hw::transfer_paths(on, routing, {.message_overhead_s = overhead}, std::vector{transfer}).front();
  };
  CHECK(ring(*narrow, pair).bandwidth == Approx(20e9).epsilon(1e-6));
  CHECK(ring(*narrow, pair).latency_s == Approx(3e-6));
  CHECK(ring(*narrow, pair, 2e-6).latency_s == Approx(5e-6));
  CHECK(ring(*narrow, pair, 2e-6).bandwidth == Approx(20e9).epsilon(1e-6));
  CHECK(ring(*narrow, pair).links.size() == 6);  // up, over and down, both ways
  CHECK(ring(*narrow, same_switch).bandwidth == Approx(50e9).epsilon(1e-6));
  CHECK(ring(*narrow, same_switch).links.size() == 4);
  // 0 -> 1 and 2 -> 3 share the trunk in one direction, 1 -> 2 and 3 -> 0 in the other.
  CHECK(ring(*narrow, four).bandwidth == Approx(10e9).epsilon(1e-6));
  // A hop that is far is not one that is narrow: each hop by itself.
  const auto far = topology(R"("topology": {"policy": "graph", "graph": {"network": {
    "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}, {"name": "c", "kind": "host"}],
    "cables": [{"from": "a", "to": "b", "bandwidth": "2 GB/s", "latency": "1 us"},
               {"from": "b", "to": "c", "bandwidth": "100 GB/s", "latency": "50 ms"},
               {"from": "c", "to": "a", "bandwidth": "100 GB/s", "latency": "1 us"}]}}})");
  CHECK(ring(*far, {0, 1, 2}).bandwidth == Approx(2e9).epsilon(1e-6));
  CHECK(ring(*far, {0, 1, 2}).latency_s == Approx(0.05));
  CHECK(ring(*far, {0, 1, 2}).mean_latency_s == Approx((0.05 + 2e-6) / 3));  // data go round: every hop in turn
  // A cable that is slow beside others takes no longer to measure than the clock reaches.
  const auto slow = topology(two_switches(2, "100 B/s"));
  CHECK(ring(*slow, pair).bandwidth == Approx(100).epsilon(0.02));
  CHECK(ring(*narrow, lone).bandwidth == 0);
  CHECK(ring(*narrow, lone).links.empty());
}

TEST_CASE("a replica that is alone in the machine's network is priced in closed form", "[unit]") {
  // A star of the part's own links and no latency is what the part has by itself.
  const std::string star =
      R"("topology": {"policy": "star", "star": {"hosts": 4, "bandwidth": "300 GB/s", "latency": "0 s"}})";
  const sim::Node own = summary_of(config(4, "", replicas(2), 2));
  const sim::Node on_star = summary_of(config(4, star, replicas(2), 2));
  CHECK(number(on_star, "network.waited_s") == 0);
  CHECK(on_star.at("network.jobs") == nullptr);
  CHECK(on_star.find("network")->find("links")->is_null());  // a formula says how long, not over which links
  CHECK(on_star.at("tpot_s.mean")->as_number() == Approx(own.at("tpot_s.mean")->as_number()).epsilon(1e-6));
  CHECK(number(on_star, "events") == number(own, "events"));  // it leaps
  // The latency of a hop is a step's: 81 all-reduces of two steps and a gather of one.
  const std::string slow =
      R"("topology": {"policy": "star", "star": {"hosts": 4, "bandwidth": "300 GB/s", "latency": "10 us"}})";
  CHECK(number(summary_of(config(4, slow, replicas(2), 2)), "tpot_s.mean") - number(own, "tpot_s.mean") ==
        Approx(163 * 20e-6).epsilon(1e-3));
}

TEST_CASE("replicas of a group are priced by the slowest of their rings, whichever comes first", "[unit]") {
  // Two pairs on a switch each: one with cables of 1 us, one of 200 us.
  const auto tbt = [](bool far_first) {
    const auto cable = [&](int host, bool far) {
      return fmt::format(R"({{"from": "gpu{}", "to": "{}", "bandwidth": "50 GB/s", "latency": "{}"}})", host,
                         host < 2 ? "left" : "right", far ? "200 us" : "1 us");
    };
    std::string cables = cable(0, far_first);
    for (int host = 1; host < 4; ++host) cables += ", " + cable(host, (host < 2) == far_first);
    const std::string network = R"("topology": {"policy": "graph", "graph": {"network": {"nodes": [
      {"name": "gpu0", "kind": "host"}, {"name": "gpu1", "kind": "host"}, {"name": "gpu2", "kind": "host"},
      {"name": "gpu3", "kind": "host"}, {"name": "left", "kind": "switch"}, {"name": "right", "kind": "switch"}],
      "cables": [{"from": "left", "to": "right", "bandwidth": "50 GB/s", "latency": "1 us"}, )" +
                                cables + "]}}}";
    return number(summary_of(config(4, network, replicas(2), 2)), "tbt_s.mean");
  };
  CHECK(tbt(true) == Approx(tbt(false)).epsilon(1e-9));
}

TEST_CASE("two replicas that share a cable have half of it each", "[unit]") {
  // One request to each at once, in step. Alone a rank's bytes go over 2 GB/s, beside the other over 1 GB/s.
  const auto tpot = [&](int count) {
    const sim::Node summary = summary_of(config(4, two_switches(4, "2 GB/s", "0 s"), replicas(count), count));
    CHECK(number(summary, "requests.completed") == count);
    return number(summary, "tpot_s.mean");
  };
  CHECK(tpot(2) - tpot(1) == Approx(bytes_of_decodes(1) / 1e9 - bytes_of_decodes(1) / 2e9).epsilon(1e-4));
}

TEST_CASE("a degraded cable is seen in the time between tokens while it lasts", "[unit]") {
  // Half of 2 GB/s from 0.2 to 0.4 s: tokens take half of a millisecond's bytes longer then, and as long as before
  // after.
  const auto gaps = [&](const std::string& events) {
    std::string text = config(2, two_switches(2, "2 GB/s", "0 s"), replicas(1), 1);
    return with(text, R"("network_workload": {"events": [)" + events + "]}");
  };
  const std::string untouched = R"({"at": "1000 s", "link": "left->right", "share": 1})";
  const sim::Node before = summary_of(gaps(untouched));
  const double usual = number(before, "tbt_s.p50");
  CHECK(number(before, "tbt_s.max") == Approx(usual).epsilon(1e-2));
  const sim::Node degraded = summary_of(gaps(R"({"at": "0.2 s", "link": "left->right", "share": 0.5, "both_ways": true},
                                                {"at": "0.4 s", "link": "left->right", "share": 1, "both_ways": true})"));
  const double longer = bytes_of_decodes(1) / 1e9 - bytes_of_decodes(1) / 2e9;
  CHECK(number(degraded, "tbt_s.max") == Approx(usual + longer).epsilon(1e-2));
  CHECK(number(degraded, "tbt_s.p50") == Approx(usual).epsilon(1e-2));
  CHECK(number(degraded, "network.waited_s") > 10 * longer);
  CHECK(number(degraded, "network.waited_s") < 20 * longer);
  // Down for 0.3 s: one token waits for it.
  const sim::Node down = summary_of(gaps(R"({"at": "0.2 s", "link": "left->right", "share": 0},
                                            {"at": "0.5 s", "link": "left->right", "share": 1})"));
  CHECK(number(down, "tbt_s.max") > 0.29);
  CHECK(number(down, "tbt_s.max") < 0.3 + 2 * usual);
  CHECK(number(down, "tbt_s.p50") == Approx(usual).epsilon(1e-2));
  CHECK(number(down, "requests.completed") == 1);
  // For ever: the run ends, and says that nobody was served.
  const sim::Node lost = summary_of(gaps(R"({"at": "0.2 s", "link": "left->right", "share": 0})"));
  CHECK(lost.find("status")->as_string() == "unfinished");
  // Neither do looks of a scaler, which come for as long as somebody is there, keep it going.
  std::string scaled = with(config(2, two_switches(2, "2 GB/s", "0 s"), replicas(1), 1),
                            R"("network_workload": {"events": [{"at": "0.2 s", "link": "left->right", "share": 0}]})");
  scaled.insert(scaled.find(R"("batching")"), R"("scaling": {"policy": "keep_alive"}, )");
  CHECK(summary_of(scaled).find("status")->as_string() == "unfinished");
}

TEST_CASE("a service and a job beside it slow each other down, and the run ends with the service", "[unit]") {
  const std::string job = R"("network_workload": {"jobs": [{"name": "training", "collective": "all_reduce",
    "bytes": "100 MB", "ranks": "2,3", "repeat": 1000000, "gap": "1 ms"}]})";
  const std::string service = config(4, two_switches(4, "10 GB/s"), replicas(1), 16, "20 1/s");
  const sim::Node alone = summary_of(service), beside = summary_of(with(service, job));
  CHECK(number(beside, "requests.completed") == 16);
  CHECK(number(beside, "tbt_s.mean") > number(alone, "tbt_s.mean"));
  CHECK(number(beside, "network.waited_s") > 0);
  CHECK(number(beside, "network.jobs.by_name.training.repetitions") > 10);
  CHECK(number(beside, "network.jobs.by_name.training.unfinished") > 0);
  CHECK(number(beside, "simulated_s") < 1.2 * number(alone, "simulated_s"));
  // Alone a repetition takes 100 MB over 10 GB/s.
  CHECK(number(beside, "network.jobs.by_name.training.time_s.mean") > 0.01);
  CHECK(number(beside, "network.jobs.by_name.training.time_s.mean") < 0.02);
  // Control: a job on the other side of the switches, over cables that no replica uses, changes nothing.
  const std::string apart = R"("network_workload": {"jobs": [{"name": "training", "collective": "all_reduce",
    "bytes": "100 MB", "ranks": "2,4", "repeat": 1000000, "gap": "1 ms"}]})";
  const sim::Node elsewhere = summary_of(with(config(6, two_switches(6, "10 GB/s"), replicas(1), 16, "20 1/s"), apart));
  CHECK(number(elsewhere, "tbt_s.mean") == Approx(number(alone, "tbt_s.mean")).epsilon(1e-9));
  CHECK(number(elsewhere, "network.waited_s") == Approx(0).margin(1e-9));
}

TEST_CASE("KV caches go over the machine's network, a share from each device", "[unit]") {
  // Two devices prefill, two decode. 64 tokens x 40 layers x 2 x 5,120 x 2 bytes, half over either rank's way; both
  // ways cross the trunk of 4 GB/s or, where 0 sends to 2 and 1 to 3, stay below their switches, at 50 GB/s.
  const double bytes = 64.0 * 40 * 2 * 5120 * 2;
  const std::string apart = R"(, "cluster": {"replicas": [{"name": "p", "role": "prefill", "tensor_parallel": 2},
    {"name": "d", "role": "decode", "tensor_parallel": 2}]})";
  const sim::Node summary = summary_of(config(4, two_switches(4, "4 GB/s", "0 s"), apart, 1));
  CHECK(number(summary, "cluster.kv_transfers.bytes") == bytes);
  CHECK(number(summary, "cluster.kv_transfers.mean_s") == Approx(bytes / 2 / 50e9).epsilon(1e-6));
  // One device decodes: both halves end there, 1's over the trunk.
  const std::string one = R"(, "cluster": {"replicas": [{"name": "p", "role": "prefill", "tensor_parallel": 2},
    {"name": "d", "role": "decode", "tensor_parallel": 1}]})";
  const sim::Node narrow = summary_of(config(3, two_switches(3, "4 GB/s", "0 s"), one, 1));
  CHECK(number(narrow, "cluster.kv_transfers.mean_s") == Approx(bytes / 2 / 4e9).epsilon(1e-6));
}

TEST_CASE("what shares a network leaps as it steps", "[prop]") {
  const std::string spread = "30 1/s";
  const std::string job = R"(, "network_workload": {
    "jobs": [{"collective": "all_reduce", "bytes": "20 MB", "repeat": 1000000, "gap": "3 ms", "stragglers": {"spread": "1 ms"}}],
    "traffic": {"pattern": "uniform", "flows": 100, "bytes": "1 MB", "rate": "200 1/s"},
    "events": [{"at": "0.3 s", "link": "left->right", "share": 0.3}, {"at": "0.6 s", "link": "left->right", "share": 1}]})";
  for (const std::string& cluster :
       {replicas(2),
        std::string(R"(, "cluster": {"replicas": [{"tensor_parallel": 2}, {"tensor_parallel": 1, "count": 2}],
          "failures": {"at": [{"replica": 0, "time": "0.35 s", "duration": "0.2 s"}]}})"),
        std::string(R"(, "cluster": {"replicas": [{"name": "p", "role": "prefill", "tensor_parallel": 2},
          {"name": "d", "role": "decode", "tensor_parallel": 2}],
          "failures": {"at": [{"replica": 1, "time": "0.4 s", "duration": "0.1 s"}]}})")}) {
    for (const std::string& beside : {std::string(), job}) {
      CAPTURE(cluster, beside);
      const sim::Node summary = same_with_leaps(config(4, two_switches(4, "3 GB/s"), cluster + beside, 24, spread));
      CHECK(number(summary, "requests.completed") == 24);
    }
  }
}

TEST_CASE("what a network does not carry is said, and so are faults", "[unit]") {
  const auto reason = [&](const std::string& text) {
    sim::Faults faults;
    const ServingConfig read = read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
    faults.throw_if_any();
    const ServingSetup setup(read);
    return setup.infeasible() ? setup.infeasible()->reason : "";
  };
  const std::string network = two_switches(4, "2 GB/s");
  CHECK(reason(config(4, network, replicas(2))) == "");
  CHECK(reason(config(4, network, R"(, "cluster": {"replicas": [{"tensor_parallel": 2, "pipeline_parallel": 2}]})")) ==
        "");
  std::string experts = config(4, network, R"(, "cluster": {"replicas": [{"tensor_parallel": 1, "data_parallel": 4,
    "lock_step": false}]})");
  experts.replace(experts.find("llama-2-13b"), 11, "mixtral-8x7b");
  CHECK(reason(experts) == "over machine.network ranks of data parallelism meet in lock step (lock_step)");
  // 257 x 256 messages at once are too many to look at; it is said before they are.
  std::string wide = config(257, R"("topology": {"policy": "star", "star": {"hosts": 257, "bandwidth": "1 GB/s",
    "latency": "0 s"}})",
                            R"(, "cluster": {"replicas": [{"tensor_parallel": 1, "data_parallel": 257,
    "expert_parallel": 257}]})");
  wide.replace(wide.find("llama-2-13b"), 11, "deepseek-v3");
  CHECK(reason(wide) ==
        "over machine.network at most 256 ranks exchange tokens (expert parallelism), a replica has 257");

  CHECK(faults_of(config(4, two_switches(3, "2 GB/s"), replicas(2))) ==
        "my.json:/machine/network: expected a host for each of the 4 devices, got 3\n");
  CHECK(faults_of(config(4, "", R"(, "network_workload": {"jobs": []})")) ==
        "my.json:/network_workload: expected a machine.network that it goes over\n");
  CHECK(faults_of(config(4, network, R"(, "cluster": {"transfer": {"bandwidth": "1 GB/s"}})")) ==
        "my.json:/cluster/transfer: expected none beside machine.network, over which KV goes\n");
  CHECK(faults_of(config(4, network, R"(, "migration": {"bandwidth": "1 GB/s"})")) ==
        "my.json:/migration/bandwidth: expected none beside machine.network, over which running requests migrate\n");
  CHECK(
      faults_of(config(4, network, R"(, "network_workload": {"jobs": [{"collective": "all_reduce", "bytes": "1 MB",
          "ranks": "0,1", "mode": "closed"}]})")) ==
      "my.json:/network_workload/jobs/0/mode: expected a job alone in the network, without flows, traffic, events and "
      "stragglers (use \"auto\" or \"chunks\")\n");
  CHECK(faults_of(config(4, network, R"(, "network_workload": {"events": [{"at": "1 s", "link": "left->rihgt",
          "share": 0}]})"))
            .starts_with("my.json:/network_workload/events/0/link: "));
}

}  // namespace test_fabric
