// Leaps are exact under every host-time policy, and under every setting of what overlaps.
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "tests/experiments/leaps.hpp"

namespace test_host_leaps {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

std::string config(const std::string& host, const std::string& batching, const std::string& extra = "") {
  return R"({"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
    "model": {"config": "catalog:llama-3.1-8b"}, "slo": {"ttft": "1 s", "tbt": "20 ms"},
    "replica": {"kv_blocks": 700, "max_context": 4096},
    "workload": {"generator": {"requests": 60, "limits": {"total_max": 4000},
      "arrivals": {"policy": "gamma", "gamma": {"rate": "6 1/s", "cv": 2}},
      "lengths": {"policy": "log_normal"}}},
    "policies": {"batching": {"policy": ")" +
         batching + R"("}})" + extra + R"(, "host": )" + host + "}";
}

/// All combinations of true and false of boolean parameters, as members of an object.
std::vector<std::string> combinations(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (std::size_t bits = 0; bits < std::size_t{1} << names.size(); ++bits) {
    std::string members;
    for (std::size_t i = 0; i < names.size(); ++i)
      members += (i > 0 ? ", \"" : "\"") + names[i] + ((bits >> i & 1) != 0 ? "\": true" : "\": false");
    all.push_back(members);
  }
  return all;
}

}  // namespace

TEST_CASE("every host-time policy leaps exactly, whatever overlaps", "[prop]") {
  HostRegistry registry("host");
  register_host_times(registry);
  int runs = 0;
  for (const sim::ComponentInfo& component : registry.components()) {
    // The choices that a policy has: its parameters of yes and no (what is hidden, whether it decides ahead, graphs).
    std::vector<std::string> choices;
    for (const sim::FieldInfo& field : component.fields)
      if (field.type == "boolean") choices.push_back(field.name);
    for (const std::string& members : combinations(choices)) {
      // Stages long enough to matter: an iteration takes some 10 ms on the device.
      const std::string times =
          R"("schedule": "1 ms", "schedule_sequence": "20 us", "prepare": "3 ms", "prepare_token": "1 us",
             "launch_layer": "250 us", "graph_launch": "4 ms", "graph_tokens": 64, "sample": "2 ms",
             "detokenise_sequence": "30 us")";
      const std::string host = R"({"policy": ")" + component.name + R"(", ")" + component.name + R"(": {)" + times +
                               (members.empty() ? "" : ", ") + members + "}}";
      CAPTURE(host);
      const char* batching = runs++ % 2 == 0 ? "vllm_v0" : "sarathi";
      conserved(same_with_leaps(config(host, batching)));
    }
    const std::string plain = R"({"policy": ")" + component.name + R"("})";  // with its own times
    CAPTURE(plain);
    conserved(same_with_leaps(config(plain, "vllm_v1")));
  }
  CHECK(runs >= 20);
}

TEST_CASE("a host leaps exactly on a coarse tick, and beside the replica's own overheads", "[prop]") {
  const std::string own = R"({"policy": "overlapped", "overlapped": {"schedule": "3 ms", "launch_layer": "300 us"}})";
  conserved(same_with_leaps(config(own, "vllm_v1"), R"(, "tick": "1 us")"));
  const std::string serial = R"({"policy": "serial", "serial": {"detokenise_sequence": "20 us"}})";
  std::string with = config(serial, "vllm_v0");
  const std::string before = R"("max_context": 4096)";
  with.replace(with.find(before), before.size(),
               before + R"(, "iteration_overhead": "2 ms", "sequence_overhead": "100 us")");
  conserved(same_with_leaps(with));
}

}  // namespace test_host_leaps
