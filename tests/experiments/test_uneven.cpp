// Training batches of unlike sequences: prices by hand, the bound, what cannot be.
#include <catch2/catch.hpp>

#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_uneven {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

std::string config(const std::string& machine = "", const std::string& workload = "",
                   const std::string& groups = "flexsp") {
  return R"({"system": "uneven_batches", "machine": {"devices": 4, "memory": "10 GB", "exchange": ["10 GB/s", "5 GB/s"])" +
         machine + R"(},
    "model": {"parameters": 1e9, "layers": 2, "hidden": 100, "token_bytes": "1 MB", "square": "1 us", "linear": "1 ms",
              "fixed": "100 ms"},
    "workload": {"lengths": {"policy": "fixed", "fixed": {"prompt": 1000, "output": 1}}, "batch": 8, "batches": 2)" +
         workload + R"(}, "policies": {"groups": {"policy": ")" + groups + "\"}}}";
}

sim::Node run(const std::string& text) {
  return read_experiment(test_systems(), sim::parse_json(text, "uneven.json"))->run({}).summary;
}

std::string fault(const std::string& text) {
  try {
    (void)run(text);
  } catch (const sim::ConfigError& error) {
    return error.faults().front().text();
  }
  return "none";
}

}  // namespace

TEST_CASE("uneven batches: a step by hand") {
  // States take 16e9 / 4 = 4 GB of 10: memory for 6,000 tokens. Two sequences a device: 2 (1 + 1) + 0.1 s.
  const sim::Node summary = run(config());
  CHECK(summary.at("iteration_s")->as_number() == Approx(2 * (1e-6 * 1e6 + 1) + 0.1));
  CHECK(summary.at("bound_s")->as_number() == Approx(4.1));
  CHECK(summary.at("tokens_per_s")->as_number() == Approx(8000 / 4.1));
  CHECK(summary.at("token_share.1")->as_number() == 1);
  CHECK(summary.at("batch.micro_batches")->as_number() == 1);
  // Best fit fills a device first: six sequences on one, two on another.
  CHECK(run(config("", "", "fixed")).at("iteration_s")->as_number() == Approx(6 * 2 + 0.1));
}

TEST_CASE("uneven batches: the same seed gives the same batches to every policy") {
  const auto with = [&](const std::string& groups) {
    std::string text = config("", "", groups);
    const std::string fixed = R"("lengths": {"policy": "fixed", "fixed": {"prompt": 1000, "output": 1}})";
    text.replace(text.find(fixed), fixed.size(), R"("lengths": {"policy": "log_normal"}, "longest": 4000)");
    return run(text);
  };
  const sim::Node flexible = with("flexsp"), adaptive = with("adaptive");
  CHECK(flexible.at("batch.tokens")->as_number() == adaptive.at("batch.tokens")->as_number());
  CHECK(flexible.at("batch.longest")->as_number() <= 4000);
  CHECK(flexible.at("iteration_s")->as_number() <= adaptive.at("iteration_s")->as_number() * 1.0001);
  CHECK(flexible.at("iteration_s")->as_number() >= flexible.at("bound_s")->as_number() * 0.9999);
}

TEST_CASE("uneven batches: what cannot be is said") {
  std::string long_one = config();
  long_one.replace(long_one.find("\"prompt\": 1000"), 14, "\"prompt\": 30000");
  CHECK_THAT(run(long_one).find("reason")->as_string(),
             Contains("no plan for a sequence of 30000 tokens: a device has memory for 6000"));
  std::string six = config();
  six.replace(six.find("\"devices\": 4"), 12, "\"devices\": 6");
  CHECK_THAT(fault(six), Contains("/machine/devices: expected a power of two, got 6"));
  six.replace(six.find("\"devices\": 6"), 12, "\"devices\": 8");
  CHECK_THAT(fault(six), Contains("expected a bandwidth for each of 2, 4 … 8 devices, 3 in all, got 2"));
  std::string small = config();
  small.replace(small.find("10 GB\""), 6, "4 GB\"");
  CHECK(run(small).find("status")->as_string() == "infeasible");
  CHECK_THAT(fault(config("", R"(, "longest": 10)")), Contains("expected a length that is drawn now and then"));
}

}  // namespace test_uneven
