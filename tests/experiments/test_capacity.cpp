// Capacity: the search by itself, against queueing theory, and its plain answers where there is no capacity to find.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "experiments/capacity/search.hpp"
#include "experiments/capacity/system.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_capacity {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// Poisson arrivals at one server with fixed lengths: an M/D/1 queue; `extra` are further members.
sim::Node queue_config(const std::string& capacity, const std::string& extra = "", int requests = 4000) {
  return sim::parse_json(
      R"({"system": "capacity", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]}, "model": {"config": "catalog:llama-2-7b"},
    "workload": {"generator": {"requests": )" +
          std::to_string(requests) +
          R"(, "arrivals": {"policy": "poisson", "poisson": {"rate": "1 1/s"}},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 128, "output": 64}}}},
    "policies": {"batching": {"policy": "static", "static": {"max_sequences": 1, "reservation": "oracle"}}},
    "capacity": )" +
          capacity + extra + "}",
      "queue");
}

double number(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  REQUIRE(value != nullptr);
  return value->as_number();
}
std::string status(const sim::Node& summary) {
  return summary.find("status")->as_string();
}

}  // namespace

TEST_CASE("The search closes in on the highest rate and asks for no rate twice", "[unit][prop]") {
  for (const double answer : {0.0123, 0.5, 1.0, 1.7, 900.0}) {
    for (const double tolerance : {0.2, 0.01}) {
      std::set<double> asked;
      const capacity::Bracket bracket =
          capacity::highest_rate({.start = 1, .least = 1e-3, .most = 1e3, .tolerance = tolerance}, [&](double rate) {
            CHECK(asked.insert(rate).second);
            return rate <= answer;
          });
      REQUIRE(bracket.meets);
      REQUIRE(bracket.fails);
      CHECK(*bracket.meets <= answer);
      CHECK(*bracket.fails > answer);
      CHECK(*bracket.fails <= *bracket.meets * (1 + tolerance));
      // |log2 0.0123| = 6.3 halvings at most, and log2(ln 2 / ln 1.01) = 6.1 bisections.
      CHECK(asked.size() <= 10 + 8);
    }
  }
}

TEST_CASE("A search whose bounds decide says which", "[unit]") {
  const capacity::SearchBounds bounds{.start = 1, .least = 0.1, .most = 8, .tolerance = 0.05};
  const capacity::Bracket none = capacity::highest_rate(bounds, [](double) { return false; });
  CHECK(!none.meets);
  CHECK(*none.fails == 0.1);
  const capacity::Bracket all = capacity::highest_rate(bounds, [](double) { return true; });
  CHECK(*all.meets == 8);
  CHECK(!all.fails);
  CHECK_THROWS_AS(capacity::highest_rate({.start = 1, .least = 2, .most = 1}, [](double) { return true; }),
                  std::invalid_argument);
}

TEST_CASE("Capacity of an M/D/1 queue is the one of Pollaczek and Khinchine", "[theory]") {
  // Mean wait W = rho s / (2 (1 - rho)); W <= s holds up to rho = 2/3. What s is, one request alone tells.
  const sim::Node alone =
      read_experiment(test_systems(), queue_config(R"({"limits": [{"metric": "queueing", "at": "max", "most": "1 h"}],
    "max_rate": "1e-3 1/s", "start_rate": "1e-3 1/s", "min_rate": "1e-3 1/s", "requests": 3})"))
          ->run({})
          .summary;
  CHECK(status(alone) == "bound_meets");
  const double service = number(alone, "at_capacity.e2e_s.mean");
  const sim::Node found =
      read_experiment(test_systems(), queue_config(R"({"limits": [{"metric": "queueing", "at": "mean", "most": ")" +
                                                   std::to_string(service) + R"( s"}], "replications": 12})"))
          ->run({})
          .summary;
  CHECK(status(found) == "ok");
  const double rho = number(found, "capacity_per_s") * service;
  CAPTURE(service, rho);
  CHECK(rho == Approx(2.0 / 3).epsilon(0.05));
  // The probes are in order of rate, and those below the capacity meet it.
  double before = 0;
  for (const sim::Node& probe : found.find("probes")->items()) {
    const double rate = number(probe, "rate_per_s");
    CHECK(rate > before);
    before = rate;
    CHECK(probe.find("meets")->as_boolean() == (rate <= number(found, "capacity_per_s")));
  }
}

TEST_CASE("A stricter target never gives more capacity", "[prop]") {
  double before = 1e9;
  for (const char* most : {"4 s", "1 s", "250 ms"}) {
    const sim::Node summary =
        read_experiment(test_systems(), queue_config(R"({"attainment": 0.9, "replications": 3, "tolerance": 0.1})",
                                                     std::string(R"(, "slo": {"ttft": ")") + most + R"("})", 500))
            ->run({})
            .summary;
    REQUIRE(status(summary) == "ok");
    CHECK(number(summary, "capacity_per_s") <= before);
    before = number(summary, "capacity_per_s");
  }
}

TEST_CASE("Targets that nothing meets, and a design that does not fit, are results", "[unit]") {
  const sim::Node summary =
      read_experiment(test_systems(),
                      queue_config(R"({"limits": [{"metric": "ttft", "at": "p50", "most": "1 us"}], "requests": 50})"))
          ->run({})
          .summary;
  CHECK(status(summary) == "nothing_meets");
  CHECK(number(summary, "capacity_per_s") == 0);
  CHECK(summary.find("reason")->as_string().find("ttft_s.p50") != std::string::npos);
  const sim::Node wide =
      read_experiment(test_systems(), queue_config(R"({"attainment": 0.5})",
                                                   R"(, "slo": {"ttft": "1 s"}, "replica": {"tensor_parallel": 8})"))
          ->run({})
          .summary;
  CHECK(status(wide) == "infeasible");
}

TEST_CASE("Faults of a capacity section name their place", "[unit]") {
  const auto fault = [](const std::string& capacity, const std::string& extra = "") -> std::string {
    try {
      (void)read_experiment(test_systems(), queue_config(capacity, extra));
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return "none";
  };
  CHECK(fault("{}").find("/capacity: expected a target") != std::string::npos);
  CHECK(fault(R"({"attainment": 0.9, "min_rate": "2 1/s", "max_rate": "1 1/s"})").find("/capacity/min_rate") !=
        std::string::npos);
  CHECK(fault(R"({"limits": [{"metric": "tbd", "most": "1 s"}]})").find("/capacity/limits/0/metric") !=
        std::string::npos);
  CHECK(fault("{}", R"(, "slo": {"ttft": "1 s"})") == "none");
}

TEST_CASE("A replayed trace needs one run a rate; all at once there is no rate to change", "[unit]") {
  const Scratch scratch;
  std::string csv = "arrived_at,num_prefill_tokens,num_decode_tokens\n";
  for (int i = 0; i < 4000; ++i) csv += std::to_string(0.5 * i) + ",100,20\n";
  scratch.write("trace.csv", csv);
  const auto config = [&](const char* file) {
    const auto path = scratch.write(
        "config.json", std::string(R"({"system": "capacity", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]},
    "model": {"config": "catalog:llama-2-7b"}, "workload": {"trace": {"path": ")") +
                           file +
                           R"(", "format": "vidur"}}, "slo": {"ttft": "200 ms"}, "capacity": {"tolerance": 0.05}})");
    return read_experiment(test_systems(), path);
  };
  const sim::Node summary = config("trace.csv")->run({}).summary;
  CHECK(status(summary) == "ok");
  CHECK(number(summary, "nominal_rate_per_s") == Approx(2));  // gaps of half a second
  // Two at the first rate, to see that they are equal; one at each other.
  CHECK(number(summary, "runs") == static_cast<double>(summary.find("probes")->items().size() + 1));
  CHECK(number(summary, "uncertain_probes") == 0);
  scratch.write("burst.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,10\n0,10,10\n");
  const auto burst = config("burst.csv");
  CHECK_THROWS_AS(burst->run({}), sim::ConfigError);
}

TEST_CASE("A short first run gives the capacity of a long one", "[theory]") {
  // Deterministic service: whatever the length asked for, the answer is within 3 % of that of 30,000 requests.
  const auto capacity = [](int requests) {
    const sim::Node summary =
        read_experiment(test_systems(),
                        queue_config(R"({"limits": [{"metric": "queueing", "at": "mean", "most": "1 s"}],
    "suggest": false, "max_requests": 30000, "requests": )" +
                                     std::to_string(requests) + "}"))
            ->run({})
            .summary;
    CHECK(status(summary) == "ok");
    return number(summary, "capacity_per_s");
  };
  const double whole = capacity(30'000);
  for (const int requests : {20, 300, 1000}) CHECK(capacity(requests) == Approx(whole).epsilon(0.03));
}

TEST_CASE("The capacities of the how-to pages do not follow from how long the first run is", "[slow]") {
  const Scratch scratch;
  for (const char* part : {"l40s", "h100-sxm5-80gb"}) {
    const auto capacity = [&](const char* requests) {
      const CommandResult result = command(
          scratch, "capacity '" + (home_folder() / "docs/how-to/my.json").string() +
                       "' --set machine.devices.0.part=" + part +
                       " --attainment 0.9 --suggest false --quiet --json --force --out c --requests " + requests);
      const sim::Node summary = sim::parse_json(result.out, "stdout");
      REQUIRE(summary.find("status")->as_string() == "ok");
      return summary.find("capacity_per_s")->as_number();
    };
    const double whole = capacity("30000");
    for (const char* requests : {"100", "300", "1000"}) {
      CAPTURE(part, requests);
      CHECK(capacity(requests) == Approx(whole).epsilon(0.03));
    }
  }
}

TEST_CASE("A target that no queue touches does not hide an overload", "[unit]") {
  // One request at a time: TBT is the same at every rate. What cannot be served is found by times that grow.
  const sim::Node summary =
      read_experiment(test_systems(), queue_config(R"({"limits": [{"metric": "tbt", "at": "p99", "most": "1 s"}],
    "suggest": false, "requests": 200, "max_requests": 20000})"))
          ->run({})
          .summary;
  CHECK(status(summary) == "ok");
  const double service = number(summary, "at_capacity.e2e_s.p50") - number(summary, "at_capacity.queueing_s.p50");
  // Near saturation waves last long: a few percent of overload do not show over 20 times in system.
  CHECK(number(summary, "capacity_per_s") * service < 1.05);
  CHECK(number(summary, "capacity_per_s") * service > 0.9);
  bool overloaded = false;
  for (const sim::Node& probe : summary.find("probes")->items())
    overloaded = overloaded || probe.find("load")->as_string() == "overloaded";
  CHECK(overloaded);
}

TEST_CASE("A trace too short to say is told as such, with the rate that it does show", "[unit]") {
  const Scratch scratch;
  std::string csv = "arrived_at,num_prefill_tokens,num_decode_tokens\n";
  for (int i = 0; i < 60; ++i) csv += std::to_string(2 * i) + ",100,200\n";
  scratch.write("trace.csv", csv);
  const auto path = scratch.write("config.json", R"({"system": "capacity", "machine": {"devices": [{"part":
    "a100-sxm4-80gb"}]}, "model": {"config": "catalog:llama-2-7b"}, "workload": {"trace": {"path": "trace.csv",
    "format": "vidur"}}, "slo": {"ttft": "60 s"}, "capacity": {"tolerance": 0.05}})");
  const sim::Node summary = read_experiment(test_systems(), path)->run({}).summary;
  CHECK(status(summary) == "too_short");
  CHECK_THAT(summary.find("reason")->as_string(),
             Catch::Contains("only 60 requests arrive") && Catch::Contains("20 are wanted"));
  CHECK(number(summary, "capacity_per_s") > 0);
}

TEST_CASE("What binds is named with the chunk, and a budget that lifts it was tried", "[unit]") {
  // Prompts of 4,000 tokens in chunks of 2,048 beside decodes: gaps above 50 ms come from the chunks.
  const sim::Node summary = read_experiment(test_systems(), sim::parse_json(R"({"system": "capacity",
    "machine": {"devices": [{"part": "h100-sxm5-80gb"}]}, "model": {"config": "catalog:llama-3.1-8b", "dtype": "bf16"},
    "workload": {"generator": {"requests": 200, "arrivals": {"policy": "poisson", "poisson": {"rate": "1 1/s"}},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 4000, "output": 100}}}},
    "policies": {"batching": {"policy": "vllm_v1"}}, "slo": {"ttft": "2 s", "tbt": "30 ms"},
    "capacity": {"tolerance": 0.05, "replications": 2, "max_requests": 5000}})",
                                                                            "chunks"))
                                ->run({})
                                .summary;
  REQUIRE(summary.at("binds.target") != nullptr);
  CHECK(summary.at("binds.target")->as_string() == "tbt");
  CHECK(summary.at("binds.cause")->as_string() == "prompt_chunk");
  CHECK_THAT(summary.at("binds.text")->as_string(), Catch::Contains("at most 20"));
  REQUIRE(summary.find("suggestion") != nullptr);
  const std::string set = summary.at("suggestion.set")->items()[0].as_string();
  CHECK_THAT(set, Catch::StartsWith("policies.batching.vllm_v1.max_num_batched_tokens="));
  CHECK(number(summary, "suggestion.capacity_per_s") > 1.05 * number(summary, "capacity_per_s"));
}

}  // namespace test_capacity
