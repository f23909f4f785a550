#include "hw/tiled/stream.hpp"

#include <catch2/catch.hpp>
#include <cstdint>

#include "hw/base/kernel_builders.hpp"
#include "tests/hw/parts.hpp"

namespace test_tiled_stream {

using namespace orrery::hw;
using orrery::hw::test::part;

namespace {

constexpr DType kType = DType::fp16;

double pass_s(const GpuParams& gpu, const Kernel& kernel) {
  return tiled_streaming(gpu, std::get<Streaming>(kernel.shape), kernel.op, kernel.dtype).time_s;
}

/// Ten SMs of 2,048 threads at 1 GHz, memory and cache too fast to matter, latency 1 us.
GpuParams by_hand() {
  GpuParams gpu;
  gpu.sms = 10;
  gpu.clock_hz = 1e9;
  gpu.l2_bytes = 1 << 20;
  gpu.memory_bandwidth = gpu.l2_bandwidth = 1e18;
  gpu.peak.fp32 = 1e18;
  gpu.stream = {.share = 1,
                .l2_share = 1,
                .l2_reach = 1,
                .latency_s = 1e-6,
                .miss_latency_s = 0,
                .threads_per_sm = 2048,
                .fixed_s = 0};
  return gpu;
}

}  // namespace

TEST_CASE("rows in waves by hand", "[unit]") {
  // RMS norm of rows of 2048: 1024 threads, two iterations, two blocks an SM, 20 rows a wave. A block alone on its SM:
  // 950 cycles + 2 (1 us + 55 slots * 32 warps / 4 schedulers = 0.44 us) = 3.83 us; two of them: + 2 * 0.44 = 4.71 us.
  const GpuParams gpu = by_hand();
  const auto norm_s = [&](std::int64_t rows) { return pass_s(gpu, norm_kernel(Norm::rms, rows, 2048, kType)); };
  CHECK(norm_s(1) == Approx(3.83e-6));
  CHECK(norm_s(10) == Approx(3.83e-6));
  CHECK(norm_s(11) == Approx(4.71e-6));
  CHECK(norm_s(20) == Approx(4.71e-6));
  CHECK(norm_s(21) == Approx(4.71e-6 + 3.83e-6));
  CHECK(norm_s(60) == Approx(3 * 4.71e-6));
}

TEST_CASE("fewer threads an SM, fewer rows a wave", "[unit]") {
  // 1,536 threads hold one block of 1,024: waves of 10 rows.
  GpuParams gpu = by_hand();
  gpu.stream.threads_per_sm = 1536;
  CHECK(pass_s(gpu, norm_kernel(Norm::rms, 60, 2048, kType)) == Approx(6 * 3.83e-6));
}

TEST_CASE("elementwise passes by hand", "[unit]") {
  // 200 MB through a memory of 1 TB/s at 80 %, nothing in the cache: 250 us. In a cache that holds it: 100 us at 2
  // TB/s.
  GpuParams gpu = by_hand();
  gpu.memory_bandwidth = 1e12;
  gpu.l2_bandwidth = 2e12;
  gpu.stream.share = 0.8;
  const Streaming copy{100'000'000, 100'000'000, 0};
  CHECK(tiled_streaming(gpu, copy, OpClass::copy, kType).time_s == Approx(250e-6));
  gpu.l2_bytes = std::int64_t{1} << 40;
  CHECK(tiled_streaming(gpu, copy, OpClass::copy, kType).time_s == Approx(100e-6));
  // At x = l2 / bytes = 1 half of it is in the cache: 125 + 50 us.
  gpu.l2_bytes = 200'000'000;
  CHECK(hot_share(gpu, 200e6) == Approx(0.5));
  CHECK(tiled_streaming(gpu, copy, OpClass::copy, kType).time_s == Approx(175e-6));
  // Arithmetic: 1e9 FLOPs of 5.75 slots on 10 SMs of 128 lanes at 1 GHz take 4.49 ms, and the rest hides.
  const Streaming heavy{1000, 1000, 1'000'000'000};
  CHECK(tiled_streaming(gpu, heavy, OpClass::copy, kType).time_s == Approx(5.75e9 / 1280e9));
}

TEST_CASE("library kernels follow class, rows and operands", "[unit]") {
  CHECK(resolve_pass({64, 64, 0, 4}, OpClass::norm) == Pass::rms_norm);
  CHECK(resolve_pass({64, 64, 0, 0}, OpClass::norm) == Pass::elementwise);  // rows unknown
  CHECK(resolve_pass({128, 64, 0, 4}, OpClass::activation) == Pass::gated_activation);
  CHECK(resolve_pass({64, 64, 0, 4}, OpClass::activation) == Pass::elementwise);
  CHECK(resolve_pass({64, 64, 0, 4}, OpClass::rope) == Pass::rope);
  CHECK(resolve_pass({64, 64, 0, 4}, OpClass::softmax) == Pass::softmax);
  CHECK(resolve_pass({64, 64, 0, 4}, OpClass::residual) == Pass::elementwise);
  CHECK(resolve_pass({64, 64, 0, 4, Pass::layer_norm}, OpClass::norm) == Pass::layer_norm);
  CHECK(resolve_pass({64, 64, 0, 0, Pass::compiled}, OpClass::activation) == Pass::compiled);
}

TEST_CASE("more rows, wider rows and less bandwidth are not cheaper", "[prop]") {
  for (const char* name : {"a100-sxm4-80gb", "h100-sxm5-80gb", "a40", "jetson-agx-orin", "mi210"}) {
    const GpuParams gpu = part(name);
    GpuParams slow = gpu;
    slow.memory_bandwidth /= 2;
    const auto kernels = [](std::int64_t rows, std::int64_t width) {
      return std::vector<Kernel>{norm_kernel(Norm::rms, rows, width, kType),
                                 norm_kernel(Norm::layer, rows, width, kType),
                                 softmax_kernel(rows, width, kType),
                                 activation_kernel(Activation::silu, true, rows, width, kType),
                                 activation_kernel(Activation::gelu, false, rows, width, kType),
                                 rope_kernel(rows, width / 64, width / 64, 64, kType),
                                 residual_kernel(rows, width, kType)};
    };
    for (const std::int64_t width : {64, 512, 2048, 8192, 32768}) {
      std::vector<double> before(7, 0);
      for (const std::int64_t rows : {1, 2, 16, 108, 216, 217, 1000, 10000, 100000}) {
        const auto all = kernels(rows, width), wider = kernels(rows, 2 * width);
        for (std::size_t i = 0; i < all.size(); ++i) {
          INFO(name << " kernel " << i << " rows " << rows << " width " << width);
          const double s = pass_s(gpu, all[i]);
          CHECK(s >= before[i]);
          CHECK(pass_s(slow, all[i]) >= s);
          CHECK(pass_s(gpu, wider[i]) >= 0.97 * s);  // a row that fills its block better may gain a little
          before[i] = s;
        }
      }
    }
  }
}

TEST_CASE("large passes come near the memory's rate, row kernels stay below", "[prop]") {
  const GpuParams gpu = part("a100-sxm4-80gb");
  const auto rate = [&](const Kernel& kernel) {
    const Work work = work_of(kernel);
    return (work.read_bytes + work.write_bytes) / pass_s(gpu, kernel);
  };
  CHECK(rate(residual_kernel(65536, 8192, kType)) > 0.85 * gpu.memory_bandwidth);
  CHECK(rate(norm_kernel(Norm::rms, 65536, 8192, kType)) < 0.5 * gpu.memory_bandwidth);
}

TEST_CASE("A compiler's block takes several narrow rows", "[unit]") {
  // Eight million elements in rows of 1,024 and of 128: as many blocks, of as many elements.
  const GpuParams gpu = part("a100-sxm4-80gb");
  const auto time = [&](std::int64_t rows, std::int64_t width, Pass pass) {
    return tiled_streaming(gpu, {rows * width * 2, rows * width * 2, 0, rows, pass}, OpClass::norm, DType::bf16).time_s;
  };
  CHECK(time(1 << 16, 128, Pass::compiled) == Approx(time(1 << 13, 1024, Pass::compiled)));
}

TEST_CASE("What goes one by one takes 91 slots an element, however few its bytes", "[unit]") {
  const GpuParams gpu = part("h100-sxm5-80gb");
  const auto time = [&](const GpuParams& on, std::int64_t elements, std::int64_t bytes, Pass pass) {
    return tiled_streaming(on, {bytes / 2, bytes / 2, elements, elements, pass}, OpClass::residual, DType::bf16).time_s;
  };
  // 2^28 elements at 91 slots on 132 SMs of 128 lanes at 1.98 GHz: 730.2 us; 1 GiB at 3.35 TB/s is 320.5 us.
  const std::int64_t elements = 1 << 28, bytes = std::int64_t{1} << 30;
  const double issue_s = 91.0 * static_cast<double>(elements) / (132 * 128 * 1.98e9);
  CHECK(issue_s == Approx(730.2e-6).epsilon(1e-3));
  CHECK(time(gpu, elements, bytes, Pass::one_by_one) > issue_s);
  CHECK(time(gpu, elements, bytes, Pass::one_by_one) == Approx(issue_s).epsilon(0.01));  // the norm of four adds 0.9 %
  CHECK(time(gpu, elements, bytes, Pass::elementwise) < 0.5 * issue_s);
  GpuParams twice = gpu;
  twice.sms *= 2;
  CHECK(time(twice, elements, bytes / 16, Pass::one_by_one) ==
        Approx(time(gpu, elements, bytes / 16, Pass::one_by_one) / 2).epsilon(0.01));
}

TEST_CASE("An update of many tensors walks a chunk at the least, and once more for each launch", "[unit]") {
  const GpuParams gpu = part("h100-sxm5-80gb");
  const auto time = [&](std::int64_t elements, Pass kind = Pass::many_tensors) {
    const Streaming pass{16 * elements, 12 * elements, 14 * elements, elements, kind};
    return tiled_streaming(gpu, pass, OpClass::residual, DType::fp32).time_s;
  };
  constexpr std::int64_t kChunk = 65536;
  // One chunk: 32 iterations of 512 threads with four elements each. A quarter of it walks a quarter of them.
  CHECK(time(kChunk) == Approx(26.7e-6).epsilon(0.03));  // as measured
  CHECK(time(kChunk / 4) == Approx(time(kChunk) / 4).epsilon(0.1));
  CHECK(time(100 * kChunk) - time(99 * kChunk) < 1e-6);  // side by side: memory alone
  // 28 bytes an element at 3.35 TB/s, and a walk for each 320 chunks: 587 MB are 175 us.
  const double launch_s = time(640 * kChunk) - time(320 * kChunk);
  CHECK(launch_s == Approx(28.0 * 320 * kChunk / 3.35e12 + time(kChunk)).epsilon(0.02));
  // One tensor of a list walks its share: a chunk a 320th of a launch, a full launch as much as the list of it alone.
  CHECK(time(kChunk, Pass::tensor_of_many) < 0.1 * time(kChunk));
  CHECK(time(640 * kChunk, Pass::tensor_of_many) == time(640 * kChunk));
}

}  // namespace test_tiled_stream
