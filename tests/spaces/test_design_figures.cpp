// What searches over processors weigh speed against: the area of an NPU, and the area in a graph run's summary.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "experiments/claims/figure.hpp"
#include "hw/npu/npu.hpp"
#include "hw/parts/catalog.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test_design_figures {
namespace {

using test::Scratch;

std::filesystem::path part_path(const std::string& name) {
  return home_folder() / "hw/catalog" / (name + ".json");
}

TEST_CASE("area of an NPU, by hand and in the directions that a search relies on", "[unit][area]") {
  const auto process = hw::read_part<hw::ProcessParams>(part_path("tsmc-n7")).part;
  hw::NpuParams npu = hw::read_part<hw::NpuParams>(part_path("tpu-v4")).part;
  const hw::AreaEstimate e = hw::estimate_area(npu, process);
  // Two cores of 4 x 128 x 128 cells at 0.0019 mm2 and 8192 / 4 lanes at 0.0238 mm2, logic of 7 nm; 16 MiB of 0.027 um2
  // cells that fill half of their macro, 1.6 times for ports.
  const double sram = 8 * 16 * 1048576.0 * process.bitcell_um2 * 1e-6 / 0.5 * 1.6;
  CHECK(e.cores == Approx(2 * ((65536 * 0.0019 + 2048 * 0.0238) / process.logic_density + sram)));
  CHECK(e.memory_phy == Approx(1200 * 0.030));
  CHECK(e.total == Approx((e.cores + e.l2 + e.memory_phy + e.link_phy) / 0.88));
  const auto grows = [&](auto change) {
    hw::NpuParams more = npu;
    change(more);
    CHECK(hw::estimate_area(more, process).total > e.total);
  };
  grows([](hw::NpuParams& n) { n.cores += 1; });
  grows([](hw::NpuParams& n) { n.matrix.rows *= 2; });
  grows([](hw::NpuParams& n) { n.scratch.l1 *= 2; });
  grows([](hw::NpuParams& n) { n.vector.bytes_per_cycle *= 2; });
  grows([](hw::NpuParams& n) { n.memory_bandwidth *= 2; });
}

sim::Node device_of(const std::string& device) {
  const Scratch scratch;
  const auto file = scratch.write("g.json", R"({"kind": "experiment", "version": 1, "system": "graph",
  "machine": {"device": )" + device + R"(},
  "model": {"builder": {"policy": "mlp", "mlp": {"widths": [64, 64], "dtype": "fp16"}}},
  "workload": {"bind": {"batch": 16}}})");
  return *read_experiment(test_systems(), file)->run({}).summary.find("device");
}

TEST_CASE("a graph run tells the area of a device whose process is known", "[unit][area]") {
  const sim::Node gpu = device_of(R"({"part": "h100-sxm5-80gb"})");
  CHECK(gpu.find("name")->as_string() == "h100-sxm5-80gb");
  CHECK(gpu.find("area_mm2")->as_number() == Approx(814).epsilon(0.1));  // published 814, docs/explain/energy.md: +6 %
  CHECK(device_of(R"({"part": "tpu-v4"})").find("area_mm2")->is_null());
  const sim::Node npu = device_of(R"({"part": "tpu-v4", "override": {"die": {"process": "tsmc-n7"}}})");
  CHECK(npu.find("area_mm2")->as_number() > 300);
  CHECK(npu.find("usd")->as_number() > 100);
  CHECK_THROWS_WITH(device_of(R"({"part": "tpu-v4", "override": {"die": {"process": "tsmc-n77"}}})"),
                    Catch::Contains("/die/process"));
}

}  // namespace
}  // namespace orrery::experiments::test_design_figures
