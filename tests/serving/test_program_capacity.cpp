// Capacity of programs: the rate that is searched is that at which they start.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "tests/systems.hpp"

namespace test_program_capacity {

using namespace orrery;
using namespace orrery::experiments;

namespace {

std::unique_ptr<Experiment> agents(const std::string& starts, const std::string& target) {
  return read_experiment(
      test_systems(),
      sim::parse_json(
          R"({"system": "capacity", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]},
        "model": {"config": "catalog:llama-2-7b"}, "workload": {"program": {"instances": 40, )" +
              starts + R"(, "does": {"policy": "tool_agent", "tool_agent": {"search": "react"}}}}, )" + target + "}",
          "capacity.json"));
}

const char* const kPoisson = R"("arrivals": {"policy": "poisson", "poisson": {"rate": "2 1/s"}})";

}  // namespace

TEST_CASE("Capacity of programs: starts a second, by their calls' latencies", "[unit]") {
  const auto search = [](const char* most) {
    return agents(kPoisson, std::string(R"("capacity": {"limits": [{"metric": "ttft", "at": "p90", "most": ")") + most +
                                R"("}], "tolerance": 0.1, "replications": 2})")
        ->run({})
        .summary;
  };
  const sim::Node summary = search("1 s");
  REQUIRE(summary.find("status")->as_string() == "ok");
  CHECK(summary.find("nominal_rate_per_s")->as_number() == 2);
  const double capacity = summary.find("capacity_per_s")->as_number();
  CHECK(capacity > 0);
  CHECK(summary.find("arrivals")->as_string() == "programs");
  // What is reported at the capacity is a run of as many programs as it took, started at that rate: output tokens a
  // second are those of a program times the rate, but for the time in which the last ones end.
  CHECK(summary.find("rate_scale")->as_number() == Approx(capacity / 2));
  const double started = summary.at("at_capacity.programs.started")->as_number();
  CHECK(started >= 40);
  const double each = summary.at("at_capacity.programs.output_tokens")->as_number() / started;
  CHECK(summary.at("at_capacity.throughput.output_tokens_per_s")->as_number() == Approx(each * capacity).epsilon(0.1));
  // A stricter target never gives more.
  CHECK(search("400 ms").find("capacity_per_s")->as_number() <= capacity);
}

TEST_CASE("Capacity of programs that come one after the other from clients: there is no rate to change", "[unit]") {
  const auto closed = agents(R"("clients": 4)", R"("slo": {"ttft": "1 s"}, "capacity": {"attainment": 0.9})");
  try {
    (void)closed->run({});
    FAIL("expected a fault");
  } catch (const sim::ConfigError& error) {
    CHECK_THAT(error.faults().front().text(),
               Catch::Contains("/workload/program") && Catch::Contains("'arrivals' with a rate"));
  }
}

}  // namespace test_program_capacity
