#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

#include "experiments/base/built_graphs.hpp"
#include "experiments/systems/serving/config/config.hpp"
#include "experiments/systems/serving/system.hpp"
#include "tests/systems.hpp"

namespace test_built_graphs {

using namespace orrery;
using namespace orrery::experiments;

TEST_CASE("a graph is built once for its key, and again after it was dropped or failed", "[unit]") {
  const BuiltGraphs graphs;
  const BuiltGraphs copy = graphs;  // as registries are passed on: the same graphs
  int built = 0;
  const auto build = [&] {
    ++built;
    return std::make_shared<const BuiltGraph>();
  };
  const BuiltGraphs::Shared first = graphs.get("a", build);
  CHECK(copy.get("a", build) == first);
  CHECK(built == 1);
  CHECK(graphs.get("b", build) != first);
  CHECK(built == 2);

  CHECK(graphs.get("c", [] { return BuiltGraphs::Shared(); }) == nullptr);
  CHECK_THROWS_AS(graphs.get("c", []() -> BuiltGraphs::Shared { throw std::runtime_error("no"); }), std::runtime_error);
  CHECK(graphs.get("c", build) != nullptr);
  CHECK(built == 3);

  for (int i = 0; i < 40; ++i) {  // more than are held; "a" is asked for in between and stays
    (void)graphs.get(std::to_string(i), build);
    CHECK(graphs.get("a", build) == first);
  }
  CHECK(built == 43);
  CHECK(graphs.get("b", build) != first);
  CHECK(built == 44);  // it was dropped
}

ServingConfig read(const std::string& part, const std::string& more) {
  sim::Faults faults;
  const std::string text = R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": ")" +
                           part + R"(", "count": 1}]},
    "model": {"config": "catalog:llama-3.2-1b")" +
                           more + R"(},
    "workload": {"generator": {"requests": 1, "arrivals": {"policy": "poisson", "poisson": {"rate": "1 1/s"}},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 20, "output": 2}}}},
    "policies": {"passes": {"order": ["loop_fusion"]}}})";
  ServingConfig config = read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
  faults.throw_if_any();
  return config;
}

TEST_CASE("configs of one model share its graph, whatever the part; another number format has its own", "[unit]") {
  const ServingConfig a100 = read("a100-sxm4-80gb", "");
  const ServingConfig h100 = read("h100-sxm5-80gb", "");
  const ServingConfig wide = read("a100-sxm4-80gb", R"(, "dtype": "fp32")");
  REQUIRE(a100.graph != nullptr);
  CHECK(h100.graph == a100.graph);
  CHECK(wide.graph != a100.graph);
  CHECK(wide.graph_key != a100.graph_key);
}

}  // namespace test_built_graphs
