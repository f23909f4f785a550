#include <catch2/catch.hpp>

#include "hw/cost/cost_model.hpp"
#include "hw/parts/catalog.hpp"
#include "hw/parts/cpu.hpp"
#include "tests/hw/parts.hpp"

namespace test_cost_cpu {

using namespace orrery;
using namespace orrery::hw;

namespace {

std::string file_of(const std::string& name) {
  return std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json";
}
CpuParams cpu(const std::string& name) {
  return read_part<CpuParams>(file_of(name)).part;
}
const std::vector<std::string> kNames{"epyc-7313", "epyc-9654", "grace", "xeon-8468v", "xeon-8480plus"};

}  // namespace

TEST_CASE("the catalog's CPUs have the peaks of their data sheets", "[golden]") {
  // Cores * all-core clock * FLOP a cycle. EPYC 7313: 2 pipes of 8 fp32 lanes, 32 FLOP a cycle.
  CHECK(core_rate(cpu("epyc-7313"), DType::fp32) == 32);
  CHECK(cpu_peak(cpu("epyc-7313"), DType::fp32) == Approx(16 * 3.4e9 * 32));
  CHECK(core_rate(cpu("epyc-7313"), DType::fp16) == 32);  // widened to fp32
  CHECK(core_rate(cpu("xeon-8480plus"), DType::fp32) == 64);
  CHECK(core_rate(cpu("xeon-8480plus"), DType::bf16) == 2048);
  CHECK(cpu_peak(cpu("grace"), DType::fp32) == Approx(72 * 3.0e9 * 32));  // NVIDIA: 7.1 TFLOP/s of fp32
  CHECK(cpu("xeon-8468v").cores == 48);
  CHECK(cpu("epyc-9654").memory_bandwidth == Approx(460.8e9));
  CHECK(stream_bandwidth(cpu("grace")) == Approx(486e9).epsilon(0.001));  // measured CPU STREAM on GH200
}

TEST_CASE("one core's small pass, by hand", "[unit]") {
  CpuParams c = cpu("epyc-7313");
  const auto model = make_cpu_cost(c);
  // 32 KiB in, 32 KiB out, both in the cache: 65,536 bytes at 50 GB/s are 1.31 us; forking would not pay.
  const Kernel pass{OpClass::residual, DType::fp16, Streaming{32768, 32768, 16384}};
  const Cost cost = model->cost(pass);
  CHECK(cost.time_s == Approx(65536 / 50e9));
  CHECK(cost.bound == Bound::memory);
  CHECK(cost.memory_energy_j == 0);  // nothing comes from memory
  c.residency = CacheResidency::cold;
  // Alone 2.62 us; seven threads repay 1 us + 7 * 50 ns, since 7 * 25 GB/s exceed STREAM's 163.84 GB/s: 0.4 + 1.35 us.
  CHECK(make_cpu_cost(c)->cost(pass).time_s == Approx(65536 / 163.84e9 + 1.35e-6));
}

TEST_CASE("limits: large products run at the peak, large streams at STREAM's bandwidth", "[unit]") {
  for (const std::string& name : kNames) {
    INFO(name);
    const CpuParams c = cpu(name);
    const auto model = make_cpu_cost(c);
    const Kernel product{OpClass::ffn_up, DType::fp32, Gemm{8192, 8192, 8192}};
    const double ideal = 2.0 * 8192 * 8192 * 8192 / (cpu_peak(c, DType::fp32) * c.gemm_efficiency);
    CHECK(model->cost(product).time_s == Approx(ideal).epsilon(0.01));
    CHECK(model->cost(product).bound == Bound::compute);
    const std::int64_t gb = std::int64_t{4} << 30;
    const Cost stream = model->cost({OpClass::residual, DType::fp32, Streaming{gb, gb, 0}});
    const double dram = 2.0 * static_cast<double>(gb) - static_cast<double>(c.l3_bytes) * c.l3_keep;
    CHECK(stream.time_s == Approx(dram / stream_bandwidth(c)).epsilon(0.02));
    // Decode of one token: weights of 4096 x 4096 come from memory.
    const Cost gemv = model->cost({OpClass::ffn_up, DType::bf16, Gemm{1, 4096, 4096}});
    CHECK(gemv.time_s >= 2.0 * 4096 * 4096 / stream_bandwidth(c));
    CHECK(gemv.bound == Bound::memory);
  }
}

TEST_CASE("latent keys count once", "[unit]") {
  CpuParams c = cpu("grace");
  c.residency = CacheResidency::cold;
  const AttentionDecode latent{8, 8 * 65536, 16, 1, 576, 512, true};
  const Work work = work_of({OpClass::attention_decode, DType::fp16, latent});
  const Cost cost = make_cpu_cost(c)->cost({OpClass::attention_decode, DType::fp16, latent});
  CHECK(cost.dram_bytes == Approx(work.read_bytes + work.write_bytes));
  c.residency = CacheResidency::activations;  // queries and outputs alone lie in the cache
  const double activations = 8 * 16 * (576 + 512) * 2;
  CHECK(make_cpu_cost(c)->cost({OpClass::attention_decode, DType::fp16, latent}).memory_energy_j ==
        Approx((work.read_bytes + work.write_bytes - activations) * c.power.memory_byte_j));
}

TEST_CASE("AMX wins only where rows fill its tiles", "[unit]") {
  const CpuParams c = cpu("xeon-8480plus");
  CpuParams plain = c;
  plain.per_cycle = {};
  plain.residency = CacheResidency::all;
  CpuParams amx = c;
  amx.residency = CacheResidency::all;
  const auto time = [](const CpuParams& part, std::int64_t m) {
    return make_cpu_cost(part)->cost({OpClass::ffn_up, DType::bf16, Gemm{m, 2048, 2048}}).time_s;
  };
  CHECK(time(amx, 512) < 0.2 * time(plain, 512));
  CHECK(time(amx, 1) <= time(plain, 1));
}

TEST_CASE("every kernel has a finite cost that grows with its shape", "[prop]") {
  for (const std::string& name : kNames) {
    INFO(name);
    const CpuParams c = cpu(name);
    const auto model = make_cpu_cost(c);
    CHECK(model->cost({OpClass::ffn_up, DType::fp16, Gemm{0, 8, 8}}).time_s == 0);
    double last = 0;
    for (std::int64_t m = 1; m <= 4096; m *= 2) {
      const Cost cost = model->cost({OpClass::ffn_up, DType::bf16, Gemm{m, 1024, 1024}});
      CHECK(cost.time_s >= last * (1 - 1e-9));
      CHECK(cost.time_s >= cost.flops / cpu_peak(c, DType::bf16));
      last = cost.time_s;
    }
    last = 0;
    for (std::int64_t bytes = 64; bytes < (std::int64_t{1} << 34); bytes = bytes * 3 / 2) {
      const Cost cost = model->cost({OpClass::residual, DType::fp16, Streaming{bytes, bytes, bytes}});
      CHECK(cost.time_s >= last);
      last = cost.time_s;
    }
    last = 0;
    for (std::int64_t context = 16; context <= 65536; context *= 2) {
      const Cost cost =
          model->cost({OpClass::attention_decode, DType::bf16, AttentionDecode{8, 8 * context, 32, 8, 128}});
      CHECK(cost.time_s > last);
      last = cost.time_s;
    }
    const AttentionPrefill prompts = test::prompts(2, 512, 32, 8);
    CHECK(model->cost({OpClass::attention_prefill, DType::bf16, prompts}).time_s > 0);
  }
}

TEST_CASE("more cores, clocks and bandwidth never slow a kernel down", "[prop]") {
  const CpuParams base = cpu("xeon-8468v");
  for (const Kernel& kernel : {Kernel{OpClass::ffn_up, DType::bf16, Gemm{64, 4096, 4096}},
                               Kernel{OpClass::norm, DType::bf16, Streaming{1 << 24, 1 << 24, 1 << 24}},
                               Kernel{OpClass::attention_decode, DType::bf16, AttentionDecode{4, 8192, 32, 8, 128}}}) {
    const double time = make_cpu_cost(base)->cost(kernel).time_s;
    CpuParams faster = base;
    faster.clock_all_core_hz *= 1.5;
    CHECK(make_cpu_cost(faster)->cost(kernel).time_s <= time);
    faster = base;
    faster.memory_bandwidth *= 2;
    CHECK(make_cpu_cost(faster)->cost(kernel).time_s <= time);
    faster = base;
    faster.fork_s = 0;
    CHECK(make_cpu_cost(faster)->cost(kernel).time_s <= time);
  }
}

TEST_CASE("CPUs that contradict themselves are refused", "[unit]") {
  const auto faults_after = [](const std::string& assignment) {
    sim::Node node = sim::read_config(file_of("epyc-7313"));
    sim::assign(node, assignment);
    sim::Faults faults;
    (void)parse_part<CpuParams>(node, faults);
    std::string text;
    for (const sim::Fault& fault : faults.all()) text += fault.where.pointer + ": " + fault.text() + "\n";
    return text;
  };
  CHECK(faults_after("name=\"x\"").empty());
  CHECK_THAT(faults_after("cores=0"), Catch::Contains("/cores"));
  CHECK_THAT(faults_after("clock_boost=\"2 GHz\""), Catch::Contains("/clock_boost") && Catch::Contains("clock_base"));
  CHECK_THAT(faults_after("clock_all_core=\"4 GHz\""), Catch::Contains("/clock_all_core"));
  CHECK_THAT(faults_after("simd_bits=100"), Catch::Contains("multiple of 32"));
  CHECK_THAT(faults_after("core_bandwidth=\"300 GB/s\""), Catch::Contains("/core_bandwidth"));
  CHECK_THAT(faults_after("core_bandwidth=\"1 GB/s\""), Catch::Contains("cores together"));
  CHECK_THAT(faults_after("power.idle=\"200 W\""), Catch::Contains("/power/idle"));
  CHECK_THAT(faults_after("l1=\"1 MiB\""), Catch::Contains("/l1"));
  CHECK_THAT(faults_after("memory=\"512 GB/s\""), Catch::Contains("/memory"));
}

}  // namespace test_cost_cpu
