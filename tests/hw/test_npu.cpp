// NPUs of the catalog, faults of their files, and the cost of every kind of kernel.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "hw/base/kernel_builders.hpp"
#include "tests/hw/npus.hpp"
#include "tests/hw/parts.hpp"

namespace test_npu {

using namespace orrery;
using namespace orrery::hw;

namespace {

std::string catalog_file(const std::string& name) {
  return std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json";
}

/// The faults of an entry after one assignment, one a line.
std::vector<std::string> faults_after(const std::string& name, const std::string& assignment) {
  sim::Node node = sim::read_config(catalog_file(name));
  sim::assign(node, assignment);
  sim::Faults faults;
  (void)parse_part<NpuParams>(node, faults);
  std::vector<std::string> lines;
  for (const sim::Fault& fault : faults.all()) lines.push_back(fault.where.pointer + ": " + fault.text());
  return lines;
}

void check_fault(const std::string& name, const std::string& assignment, const std::string& place,
                 const std::string& text) {
  INFO(name << " " << assignment);
  const std::vector<std::string> lines = faults_after(name, assignment);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::StartsWith(place) && Catch::Contains(text));
  CHECK(lines[0].find('\n') == std::string::npos);
}

std::vector<Kernel> mixture() {
  std::vector<Kernel> kernels;
  for (const std::int64_t m : {1, 7, 128, 513, 4096})
    for (const std::int64_t n : {64, 5120})
      for (const std::int64_t k : {100, 4096}) kernels.push_back({OpClass::ffn_up, DType::bf16, Gemm{m, n, k}});
  for (const std::int64_t sequences : {1, 40})
    for (const std::int64_t tokens : {1, 500, 4000})
      for (const std::int64_t kv_heads : {1, 8, 32}) {
        kernels.push_back({OpClass::attention_prefill, DType::fp16, test::prompts(sequences, tokens, 32, kv_heads)});
        kernels.push_back({OpClass::attention_decode, DType::fp16,
                           AttentionDecode{sequences, sequences * tokens, 32, kv_heads, 128}});
      }
  for (const std::int64_t bytes : {100, 1'000'000, 1'000'000'000})
    kernels.push_back({OpClass::norm, DType::fp16, Streaming{bytes, bytes, bytes}});
  const std::vector<std::int64_t> rows{3, 0, 700, 40, 1, 128};
  kernels.push_back({OpClass::ffn_up, DType::bf16, grouped_gemm(rows, 4096, 1024)});
  kernels.push_back(
      {OpClass::sparse, DType::fp32, Sparse{.rows = 1000, .columns = 900, .nonzeros = 20000, .width = 64}});
  kernels.push_back({OpClass::fft, DType::fp32, Fft{.n0 = 256, .n1 = 256, .batch = 8}});
  kernels.push_back({OpClass::conv, DType::fp16,
                     Conv{.batch = 8,
                          .in_channels = 64,
                          .out_channels = 128,
                          .height = 56,
                          .width = 56,
                          .kernel_height = 3,
                          .kernel_width = 3,
                          .pad = 1}});
  kernels.push_back({OpClass::ffn_up, DType::fp16,
                     Fused{.gemm = {512, 4096, 4096},
                           .other_matrix_flops = 1'000'000,
                           .vector_flops = 2'000'000,
                           .read_bytes = 40'000'000,
                           .write_bytes = 4'000'000,
                           .kernels = 3}});
  kernels.push_back(softmax_kernel(4096, 1024, DType::fp16));
  return kernels;
}

}  // namespace

TEST_CASE("every NPU of the catalog is valid and says where its numbers come from", "[unit]") {
  std::size_t entries = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog")) {
    if (file.is_directory() || read_any_part(file.path()).kind != NpuParams::kKind) continue;
    INFO(file.path().string());
    const CatalogEntry<NpuParams> entry = read_part<NpuParams>(file.path());
    CHECK(entry.name == file.path().stem().string());
    CHECK_FALSE(entry.doc.empty());
    CHECK_FALSE(entry.sources.empty());
    CHECK_FALSE(entry.assumptions.empty());
    ++entries;
  }
  CHECK(entries == std::size(test::kNpus));
}

TEST_CASE("arrays, counts and clocks give the published peaks", "[golden]") {
  CHECK(matrix_peak(test::npu("tpu-v3"), DType::bf16) == Approx(123e12).epsilon(0.005));
  CHECK(matrix_peak(test::npu("tpu-v4"), DType::bf16) == Approx(275e12).epsilon(0.005));
  CHECK(matrix_peak(test::npu("tpu-v4"), DType::int8) == Approx(275e12).epsilon(0.005));
  CHECK(matrix_peak(test::npu("tpu-v5e"), DType::bf16) == Approx(197e12).epsilon(0.005));
  CHECK(matrix_peak(test::npu("tpu-v5e"), DType::int8) == Approx(393e12).epsilon(0.005));
  CHECK(matrix_peak(test::npu("ascend-910a"), DType::fp16) == Approx(256e12).epsilon(0.03));
  CHECK(matrix_peak(test::npu("ascend-910b2c"), DType::fp16) == Approx(353.8944e12));
  CHECK(matrix_peak(test::npu("ascend-910b2c"), DType::int8) == Approx(707.7888e12));
  CHECK(matrix_peak(test::npu("neupims-npu"), DType::fp16) == Approx(8 * 2.0 * 128 * 128 * 1e9));
  CHECK(matrix_peak(test::npu("intel-npu4"), DType::int8) == Approx(48e12).epsilon(0.005));
  CHECK(matrix_peak(test::npu("apple-m4-ane"), DType::int8) == Approx(38e12).epsilon(0.005));
  // Cube cores by variant (dvm src/system.cc).
  CHECK(test::npu("ascend-910b1").cores == 25);
  CHECK(test::npu("ascend-910b2").cores == 24);
  CHECK(test::npu("ascend-910b3").cores == 20);
  CHECK(test::npu("ascend-910b4").cores == 20);
  CHECK(test::npu("ascend-910b4").l2_bytes == 96LL << 20);
}

TEST_CASE("a format that the unit lacks runs at the rate of 16 bits", "[unit]") {
  const MatrixUnit unit{.rates = {.fp32 = 0.25, .bf16 = 1}};
  CHECK(matrix_rate(unit, DType::fp16) == 1);
  CHECK(matrix_rate(unit, DType::fp8) == 1);
  CHECK(matrix_rate(unit, DType::int8) == 1);
  CHECK(matrix_rate(unit, DType::fp32) == 0.25);
  // Without fp32 cells the vector unit does it: 4096 multiply-adds of 4 bytes at 256 bytes a cycle are 64 cycles.
  NpuParams npu = test::simple_npu();
  CHECK(plan_npu_gemm(npu, {16, 16, 16}, DType::fp32).compute_s == Approx(64e-9));
}

TEST_CASE("a fault in an NPU's file is one clear line", "[unit]") {
  check_fault("tpu-v4", "cores=0", "/cores", "expected 1 to 65536, got 0");
  check_fault("tpu-v4", "matrix.rates.bf16=0", "/matrix/rates", "no 16-bit format: fp16 or bf16 must be above 0");
  check_fault("tpu-v4", "matrix.depth=16", "/matrix/depth", "a systolic array has depth 1, got 16");
  check_fault("tpu-v4", "matrix.rates.bf61=1", "/matrix/rates/bf61", "bf16");
  check_fault("tpu-v4", "matrix.kind=\"torus\"", "/matrix/kind", "cube");
  check_fault("tpu-v4", "matrix.dataflow=\"rs\"", "/matrix/dataflow", "ws");
  // ws, 128 x 128: one row of A (256 B) and a block of B (32 KiB), twice, and a row of sums (512 B): 66,560 bytes.
  check_fault("tpu-v4", "scratch.l1=\"64 KiB\"", "/scratch/l1", "holds no tile");
  check_fault("tpu-v4", "scratch.l1=\"64 KiB\"", "/scratch/l1", "takes 66560 bytes, got 65536");
  check_fault("ascend-910b2", "scratch.left=\"512 B\"", "/scratch/left", "holds no tile");
  check_fault("ascend-910b2", "scratch.right=\"512 B\"", "/scratch/right", "takes 1024 bytes, got 512");
  check_fault("ascend-910b2", "scratch.accumulator=\"1000 B\"", "/scratch/accumulator", "takes 1024 bytes, got 1000");
  // Capacity in the wrong unit: another dimension, none, or a size that cannot be.
  check_fault("tpu-v4", "memory=\"32 GB/s\"", "/memory", "expected a quantity in B");
  check_fault("tpu-v4", "memory=32", "/memory", "expected a quantity in B");
  check_fault("tpu-v4", "memory=\"32 MiB\"", "/memory", "smaller than the buffers on chip: a unit may be wrong");
  check_fault("ascend-910b2", "l2=\"192 KiB\"", "/l2", "smaller than the L1 of one core: a unit may be wrong");
  check_fault("tpu-v4", "core_bandwidth=\"2 TB/s\"", "/core_bandwidth", "one core cannot exceed memory_bandwidth");
  check_fault("tpu-v4", "power.idle=\"500 W\"", "/power/idle", "at or above power.tdp");
  sim::Node node = sim::read_config(catalog_file("tpu-v4"));
  node.erase("matrix");
  sim::Faults faults;
  (void)parse_part<NpuParams>(node, faults);
  REQUIRE(faults.size() == 1);
  CHECK(faults.all()[0].where.pointer == "/matrix");
}

TEST_CASE("nothing costs nothing on an NPU, and anything has a price", "[unit]") {
  for (const char* name : test::kNpus) {
    const NpuParams npu = test::npu(name);
    const auto model = npu_cost_model(npu);
    for (const Kernel& kernel :
         {Kernel{OpClass::ffn_up, DType::fp16, Gemm{0, 64, 64}}, Kernel{OpClass::norm, DType::fp16, Streaming{}},
          Kernel{OpClass::attention_prefill, DType::fp16, AttentionPrefill{}},
          Kernel{OpClass::attention_decode, DType::fp16, AttentionDecode{}}})
      CHECK(model->cost(kernel).time_s == 0);
    for (const Kernel& kernel : mixture()) {
      const Cost cost = model->cost(kernel);
      const Work work = work_of(kernel);
      INFO(name << " " << to_string(kernel.op) << " " << kernel.shape.index() << " flops " << work.flops);
      CHECK(std::isfinite(cost.time_s));
      CHECK(cost.flops == work.flops);
      CHECK(cost.dram_bytes >= work.read_bytes + work.write_bytes);
      // Never faster than the roofline of its peaks.
      if (uses_matrix_units(kernel) && matrix_rate(npu.matrix, kernel.dtype) > 0)
        CHECK(cost.time_s >= npu.launch_s + work.flops / matrix_peak(npu, kernel.dtype));
      CHECK(cost.time_s >= npu.launch_s + (work.read_bytes + work.write_bytes) / npu.memory_bandwidth);
    }
    CHECK(std::isfinite(model->cost({OpClass::ffn_up, DType::fp16, Gemm{10'000'000, 1'000'000, 1'000'000}}).time_s));
  }
}

TEST_CASE("a pass over memory by hand", "[unit]") {
  // 1 GB read and 1 GB written at 1 TB/s; the vector unit's 5e8 operations of 2 bytes at 256 a cycle take 3.9 ms and
  // overlap, but for one block of 4 MiB of 1908 (2e9 / 2^22 = 476.8 blocks).
  NpuParams npu = test::simple_npu();
  const auto model = npu_cost_model(npu);
  const double memory_s = 2e-3, vector_s = 5e8 * 2 / 256 / 1e9;
  CHECK(vector_s == Approx(3.90625e-3));
  CHECK(model->cost({OpClass::norm, DType::fp16, Streaming{1'000'000'000, 1'000'000'000, 500'000'000}}).time_s ==
        Approx(vector_s + memory_s / (2e9 / (1 << 22))));
}

TEST_CASE("fp32 attention runs at the unit's fp32 rate, and at 16 bits where it has none", "[unit]") {
  NpuParams npu = test::simple_npu();
  const auto time = [&](DType dtype) {
    return npu_cost_model(npu)->cost({OpClass::attention_prefill, dtype, test::prompts(1, 8192, 1, 1)}).time_s;
  };
  const double narrowed = time(DType::fp32);
  npu.matrix.rates.fp32 = 0.25;
  CHECK(time(DType::fp32) > 3 * narrowed);
}

TEST_CASE("sequences of a batch share no block of keys", "[unit]") {
  NpuParams npu = test::simple_npu();
  npu.cores = 64;
  npu.memory_bandwidth = 1e15;
  const auto time = [&](std::int64_t sequences, std::int64_t context) {
    const AttentionDecode a{sequences, sequences * context, 8, 1, 128};
    return npu_cost_model(npu)->cost({OpClass::attention_decode, DType::fp16, a}).time_s;
  };
  // 64 sequences of 2 keys keep 64 cores at work; as one block of 128 keys they would keep one.
  CHECK(time(64, 2) < 1.2 * time(1, 2));
}

TEST_CASE("convolutions and groups by hand", "[unit]") {
  // One image of 16 x 16 x 16 channels, 3 x 3, 32 out, padded: 256 x 32 x 144 is 16 * 2 * 9 blocks of 16: 288 ns at
  // 1 GHz. Reads 16 * 256 and 32 * 144 elements, writes 32 * 256, of 2 bytes: 33,792 bytes, 33.8 ns, one block: no
  // overlap.
  const auto model = npu_cost_model(test::simple_npu());
  const Conv conv{.batch = 1,
                  .in_channels = 16,
                  .out_channels = 32,
                  .height = 16,
                  .width = 16,
                  .kernel_height = 3,
                  .kernel_width = 3,
                  .pad = 1};
  CHECK(model->cost({OpClass::conv, DType::fp16, conv}).time_s == Approx(288e-9 + 33.792e-9));
  // Two groups of 32 rows are a batch of two products.
  const std::vector<std::int64_t> rows{32, 32};
  CHECK(model->cost({OpClass::ffn_up, DType::fp16, grouped_gemm(rows, 256, 512)}).time_s ==
        model->cost({OpClass::ffn_up, DType::fp16, Gemm{32, 256, 512, 2}}).time_s);
}

TEST_CASE("a faster NPU is not slower", "[prop]") {
  for (const char* name : {"tpu-v4", "ascend-910b2", "neupims-npu"}) {
    const NpuParams npu = test::npu(name);
    NpuParams memory = npu, compute = npu, launch = npu;
    memory.memory_bandwidth *= 2;
    memory.core_bandwidth *= 2;
    compute.matrix.efficiency = compute.vector.efficiency = 1;
    launch.launch_s = launch.step_s = 0;
    const auto base = npu_cost_model(npu);
    for (const NpuParams& better : {memory, compute, launch}) {
      const auto improved = npu_cost_model(better);
      for (const Kernel& kernel : mixture())
        CHECK(improved->cost(kernel).time_s <= base->cost(kernel).time_s * (1 + 1e-12));
    }
  }
}

TEST_CASE("cores share the memory: a pass that saturates it does not gain from more of them", "[prop]") {
  const NpuParams npu = test::npu("ascend-910b2");
  const Kernel pass{OpClass::residual, DType::fp16, Streaming{1 << 30, 1 << 29, 1 << 28}};
  double before = 1e9;
  for (const std::int64_t cores : {1, 2, 6, 12, 24}) {
    const double t = npu_cost_model(npu, cores)->cost(pass).time_s;
    CHECK(t <= before);
    before = t;
  }
  // 57.6 GB/s a core: one core 28 ms; 24 cores would reach 1382 GB/s, the memory 1360.
  CHECK(npu_cost_model(npu, 1)->cost(pass).time_s == Approx(1.5 * (1 << 30) / 57.6e9).epsilon(0.01));
  CHECK(npu_cost_model(npu, 24)->cost(pass).time_s == Approx(1.5 * (1 << 30) / 1360e9).epsilon(0.02));
}

TEST_CASE("an NPU at half its clock", "[unit][dvfs]") {
  NpuParams npu = test::simple_npu();
  npu.power = {.idle_w = 10, .active_w = 20, .tdp_w = 100, .fp16_flop_j = 1e-12};
  npu.dvfs = {.lowest_clock_hz = 200e6, .voltage_floor = 0.7, .knee = 0.4};
  const NpuParams half = at_clock(npu, 500e6);
  const double v = 0.7 + 0.3 * (0.5 - 0.4) / 0.6;  // 0.75
  CHECK(matrix_peak(half, DType::fp16) == Approx(matrix_peak(npu, DType::fp16) / 2));
  CHECK(half.power.fp16_flop_j == Approx(1e-12 * v * v));
  CHECK(half.power.active_w == Approx(20 * 0.5 * v * v));
  CHECK(half.memory_bandwidth == npu.memory_bandwidth);
  const Kernel product{OpClass::ffn_up, DType::fp16, Gemm{1024, 1024, 1024}};
  const Cost fast = npu_cost_model(npu)->cost(product), slow = npu_cost_model(half)->cost(product);
  CHECK(slow.time_s > 1.9 * fast.time_s);  // bound by the cube
  CHECK(slow.compute_energy_j < fast.compute_energy_j);
  CHECK_THROWS_AS(at_clock(npu, 100e6), std::invalid_argument);
  CHECK_THROWS_AS(at_clock(npu, 2e9), std::invalid_argument);
}

TEST_CASE("split cores pay for scores that cross the L2", "[prop]") {
  const NpuParams npu = test::npu("ascend-910b2");
  NpuParams joint = npu;
  joint.vector.through_l2 = false;
  const Kernel kernel{OpClass::attention_prefill, DType::fp16, test::prompts(1, 8192, 32, 32)};
  CHECK(npu_cost_model(npu)->cost(kernel).time_s > npu_cost_model(joint)->cost(kernel).time_s);
}

}  // namespace test_npu
