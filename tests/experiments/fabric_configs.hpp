// Configs of a service whose devices are hosts of a network.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/serving/run_config.hpp"

namespace orrery::experiments::test {

/// gpu0, gpu2 … on one switch, gpu1, gpu3 … on the other, cables of 50 GB/s; between the switches one of `trunk`.
inline std::string two_switches(int hosts, const std::string& trunk, const std::string& latency = "1 us") {
  std::string nodes = R"({"name": "left", "kind": "switch"}, {"name": "right", "kind": "switch"})";
  std::string cables =
      fmt::format(R"({{"from": "left", "to": "right", "bandwidth": "{}", "latency": "{}"}})", trunk, latency);
  for (int i = 0; i < hosts; ++i) {
    nodes = fmt::format(R"({{"name": "gpu{}", "kind": "host"}}, )", hosts - 1 - i) + nodes;
    cables += fmt::format(R"(, {{"from": "gpu{}", "to": "{}", "bandwidth": "50 GB/s", "latency": "{}"}})", i,
                          i % 2 == 0 ? "left" : "right", latency);
  }
  return R"("topology": {"policy": "graph", "graph": {"network": {"nodes": [)" + nodes + R"(], "cables": [)" + cables +
         "]}}}";
}

/// Llama-2-13B on pairs of A100; requests of 64 tokens and 64 more, together or spread over some seconds.
inline std::string config(int devices, const std::string& network, const std::string& more = "", int requests = 8,
                          const std::string& rate = "1e9 1/s") {
  return fmt::format(R"({{"system": "serving",
    "machine": {{"devices": [{{"part": "a100-sxm4-80gb", "count": {}}}]{}}},
    "model": {{"config": "catalog:llama-2-13b"}},
    "workload": {{"generator": {{"requests": {}, "arrivals": {{"policy": "fixed", "fixed": {{"rate": "{}"}}}},
      "lengths": {{"policy": "fixed", "fixed": {{"prompt": 64, "output": 64}}}}}}}},
    "policies": {{"batching": {{"policy": "vllm_v0"}}}}{}}})",
                     devices, network.empty() ? "" : R"(, "network": {)" + network + "}", requests, rate, more);
}
inline std::string replicas(int count) {
  return fmt::format(R"(, "cluster": {{"replicas": [{{"count": {}, "tensor_parallel": 2}}]}})", count);
}

}  // namespace orrery::experiments::test
