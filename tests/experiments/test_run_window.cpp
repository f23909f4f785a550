// Ends of a run, the window that counts, and a cache of so many blocks.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/system.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_run_window {

using namespace orrery;
using namespace orrery::experiments;

namespace {

sim::Node config(const std::string& extra) {
  // A request every second, each over in less than one.
  return sim::parse_json(
      R"({"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]},
    "model": {"config": "catalog:llama-2-7b"}, "slo": {"ttft": "1 s"},
    "workload": {"generator": {"requests": 50, "arrivals": {"policy": "fixed", "fixed": {"rate": "1 1/s"}},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 100, "output": 20}}}})" +
          extra + "}",
      "window");
}
sim::Node run(const std::string& extra) {
  return read_experiment(test_systems(), config(extra))->run({}).summary;
}
double number(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  REQUIRE(value != nullptr);
  return value->as_number();
}

}  // namespace

TEST_CASE("A run ends with so many requests done, or with the time, whichever is first", "[unit]") {
  const sim::Node ten = run(R"(, "run": {"until_requests": 10})");
  CHECK(number(ten, "requests.completed") == 10);
  CHECK(number(ten, "requests.arrived") == 10);
  CHECK(number(ten, "requests.unfinished") == 0);
  const sim::Node early = run(R"(, "run": {"until_requests": 10, "until": "5.5 s"})");
  CHECK(number(early, "simulated_s") == Approx(5.5));
  CHECK(number(early, "requests.completed") == number(run(R"(, "run": {"until": "5.5 s"})"), "requests.completed"));
  // More than there are: the end of the work is the end, also before a time far away.
  const sim::Node all = run(R"(, "run": {"until_requests": 1000, "until": "1 h"})");
  CHECK(number(all, "requests.completed") == 50);
  CHECK(number(all, "simulated_s") == number(run(""), "simulated_s"));
}

TEST_CASE("Stepping ends at the same request", "[prop]") {
  sim::Node leap = run(R"(, "run": {"until_requests": 7})");
  sim::Node step = run(R"(, "run": {"until_requests": 7, "leap": false})");
  leap.erase("events");
  step.erase("events");
  CHECK(leap.dump() == step.dump());
}

TEST_CASE("Only requests that arrive inside the window count in latencies and goodput", "[unit]") {
  // Arrivals at 1 s, 2 s, … (or from 0): between 10 s and 20 s there are ten, of which all attain the target.
  const sim::Node window = run(R"(, "run": {"warmup": "10 s", "measure_until": "20 s"})");
  CHECK(number(window, "requests.completed") == 50);
  CHECK(number(window, "slo.attainment") == 1);
  CHECK(number(window, "slo.goodput_per_s") == Approx(1));  // ten in ten seconds
}

TEST_CASE("A cache of so many blocks is what it says, and what does not fit it is a result", "[unit]") {
  const sim::Node summary = run(R"(, "replica": {"kv_blocks": 300})");
  // 300 blocks of 16 tokens, 2 x 32 layers x 4096 x 2 bytes a token.
  CHECK(number(summary, "memory_bytes.kv_capacity") == 300.0 * 16 * 2 * 32 * 4096 * 2);
  const sim::Node small = run(R"(, "replica": {"kv_blocks": 3})");
  CHECK(small.find("status")->as_string() == "infeasible");
  CHECK(small.find("reason")->as_string().find("kv_blocks") != std::string::npos);
  // The config is what is short, not memory.
  for (const char* bytes : {"needed_bytes", "available_bytes"}) {
    REQUIRE(small.find(bytes) != nullptr);
    CHECK(small.find(bytes)->dump() == sim::Node{}.dump());
  }
  sim::Faults faults;
  const ServingConfig read =
      read_serving_config(config(R"(, "replica": {"kv_blocks": 3})"), test_systems().registries(), faults);
  faults.throw_if_any();
  const ServingSetup setup(read);
  REQUIRE(setup.infeasible());
  CHECK(setup.infeasible()->needed_bytes == 0);
  CHECK(setup.infeasible()->available_bytes == 0);
  // 256 blocks are the 4,096 tokens of the longest request: as many do, one fewer does not.
  CHECK(run(R"(, "replica": {"kv_blocks": 256})").find("status")->as_string() == "ok");
  CHECK(run(R"(, "replica": {"kv_blocks": 255})").find("status")->as_string() == "infeasible");
}

TEST_CASE("a model that does not fit says how much it needs, and of how much", "[unit]") {
  // 13.5 GB of weights and more for a request of 4,096 tokens, 2 x 32 layers x 4096 x 2 bytes each: of a tenth of the
  // 80 GB, not enough.
  const sim::Node none = run(R"(, "replica": {"memory_margin": 0.9})");
  CHECK(none.find("status")->as_string() == "infeasible");
  CHECK(number(none, "needed_bytes") == Approx(2.0 * 6'738'415'616 + 4096.0 * 2 * 32 * 4096 * 2).epsilon(1e-3));
  CHECK(number(none, "available_bytes") < 0.11 * 80 * 1.1e9);
  CHECK(number(none, "available_bytes") > 0.09 * 80e9);
}

}  // namespace test_run_window
