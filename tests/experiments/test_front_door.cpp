// What a request takes before the scheduler sees it (`host.request`).
#include <fmt/format.h>

#include "tests/experiments/leaps.hpp"
#include "tests/serving/run_config.hpp"

namespace test_front_door {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

std::string config(const std::string& request, const std::string& arrivals, int requests, const std::string& more = "",
                   int replicas = 1) {
  return fmt::format(R"({{"system": "serving",
    "machine": {{"devices": [{{"part": "a100-sxm4-80gb", "count": {}}}]}}, "model": {{"config": "catalog:llama-2-7b"}},
    "workload": {{"generator": {{"requests": {}, "arrivals": {},
      "lengths": {{"policy": "fixed", "fixed": {{"prompt": 64, "output": 16}}}}}}}},
    "host": {{"policy": "serial", "serial": {{"request": "{}"}}}},
    "policies": {{"batching": {{"policy": "vllm_v0"}}}},
    "cluster": {{"replicas": [{{"tensor_parallel": 1, "count": {}}}]}}{}}})",
                     replicas, requests, arrivals, request, replicas, more);
}
const std::string kAtOnce = R"({"policy": "at_once"})";
const std::string kPoisson = R"({"policy": "poisson", "poisson": {"rate": "20 /s"}})";

}  // namespace

TEST_CASE("a request's own time is added to its TTFT, and to nothing else", "[unit]") {
  const sim::Node without = summary_of(config("0 s", kAtOnce, 4)), with = summary_of(config("50 ms", kAtOnce, 4));
  // Four that arrive at once leave the door at once, and are one batch as before.
  CHECK(number(with, "ttft_s.mean") - number(without, "ttft_s.mean") == Approx(0.05).epsilon(1e-9));
  CHECK(number(with, "e2e_s.max") - number(without, "e2e_s.max") == Approx(0.05).epsilon(1e-9));
  CHECK(number(with, "tpot_s.mean") == Approx(number(without, "tpot_s.mean")).epsilon(1e-12));
  CHECK(number(with, "requests.completed") == 4);
}

TEST_CASE("requests take the door side by side: traffic is the same, later", "[unit]") {
  const sim::Node without = summary_of(config("0 s", kPoisson, 60)), with = summary_of(config("2 s", kPoisson, 60));
  CHECK(number(with, "ttft_s.mean") - number(without, "ttft_s.mean") == Approx(2).epsilon(1e-9));
  CHECK(number(with, "ttft_s.p99") - number(without, "ttft_s.p99") == Approx(2).epsilon(1e-9));
  CHECK(number(with, "tbt_s.mean") == Approx(number(without, "tbt_s.mean")).epsilon(1e-9));
}

TEST_CASE("a run that is cut short counts whom it had on the way", "[unit]") {
  const sim::Node cut = summary_of(config("10 s", kPoisson, 60, R"(, "run": {"until": "5 s"})"));
  CHECK(number(cut, "requests.arrived") == 60);
  CHECK(number(cut, "requests.unfinished") == 60);
  CHECK(number(cut, "requests.completed") == 0);
}

TEST_CASE("leaps stay exact behind a door, with several replicas too", "[unit]") {
  checked_run(config("7 ms", kPoisson, 80), 80);
  checked_run(config("7 ms", kPoisson, 80, "", 2), 80);
}

}  // namespace test_front_door
