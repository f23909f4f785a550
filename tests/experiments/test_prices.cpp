// Prices: which one a part has, what a run costs by them, and the faults of a prices file.
#include <catch2/catch.hpp>

#include "experiments/plans/prices.hpp"
#include "tests/experiments/support.hpp"

namespace test_prices {

using namespace orrery;
using namespace orrery::experiments::plans;
using namespace orrery::experiments::test;

TEST_CASE("A part's own price goes before that of every part, the last that names it before the others", "[unit]") {
  Prices prices;
  CHECK(!prices.of("l40s"));
  prices.prices = {{"l40s", 0.9}, {std::nullopt, 2.0}, {"l40s", 0.8}};
  CHECK(*prices.of("l40s") == 0.8);
  CHECK(*prices.of("catalog:l40s") == 0.8);
  CHECK(*prices.of("a10g") == 2.0);
}

TEST_CASE("The cost of a run is divided by device time and adds up to the whole", "[unit]") {
  // Half an hour of 4 devices at 3 an hour: 6; 3.6 MJ at 2 a kWh: 2 more. 25 % of device time is the prompts'.
  const sim::Node summary = sim::parse_json(R"({"simulated_s": 1800, "energy_j": {"total": 3600000},
    "tokens": {"prompt": 4000000, "output": 1000000}, "utilisation": {"prompt_time": 0.25}})",
                                            "summary");
  Prices prices;
  prices.electricity_per_kwh = 2;
  const Cost cost = cost_of(prices, 3, 4, summary);
  CHECK(cost.per_million_output == Approx(8));         // 8 over one million
  CHECK(cost.input_share_per_million == Approx(0.5));  // 2 over four million
  CHECK(cost.output_share_per_million == Approx(6));   // 6 over one million
  CHECK(cost.energy_share == Approx(0.25));
  CHECK(4 * cost.input_share_per_million + cost.output_share_per_million == Approx(8));
  CHECK(cost_of({}, 3, 4, summary).energy_share == 0);
}

TEST_CASE("A prices file names its place in faults", "[unit]") {
  const Scratch scratch;
  const auto fault = [&](const char* text) -> std::string {
    try {
      (void)read_prices(scratch.write("prices.json", text).string());
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return "none";
  };
  CHECK(fault(R"({"note": "mine", "currency": "EUR", "prices": [{"part": "l40s", "per_hour": 1}]})") == "none");
  CHECK(fault(R"({"prices": [{"part": "l40s"}]})").find("/prices/0") != std::string::npos);
  CHECK(fault(R"({"prices": [{"part": "l40s", "per_hour": -1}]})").find("/prices/0/per_hour") != std::string::npos);
  CHECK(fault(R"({"prizes": []})").find("prices") != std::string::npos);  // the nearest name
}

}  // namespace test_prices
