// The function system: a config in, objectives out, every fault of a point.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "sim/base/document.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test_function_system {
namespace {

sim::Node summary_of(const std::string& workload) {
  const auto experiment = read_experiment(
      test_systems(), sim::parse_json(R"({"system": "function", "workload": )" + workload + "}", "toy.json"));
  return experiment->run({}).summary;
}

std::string faults_of(const std::string& workload) {
  try {
    (void)summary_of(workload);
  } catch (const sim::ConfigError& error) {
    std::string text;
    for (const sim::Fault& fault : error.faults()) text += fault.text() + "\n";
    return text;
  }
  return "none";
}

TEST_CASE("a function at a point gives objectives, limits and a breakdown", "[search][function]") {
  // 4 + 16, 16 + 9; (1 - 5)^2 + 4 - 25 < 0; (1 - 8)^2 + (2 + 3)^2 > 7.7.
  CHECK(summary_of(R"({"function": "bnh", "point": {"x": 1, "y": 2}})").dump() ==
        R"({"status":"ok","f1":20,"f2":25,"limits":{"g1":-5,"g2":-66.3}})");
  CHECK(summary_of(R"({"function": "mixed", "point": {"kind": "c", "order": 64, "n": 24, "x": 0.3, "y": 0.8}})")
            .find("f1")
            ->as_number() == 0);
  const sim::Node accelerator = summary_of(
      R"({"function": "bottleneck", "point": {"lanes": 64, "buffer": 16, "channels": 8, "links": 32, "banks": 4}})");
  CHECK(accelerator.at("breakdown.compute")->as_number() == 0.125);  // 8 / 64
  CHECK(
      summary_of(R"({"function": "sphere", "dimensions": 2, "point": {"x1": 1, "x2": 1.5}})").find("f1")->as_number() ==
      1);
}

TEST_CASE("what does not count may be absent, what counts may not", "[search][function]") {
  CHECK(summary_of(R"({"function": "conditional", "point": {"policy": "fcfs", "batch": 8}})").find("f1")->as_number() ==
        3);
  CHECK(faults_of(R"({"function": "conditional", "point": {"policy": "chunked", "batch": 8, "mode": "plain"}})") ==
        "toy.json:/workload/point/chunk: expected a value of 'chunk'\n");
}

TEST_CASE("faults of functions and points", "[search][function]") {
  CHECK(
      faults_of(R"({"function": "zdt7", "point": {}})").find("toy.json:/workload/function: unknown function 'zdt7'") ==
      0);
  CHECK(faults_of(R"({"function": "bnh", "point": {"x": 9, "y": 2}})") ==
        "toy.json:/workload/point/x: expected a number from 0 to 5, got 9\n");
  CHECK(faults_of(R"({"function": "mixed", "point": {"kind": "e", "order": 64, "n": 2, "x": 0, "y": 0}})") ==
        "toy.json:/workload/point/kind: expected one of a, b, c, d, got \"e\"\n");
  CHECK(faults_of(R"({"function": "bnh", "point": {"x": 1, "y": 2, "z": 3}})").find("unknown parameter 'z'") !=
        std::string::npos);
}

}  // namespace
}  // namespace orrery::experiments::test_function_system
