#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "hw/parts/catalog.hpp"
#include "tests/hw/parts.hpp"

namespace test_catalog {

using namespace orrery;
using namespace orrery::hw;

namespace {

std::string catalog_file(const std::string& name) {
  return std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json";
}

/// The faults of an A100 entry after one assignment, as text.
std::string faults_after(const std::string& assignment) {
  sim::Node node = sim::read_config(catalog_file("a100-sxm4-80gb"));
  sim::assign(node, assignment);
  sim::Faults faults;
  (void)parse_part<GpuParams>(node, faults);
  std::string text;
  for (const sim::Fault& fault : faults.all()) text += fault.where.pointer + ": " + fault.text() + "\n";
  return text;
}

}  // namespace

TEST_CASE("the A100's entry holds the data sheet", "[unit]") {
  const CatalogEntry<GpuParams> entry = read_part<GpuParams>(catalog_file("a100-sxm4-80gb"));
  const GpuParams& gpu = entry.part;
  CHECK(entry.name == "a100-sxm4-80gb");
  CHECK(gpu.peak.fp16 == 312e12);
  CHECK(gpu.peak.bf16 == 312e12);
  CHECK(gpu.peak.int8 == 624e12);
  CHECK(gpu.peak.fp32 == 19.5e12);
  CHECK(gpu.peak.fp8 == 0);
  CHECK(gpu.sms == 108);
  CHECK(gpu.clock_hz == 1410e6);
  CHECK(gpu.l1_bytes == 192 * 1024);
  CHECK(gpu.l2_bytes == 40 * 1024 * 1024);
  CHECK(gpu.memory_bytes == std::int64_t{81920} * 1024 * 1024);
  CHECK(gpu.memory_bandwidth == Approx(2.039e12).epsilon(1e-12));
  CHECK(gpu.link.bandwidth == 300e9);
  CHECK(gpu.launch_stream_s == Approx(2.62e-6));
  CHECK(gpu.launch_graph_s == Approx(1.34e-6));
  CHECK(gpu.launch_mode == LaunchMode::graph);
  CHECK(gpu.launch_s() == gpu.launch_graph_s);
  CHECK(gpu.power.tdp_w == 400);
}

TEST_CASE("the H100's entry holds the data sheet", "[unit]") {
  const GpuParams gpu = read_part<GpuParams>(catalog_file("h100-sxm5-80gb")).part;
  CHECK(gpu.peak.fp16 == 989e12);
  CHECK(gpu.peak.fp8 == 1979e12);
  CHECK(gpu.peak.fp32 == 67e12);
  CHECK(gpu.sms == 132);
  CHECK(gpu.clock_hz == 1980e6);
  CHECK(gpu.l1_bytes == 256 * 1024);
  CHECK(gpu.l2_bytes == 50 * 1024 * 1024);
  CHECK(gpu.memory_bandwidth == Approx(3.35e12).epsilon(1e-12));
  CHECK(gpu.link.bandwidth == 450e9);
  CHECK(gpu.power.tdp_w == 700);
}

TEST_CASE("every entry is valid, named as its file, and says where its numbers come from", "[unit]") {
  std::size_t entries = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog")) {
    INFO(file.path().string());
    if (file.is_directory()) continue;  // networks have a format of their own
    const AnyPart entry = read_any_part(file.path());
    CHECK(entry.name == file.path().stem().string());
    CHECK_FALSE(entry.doc.empty());
    CHECK_FALSE(entry.sources.empty());
    if (entry.kind == GpuParams::kKind) {
      CHECK_FALSE(entry.assumptions.empty());
      const GpuParams gpu = read_part<GpuParams>(file.path()).part;
      CHECK(gpu.power.idle_w < gpu.power.tdp_w);
    }
    ++entries;
  }
  CHECK(entries >= 25);
}

TEST_CASE("a part written as parameters reads back the same", "[unit]") {
  const GpuParams gpu = test::part("h100-sxm5-80gb");
  sim::Faults faults;
  const sim::Node written = sim::write_params(gpu);
  const GpuParams again = sim::parse_params<GpuParams>(written, faults);
  CHECK(faults.empty());
  CHECK(sim::write_params(again).dump() == written.dump());
}

TEST_CASE("faults name their place", "[unit]") {
  CHECK(faults_after("name=\"a100\"").empty());
  CHECK_THAT(faults_after("link.bandwidth=\"-1 GB/s\""), Catch::Contains("/link/bandwidth"));
  CHECK_THAT(faults_after("memory_bandwidth=\"-1 GB/s\""), Catch::Contains("/memory_bandwidth"));
  CHECK_THAT(faults_after("memory=80"), Catch::Contains("/memory"));
  CHECK_THAT(faults_after("memory=\"80 W\""), Catch::Contains("/memory"));
  CHECK_THAT(faults_after("gemm.eficiency=0.5"), Catch::Contains("/gemm/eficiency") && Catch::Contains("efficiency"));
  CHECK_THAT(faults_after("launch_mode=\"eager\""), Catch::Contains("/launch_mode"));
  CHECK_THAT(faults_after("kind=\"npu\""), Catch::Contains("/kind"));
  CHECK_THAT(faults_after("version=2"), Catch::Contains("/version"));
  CHECK_THAT(faults_after("sources.peak=3"), Catch::Contains("/sources/peak"));
  CHECK_THAT(faults_after("sms=0"), Catch::Contains("/sms"));
}

TEST_CASE("a GPU that contradicts itself is refused in one line", "[unit]") {
  const auto refused = [](const std::string& assignment, const std::string& place, const std::string& message) {
    INFO(assignment);
    const std::string text = faults_after(assignment);
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK(text.starts_with(place + ": "));
    CHECK_THAT(text, Catch::Contains(message));
  };
  refused("gemm.l2_none=0.02", "/gemm/l2_none", "expected more than l2_full =");
  refused("power.idle=\"400 W\"", "/power/idle", "expected less than tdp = 400 W, got 400 W");
  refused("power.active=\"350 W\"", "/power/active", "expected less than tdp - idle = 340 W, got 350 W");
  refused("dvfs.lowest_clock=\"2 GHz\"", "/dvfs/lowest_clock", "expected at most clock = 1.41 GHz, got 2 GHz");
  // A unit that was mistaken for its neighbour, either way.
  for (const char* clock : {"1410 GHz", "1410 kHz"})
    refused("clock=\"" + std::string(clock) + "\"", "/clock", "expected 100 MHz to 10 GHz");
  for (const char* size : {"80 MiB", "80 TiB", "1023 MiB"})
    refused("memory=\"" + std::string(size) + "\"", "/memory", "expected 1 GiB to 16 TiB");
  for (const char* rate : {"2.039 GB/s", "2039 TB/s"})
    refused("memory_bandwidth=\"" + std::string(rate) + "\"", "/memory_bandwidth", "a unit may be wrong");
  refused("l2_bandwidth=\"5.4 GB/s\"", "/l2_bandwidth",
          "expected at least memory_bandwidth = 2.039 TB/s, got 5.4 GB/s");
  refused("l2=\"40 KiB\"", "/l1", "expected at most l2 = 40 KiB, got 192 KiB");
  refused("l2=\"80 GiB\"", "/l2", "expected less than memory = 80 GiB, got 80 GiB");
  for (const char* peak : {"fp32", "fp16", "bf16", "int8"})
    for (const char* rate : {"312 GFLOP/s", "312 PFLOP/s"})
      refused("peak." + std::string(peak) + "=\"" + rate + "\"", "/peak/" + std::string(peak), "a unit may be wrong");
  refused("peak.fp16=\"10 TFLOP/s\"", "/peak/fp16", "expected at least fp32 = 19.5 TFLOP/s, got 10 TFLOP/s");
  refused("peak.int8=\"200 TFLOP/s\"", "/peak/int8", "expected at least fp16 = 312 TFLOP/s, got 200 TFLOP/s");
  refused("peak.fp8=\"200 TFLOP/s\"", "/peak/fp8", "expected at least fp16 = 312 TFLOP/s, got 200 TFLOP/s");
  for (const char* launch : {"launch_stream", "launch_graph"})
    refused(std::string(launch) + "=\"2.6 ms\"", "/" + std::string(launch), "expected 0 s to 1 ms, got 2.6 ms");
  refused("link.peers=2", "/link/far/bandwidth", "expected > 0 B/s where the links join 2 ranks only");
  refused("link.pair_bandwidth=\"400 GB/s\"", "/link/pair_bandwidth",
          "expected at most bandwidth = 300 GB/s, got 400 GB/s");
}

TEST_CASE("a fault that fields make together names the file of the one at fault", "[unit]") {
  // l2_none stands in the family's file, and l2_full only became wrong beside it.
  sim::Node node = sim::read_config(catalog_file("a100-sxm4-80gb"));
  sim::assign(node, "gemm.l2_full=1.9");
  sim::Faults faults;
  (void)parse_part<GpuParams>(node, faults);
  REQUIRE(faults.size() == 1);
  CHECK_THAT(faults.all()[0].where.file, Catch::EndsWith("families/ampere.json"));
  CHECK(faults.all()[0].where.pointer == "/gemm/l2_none");
}

TEST_CASE("what is missing is named too", "[unit]") {
  sim::Node node = sim::read_config(catalog_file("a100-sxm4-80gb"));
  node.erase("memory_bandwidth");
  node.erase("kind");
  sim::Faults faults;
  (void)parse_part<GpuParams>(node, faults);
  REQUIRE(faults.size() == 2);
  CHECK(faults.all()[0].where.pointer == "/kind");
  CHECK(faults.all()[1].where.pointer == "/memory_bandwidth");

  sim::Faults other;  // a part of another kind: its own fields are no further faults
  (void)parse_part<GpuParams>(sim::read_config(catalog_file("grace")), other);
  REQUIRE(other.size() == 1);
  CHECK(other.all()[0].text().find("/kind: expected \"gpu\", got \"cpu\"") != std::string::npos);

  sim::Faults scalar;
  (void)parse_part<GpuParams>(sim::Node::integer(3), scalar);
  CHECK(scalar.size() == 1);
}

TEST_CASE("the registry offers the models and names them when asked for another", "[unit]") {
  CostModelRegistry registry("cost_model");
  register_cost_models(registry);
  CHECK(registry.names() == std::vector<std::string>{"attention_pim", "bank_pim", "by_kind", "cpu", "fpga", "learned",
                                                     "npu", "profile", "roofline", "tiled", "upmem"});
  sim::Faults faults;
  (void)registry.prepare("tield", nullptr, {"x.json", "/cost_model/policy"}, faults);
  REQUIRE(faults.size() == 1);
  CHECK_THAT(faults.all()[0].text(), Catch::Contains("tiled"));
}

}  // namespace test_catalog
