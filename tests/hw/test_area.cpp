// Area and cost of a die: formulas by hand, published dies, and the directions that a search relies on.
#include <catch2/catch.hpp>
#include <cmath>

#include "hw/gpu/area.hpp"
#include "tests/hw/parts.hpp"

namespace test_area {

using namespace orrery::hw;
using orrery::hw::test::part;

namespace {

ProcessParams process(const std::string& name) {
  return read_part<ProcessParams>(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json").part;
}

AreaEstimate estimate(const std::string& name) {
  const GpuParams gpu = part(name);
  return estimate_area(gpu, process(gpu.die.process));
}

}  // namespace

TEST_CASE("dies of a wafer and their yield", "[unit][area]") {
  // 300 mm wafer, 100 mm2: pi 150^2 / 100 - 2 pi 150 / sqrt(200) = 706.86 - 66.64 = 640.2.
  CHECK(dies_per_wafer(100, 300) == Approx(640.2).margin(0.1));
  CHECK(dies_per_wafer(1e6, 300) == 0);
  // 1 cm2 at 1 defect a cm2 and no spare core: 1/e; one defect in the cores forgiven: (1 + 1)/e.
  CHECK(die_yield(100, 0, 0, 1) == Approx(std::exp(-1)));
  CHECK(die_yield(100, 0, 1, 1) == Approx(2 * std::exp(-1)));
  CHECK(die_yield(100, 100, 1, 1) == Approx(2 * std::exp(-2)));
  CHECK(die_yield(100, 0, 100, 1) == Approx(1));
  CHECK(die_yield(500, 300, 3, 0) == 1);
}

TEST_CASE("areas of published dies", "[golden][area]") {
  // Areas: architecture white papers. The bounds are what the fit reaches (docs/explain/energy.md); double-precision
  // units, which the model does not count, make GA100 larger, and their lack GA102 smaller, than it says.
  for (const char* name : {"a100-sxm4-80gb", "v100-sxm2-32gb", "h100-sxm5-80gb", "a40", "l40s", "l4"}) {
    const AreaEstimate e = estimate(name);
    INFO(name << ": " << e.die << " mm2, published " << part(name).die.area_mm2);
    CHECK(std::abs(e.die / part(name).die.area_mm2 - 1) < 0.24);
    CHECK(e.cores + e.l2 + e.memory_phy + e.link_phy + e.rest == Approx(e.total));
    CHECK(e.usd == Approx(e.silicon_usd + e.memory_usd + e.package_usd));
    CHECK(e.yield > 0.3);
    CHECK(e.yield < 1);
  }
}

TEST_CASE("more of anything costs area, and area costs money", "[prop][area]") {
  const GpuParams gpu = part("h100-sxm5-80gb");
  const ProcessParams node = process(gpu.die.process);
  const AreaEstimate before = estimate_area(gpu, node);
  const auto grows = [&](auto change) {
    GpuParams more = gpu;
    change(more);
    const AreaEstimate after = estimate_area(more, node);
    CHECK(after.total > before.total);
    CHECK(after.silicon_usd > before.silicon_usd);
  };
  grows([](GpuParams& g) { g.die.cores += 16; });
  grows([](GpuParams& g) { g.die.l2_bytes *= 2; });
  grows([](GpuParams& g) { g.memory_bandwidth *= 1.5; });
  grows([](GpuParams& g) { g.link.bandwidth *= 2; });
  grows([](GpuParams& g) { g.peak.fp16 *= 2; });
  // The same design on an older process is larger; spare cores pay for themselves in yield.
  CHECK(estimate_area(gpu, process("tsmc-n7")).total > before.total);
  GpuParams all_on = gpu;
  all_on.die.cores = 0;
  all_on.sms = 144;
  all_on.peak.fp16 *= 144.0 / 132;
  all_on.peak.fp32 *= 144.0 / 132;
  CHECK(estimate_area(all_on, node).total == Approx(before.total).epsilon(1e-9));
  CHECK(estimate_area(all_on, node).yield < before.yield);
}

}  // namespace test_area
