// Any computing part of the catalog as a device: facts, clocks, overrides, cost models by name, what it cannot run.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "hw/base/kernel_builders.hpp"
#include "tests/hw/parts.hpp"

namespace test_device {

using namespace orrery;
using namespace orrery::hw;

namespace {

namespace fs = std::filesystem;

const fs::path kCatalog = fs::path(ORRERY_SOURCE_DIR) / "hw/catalog";

sim::Node entry(const std::string& name) {
  return sim::read_config(kCatalog / (name + ".json"));
}

Part part_of(const std::string& name, const std::string& changes = "null") {
  sim::Faults faults;
  const auto read = parse_computing_part(entry(name), sim::parse_json(changes, "changes"), faults);
  faults.throw_if_any();
  return read->part;
}

/// Every computing part of the catalog.
std::map<std::string, Part> computing_parts() {
  std::map<std::string, Part> parts;
  for (const auto& file : fs::directory_iterator(kCatalog)) {
    if (file.path().extension() != ".json") continue;
    sim::Faults faults;
    const auto read = parse_computing_part(sim::read_config(file.path()), {}, faults);
    if (read) parts.emplace(read->name, read->part);
  }
  return parts;
}

const Kernel kProduct{OpClass::ffn_up, DType::fp16, Gemm{.m = 4096, .n = 4096, .k = 4096}};
const Kernel kVector{OpClass::ffn_up, DType::fp16, Gemm{.m = 1, .n = 4096, .k = 4096}};
const Kernel kDecode{
    OpClass::attention_decode, DType::fp16,
    AttentionDecode{.sequences = 8, .context_tokens = 8000, .heads = 32, .kv_heads = 8, .head_dim = 128}};
const Kernel kPrompt{OpClass::attention_prefill, DType::fp16, test::prompts(1, 512, 32, 8)};

std::string first_fault(const std::string& name, const std::string& changes, const std::string& cost_model) {
  CostModelRegistry registry("cost_model");
  register_cost_models(registry);
  sim::Faults faults;
  const auto read = parse_computing_part(entry(name), sim::parse_json(changes, "changes"), faults);
  if (read)
    make_device(read->name, read->part, registry.prepare(cost_model, nullptr, {}, faults), {"run.json", "/cost"},
                faults);
  return faults.empty() ? "" : faults.all().front().text();
}

}  // namespace

TEST_CASE("every computing part of the catalog is a device with memory, a clock and a peak", "[device]") {
  std::map<std::string, int> kinds;
  for (const auto& [name, part] : computing_parts()) {
    INFO(name);
    const Device device = device_of(part);
    ++kinds[std::string(device.kind())];
    CHECK(device.memory_bytes >= 1LL << 28);  // the smallest is one GDDR6-AiM chip
    CHECK(device.memory_bandwidth > 1e9);
    CHECK(device.clock_hz >= 1e8);
    CHECK(device.clocks.highest_hz == device.clock_hz);
    CHECK(device.clocks.lowest_hz <= device.clock_hz);
    CHECK(device.peak(DType::fp16) > 1e9);
    CHECK(device.vector_peak() > 1e8);
    CHECK(device.cores >= 1);
    CHECK(device.power.tdp_w >= device.power.idle_w);
  }
  CHECK(kinds.size() == std::variant_size_v<Part>);  // each kind has a part at least
  CHECK(kinds["gpu"] >= 20);
  CHECK(kinds["npu"] >= 10);
}

TEST_CASE("a part that does not compute is told apart", "[device]") {
  CHECK(first_fault("nvlink4", "null", "by_kind") ==
        (kCatalog / "nvlink4.json").string() +
            ":/kind: expected a part that computes (gpu, npu, cpu, fpga, upmem, bank_pim, attention_pim), got one of "
            "kind 'link'");
}

TEST_CASE("a model by name answers for its kinds, and others are told which do", "[device]") {
  const std::map<std::string, std::vector<std::string>> models{
      {"a100-sxm4-80gb", {"by_kind", "learned", "profile", "roofline", "tiled"}},
      {"tpu-v4", {"by_kind", "npu", "roofline"}},
      {"epyc-9654", {"by_kind", "cpu", "roofline"}},
      {"alveo-u280", {"by_kind", "fpga", "roofline"}},
      {"upmem-ddr4-2400", {"by_kind", "roofline", "upmem"}},
      {"gddr6-aim", {"bank_pim", "by_kind"}},
      {"attacc-bank", {"attention_pim", "by_kind"}},
  };
  std::set<std::string> seen;
  for (const auto& [name, expected] : models) {
    INFO(name);
    CHECK(cost_models_for(part_of(name)) == expected);
    seen.insert(expected.begin(), expected.end());
  }
  CostModelRegistry registry("cost_model");
  register_cost_models(registry);
  CHECK(registry.names() == std::vector<std::string>(seen.begin(), seen.end()));  // none answers for nothing
  CHECK(first_fault("tpu-v4", "null", "tiled") ==
        "run.json:/cost: expected a cost model of parts of kind npu for tpu-v4, got 'tiled' (one of by_kind, npu, "
        "roofline)");
  CHECK_THROWS_AS(make_cost_model("cpu", part_of("tpu-v4")), sim::ConfigError);
}

TEST_CASE("by_kind is the model made for the kind", "[device]") {
  const std::map<std::string, std::string> own{
      {"a100-sxm4-80gb", "tiled"}, {"ascend-910b1", "npu"}, {"grace", "cpu"}, {"vpk180", "fpga"}};
  for (const auto& [name, model] : own)
    for (const Kernel& kernel : {kProduct, kVector, kDecode, kPrompt}) {
      const Cost by_kind = device_of(part_of(name)).cost(kernel);
      const Cost named = device_of(part_of(name), model).cost(kernel);
      INFO(name);
      CHECK(by_kind.time_s == named.time_s);
      CHECK(by_kind.compute_energy_j == named.compute_energy_j);
      CHECK(by_kind.time_s > 0);
    }
}

TEST_CASE("a changed clock takes the rates stated at it along", "[device]") {
  const Device whole = device_of(part_of("t4"), "roofline");
  const Device half = device_of(part_of("t4", R"({"clock": "0.795 GHz"})"), "roofline");
  REQUIRE(whole.clock_hz == Approx(1.59e9));
  CHECK(half.peak(DType::fp16) == Approx(whole.peak(DType::fp16) / 2));
  CHECK(half.vector_peak() == Approx(whole.vector_peak() / 2));
  CHECK(half.as<GpuParams>()->l2_bandwidth == Approx(whole.as<GpuParams>()->l2_bandwidth / 2));
  CHECK(half.memory_bandwidth == whole.memory_bandwidth);
  // A product of 4096 x 4096 x 4096 is bound by compute: 2^37 FLOP take twice as long at half the clock.
  const double launch_s = whole.launch.in_cost_s;
  CHECK(half.cost(kProduct).time_s - launch_s == Approx(2 * (whole.cost(kProduct).time_s - launch_s)));
  // Energy of a FLOP stays: it is another part, not this one at a lower voltage.
  CHECK(half.as<GpuParams>()->power.fp16_flop_j == whole.as<GpuParams>()->power.fp16_flop_j);
  const Device slow = at_clock(whole, 0.795e9);
  CHECK(slow.peak(DType::fp16) == Approx(half.peak(DType::fp16)));
  CHECK(slow.as<GpuParams>()->power.fp16_flop_j < whole.as<GpuParams>()->power.fp16_flop_j);
}

TEST_CASE("a rate that is changed itself does not follow the clock", "[device]") {
  const GpuParams whole = std::get<GpuParams>(part_of("t4"));
  const GpuParams changed = std::get<GpuParams>(
      part_of("t4", R"({"clock": "0.795 GHz", "peak": {"fp16": "70 TFLOP/s"}, "l2_bandwidth": "1 TB/s"})"));
  CHECK(changed.peak.fp16 == 70e12);
  CHECK(changed.l2_bandwidth == 1e12);
  CHECK(changed.peak.fp32 == Approx(whole.peak.fp32 / 2));
  // Without a word about the clock, nothing moves.
  const GpuParams other = std::get<GpuParams>(part_of("t4", R"({"memory": "32 GB"})"));
  CHECK(other.peak.fp16 == whole.peak.fp16);
  const NpuParams npu = std::get<NpuParams>(part_of("ascend-910b1")),
                  slow = std::get<NpuParams>(part_of("ascend-910b1", R"({"clock": "0.925 GHz"})"));
  CHECK(slow.l2_bandwidth == Approx(npu.l2_bandwidth * 0.925e9 / npu.clock_hz));
}

TEST_CASE("parts of one clock refuse another", "[device]") {
  const Device cpu = device_of(part_of("epyc-9654"));
  CHECK(at_clock(cpu, cpu.clock_hz).clock_hz == cpu.clock_hz);
  CHECK_THROWS_WITH(at_clock(cpu, 1e9), "cpu runs at one clock");
  const Device npu = device_of(part_of("ascend-910b1"));
  CHECK(at_clock(npu, npu.clocks.lowest_hz).peak(DType::fp16) ==
        Approx(npu.peak(DType::fp16) * npu.clocks.lowest_hz / npu.clock_hz));
}

TEST_CASE("memory with units says what it leaves to a host", "[device]") {
  const Device bank = device_of(part_of("gddr6-aim")), attention = device_of(part_of("attacc-bank"));
  CHECK_FALSE(bank.obstacle(kVector));
  CHECK(bank.cost(kVector).time_s > 0);
  CHECK(*bank.obstacle(kDecode) ==
        "units at the banks run products of 16-bit formats and element-wise passes, no attention_decode");
  CHECK_THROWS_AS(bank.cost(kDecode), std::invalid_argument);
  CHECK_FALSE(attention.obstacle(kDecode));
  CHECK(attention.cost(kDecode).time_s > 0);
  CHECK(*attention.obstacle(kVector) == "attention in memory runs attention of decodes, no ffn_up");
  CHECK_THROWS_AS(attention.cost(kVector), std::invalid_argument);
  CHECK_FALSE(bank.obstacle({OpClass::attention_decode, DType::fp16, AttentionDecode{}}));  // nothing to do
  for (const Device& device : {bank, attention, device_of(part_of("upmem-ddr4-2400"))}) {
    REQUIRE(device.alone_obstacle());
    CHECK(*device.alone_obstacle() == device.name + " computes what a host sends it and is no machine by itself");
  }
  CHECK_FALSE(device_of(part_of("epyc-9654")).alone_obstacle());
}

TEST_CASE("what has no links cannot share a layer", "[device]") {
  const Device cpu = device_of(part_of("epyc-9654")), gpu = device_of(part_of("a100-sxm4-80gb"));
  CHECK_FALSE(cpu.rank_obstacle(1));
  CHECK(*cpu.rank_obstacle(2) == "cpu has no link over which 2 of them could share a layer");
  CHECK_FALSE(gpu.rank_obstacle(8));
}

TEST_CASE("an FPGA multiplies while weights come, then moves activations", "[device]") {
  // Of 9,024 DSP slices and 1,303,680 look-up tables 86.9 % are free: half a multiply-add of 16 bits a slice makes
  // 3,920 a cycle (look-up tables would do for 11,329), as 32 cores of 122. At 224.4 MHz and 460 GB/s, one row of 4096
  // x 4096:
  //   compute  4096^2 / 3904 / 224.4e6 = 19.2 us;   weights  2 * 4096^2 / 460e9 = 72.9 us
  //   activations  2 * (4096 + 4096) / 460e9 = 0.036 us
  const FpgaParams fpga = std::get<FpgaParams>(part_of("alveo-u280"));
  const double macs = 32 * 122;
  const Device device = device_of(part_of("alveo-u280"));
  const double weights_s = 2.0 * 4096 * 4096 / fpga.memory_bandwidth;
  const double moved_s = 2.0 * 2 * 4096 / fpga.memory_bandwidth;
  CHECK(device.cost(kVector).time_s == Approx(weights_s + moved_s));
  CHECK(device.cost(kVector).bound == Bound::memory);
  const double compute_s = 4096.0 * 4096 * 4096 / macs / fpga.clock_hz;
  const double rows_s = 2.0 * 2 * 4096 * 4096 / fpga.memory_bandwidth;
  CHECK(device.cost(kProduct).time_s == Approx(compute_s + rows_s));
  CHECK(device.cost(kProduct).bound == Bound::compute);
  // A busy board draws its TDP: energy above idle is that of the whole time.
  CHECK(device.cost(kProduct).compute_energy_j == Approx((fpga.tdp_w - fpga.idle_w) * (compute_s + rows_s)));
}

TEST_CASE("a clock that only an override states leaves the rates that the entry states", "[device]") {
  sim::Node bare = entry("a100-sxm4-80gb");
  bare.erase("clock");
  sim::Faults faults;
  const auto read = parse_computing_part(bare, sim::parse_json(R"({"clock": "1.2 GHz"})", "changes"), faults);
  REQUIRE(faults.empty());
  CHECK(std::get<GpuParams>(read->part).peak.fp16 == std::get<GpuParams>(part_of("a100-sxm4-80gb")).peak.fp16);
}

TEST_CASE("narrower weights cost a memory-bound product less time and energy on every kind", "[device]") {
  for (const char* name : {"a100-sxm4-80gb", "tpu-v4", "ascend-910b1", "intel-npu4", "epyc-9654", "alveo-u280"}) {
    INFO(name);
    const Device device = device_of(part_of(name));
    Cost before = device.cost(kVector);
    for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
      Kernel narrow = kVector;
      std::get<Gemm>(narrow.shape).weights = format;
      const Cost cost = device.cost(narrow);
      CHECK(cost.time_s <= before.time_s);  // a TPU's arrays are filled by one row as by many, which takes longer
      if (std::string_view(name) != "tpu-v4") CHECK(cost.time_s < before.time_s);
      CHECK(cost.dram_bytes < before.dram_bytes);
      CHECK(cost.memory_energy_j <= before.memory_energy_j);  // nothing is stated for an FPGA
      before = cost;
    }
  }
  // Cached keys of one byte: a CPU reads half.
  Kernel narrow = kDecode;
  std::get<AttentionDecode>(narrow.shape).cache_element = 1;
  const Device cpu = device_of(part_of("epyc-9654"));
  CHECK(cpu.cost(narrow).memory_energy_j == Approx(0.5 * cpu.cost(kDecode).memory_energy_j).epsilon(0.02));
}

TEST_CASE("a CPU's two models agree on the energy of a kernel that fills all cores", "[device]") {
  const Device own = device_of(part_of("epyc-9654")), roof = device_of(part_of("epyc-9654"), "roofline");
  const double own_w = own.cost(kProduct).compute_energy_j / own.cost(kProduct).time_s;
  const double roof_w = roof.cost(kProduct).compute_energy_j / roof.cost(kProduct).time_s;
  CHECK(own_w == Approx(roof_w).epsilon(0.25));  // at most the FLOPs of the time in which the roofline is faster
}

TEST_CASE("an override may say what any kind of part says", "[device]") {
  const std::vector<sim::FieldInfo> fields = computing_part_fields();
  const auto power = std::ranges::find(fields, "power", &sim::FieldInfo::name);
  REQUIRE(power != fields.end());
  for (const char* name : {"idle", "fp16_flop", "core_active"})  // of all, of a GPU, of a CPU
    CHECK(std::ranges::count(power->nested, name, &sim::FieldInfo::name) == 1);
  CHECK(std::ranges::none_of(fields, &sim::FieldInfo::required));
  CHECK(std::ranges::none_of(power->nested, &sim::FieldInfo::required));
}

TEST_CASE("no device beats its roofline where nothing stays in a cache", "[device]") {
  for (const auto& [name, part] : computing_parts()) {
    const std::vector<std::string> models = cost_models_for(part);
    if (std::find(models.begin(), models.end(), "roofline") == models.end()) continue;
    if (std::holds_alternative<GpuParams>(part))
      continue;  // constants of tiled stand for clocks above the data sheet's
    INFO(name);
    const Device own = device_of(part), roof = device_of(part, "roofline");
    for (const Kernel& kernel : {kProduct, kVector})
      CHECK(own.cost(kernel).time_s >= 0.999 * (roof.cost(kernel).time_s - roof.launch.in_cost_s));
  }
}

}  // namespace test_device
