// Loop nests under pragmas: a product by hand, directions, what does not fit, and the system's faults.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "hw/fpga/hls.hpp"
#include "hw/parts/catalog.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test_hls {
namespace {

using test::Scratch;

hw::FpgaParams u280() {
  return hw::read_part<hw::FpgaParams>(home_folder() / "hw/catalog/alveo-u280.json").part;
}

double cycles(const std::string& kernel, const hw::HlsDesign& design) {
  const auto result = hw::hls_time(u280(), hw::hls_kernel(kernel), design);
  REQUIRE(std::holds_alternative<hw::HlsOutcome>(result));
  return std::get<hw::HlsOutcome>(result).cycles;
}

TEST_CASE("gemm on chip, by hand", "[unit][hls]") {
  // Port of 32 bits: 4 bytes a cycle. a and b in, c in and out: 4 x (64 + 262,144) cycles.
  const double memory = 4 * (64 + 262144.0);
  // No pipeline: 512 ((512 ((512 (14 + 2)) + 2)) + 2) cycles.
  const double inner = 512 * 16.0, middle = 512 * (inner + 2), outer = 512 * (middle + 2);
  CHECK(cycles("gemm", {.cache = true}) == Approx(memory + outer));
  // The innermost loop as a pipeline: 14 + 511 x 7, as the sum waits 7 cycles for itself.
  const double pipe = 14 + 511 * 7.0;
  hw::HlsDesign design{.pipeline = {hw::HlsPipeline::off, hw::HlsPipeline::off, hw::HlsPipeline::fine}, .cache = true};
  CHECK(cycles("gemm", design) == Approx(memory + 512 * (512 * (pipe + 2) + 2)));
  // Four tiles, transfers beside computation: b comes with each. A wide port is as fast as HBM lets it be.
  design.coarse = true;
  design.tiles = 4;
  const double load = 3 * (64 + 65536.0) + 64 + 262144, compute = 128 * (512 * (pipe + 2) + 2);
  CHECK(cycles("gemm", design) == Approx(4 * compute + load));
}

TEST_CASE("more copies and wider ports are never slower, and what is left out on chip is paid at the port",
          "[prop][hls]") {
  for (const std::string& kernel : hw::hls_kernel_names()) {
    INFO(kernel);
    hw::HlsDesign design{.cache = true, .tiles = 8};  // scores of nw fit in pieces
    double before = cycles(kernel, design);
    for (const std::int64_t copies : {2, 4, 8}) {
      design.parallel = {copies, 1, 1};
      const double now = cycles(kernel, design);
      CHECK(now <= before);
      before = now;
    }
    hw::HlsDesign wide = design;
    wide.interface_bits = 512;
    CHECK(cycles(kernel, wide) <= before);
    design.cache = false;
    CHECK(cycles(kernel, design) > before);  // a burst for every body
  }
}

TEST_CASE("what the part cannot hold is a value", "[unit][hls]") {
  hw::HlsDesign design{.parallel = {512, 512, 1}, .cache = true};
  CHECK(std::holds_alternative<hw::FpgaDoesNotFit>(hw::hls_time(u280(), hw::hls_kernel("gemm"), design)));
}

TEST_CASE("the hls system", "[unit][hls]") {
  const Scratch scratch;
  const auto file = scratch.write("h.json", R"({"kind": "experiment", "version": 1, "system": "hls",
  "workload": {"kernel": "gemm"}, "design": {"cache": true}})");
  const Outcome outcome = read_experiment(test_systems(), file)->run({});
  REQUIRE(outcome.feasible());
  double shares = 0;
  for (const char* part : {"memory", "outer", "middle", "inner"})
    shares += outcome.summary.at(std::string("share.") + part)->as_number();
  CHECK(shares <= 1);
  CHECK(shares > 0.99);
  CHECK_THROWS_WITH(read_experiment(test_systems(), file, {"workload.kernel=gem"}), Catch::Contains("gemm"));
  CHECK_THROWS_WITH(read_experiment(test_systems(), file, {"design.outer.parallel=0"}),
                    Catch::Contains("/design/outer/parallel"));
  CHECK_FALSE(read_experiment(test_systems(), file, {"design.outer.parallel=512", "design.middle.parallel=512"})
                  ->run({})
                  .feasible());
}

TEST_CASE("the search system: seeds, goals, and a driver that asks why", "[unit][search_system]") {
  const Scratch scratch;
  const std::string study = (home_folder() / "experiments/studies/space_hls.json").string();
  const auto file = scratch.write("s.json", R"({"kind": "experiment", "version": 1, "system": "search",
  "study": {"file": ")" + study + R"(", "set": ["search.budget=30"]}, "goal": {"best": 1e18}, "run": {"repeats": 3}})");
  const Outcome outcome = read_experiment(test_systems(), file)->run({});
  CHECK(outcome.summary.at("driver")->as_string() == "bottleneck");
  CHECK(outcome.summary.at("points")->as_integer() == 90);
  CHECK(outcome.summary.at("best.count")->as_integer() == 3);
  CHECK(outcome.summary.at("missed")->as_integer() == 0);
  CHECK(outcome.summary.at("evaluations.max")->as_number() >= 1);
  const Outcome never = read_experiment(test_systems(), file, {"goal.best=1"})->run({});
  CHECK(never.summary.at("missed")->as_integer() == 3);
  CHECK(never.summary.at("evaluations.p50")->is_null());
  CHECK(never.summary.at("best")->dump() == outcome.summary.at("best")->dump());
  CHECK_THROWS_WITH(read_experiment(test_systems(), file, {"study.file=none.json"}), Catch::Contains("none.json"));
}

}  // namespace
}  // namespace orrery::experiments::test_hls
