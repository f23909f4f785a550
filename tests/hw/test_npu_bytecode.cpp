// Bytecode on an NPU: sizes and times by hand, modes against each other, and the host and device queue as processes.
#include <catch2/catch.hpp>
#include <cstdint>

#include "hw/npu/bytecode.hpp"
#include "sim/channel.hpp"
#include "sim/engine.hpp"
#include "sim/process.hpp"
#include "sim/resources.hpp"
#include "tests/hw/npu_pipeline.hpp"
#include "tests/hw/npus.hpp"

namespace test_npu_bytecode {

using namespace orrery;
using namespace orrery::hw;

namespace {

const BytecodeParams kRuntime;

/// bias, scale, GELU-like chain over `elements`: two operands in, one out, seven elementwise instructions.
FusedOp chain(std::int64_t elements) {
  return {.loads = 2, .stores = 1, .elementwise = 7, .elements = elements};
}

using Calls = sim::Channel<std::int64_t>;

sim::Process source(sim::Engine& engine, std::int64_t calls, double seconds, Calls& to) {
  for (std::int64_t i = 0; i < calls; ++i) {
    co_await engine.delay(test::ticks(seconds));
    co_await to.send(i);
  }
}
sim::Process stage(sim::Engine& engine, std::int64_t calls, Calls& from, double seconds, Calls& to) {
  for (std::int64_t i = 0; i < calls; ++i) {
    co_await from.receive();
    co_await engine.delay(test::ticks(seconds));
    co_await to.send(i);
  }
}
sim::Process device(sim::Engine& engine, std::int64_t calls, Calls& queue, double seconds) {
  for (std::int64_t i = 0; i < calls; ++i) {
    co_await queue.receive();
    co_await engine.delay(test::ticks(seconds));
  }
}

/// Host phases and a device, each a process, joined by channels of `room` calls; s from first call to last completion.
double run_s(const RuntimeTimes& call, std::int64_t calls, bool phased, std::int64_t room) {
  sim::Engine engine;
  Calls normalized(engine, "normalized", room), encoded(engine, "encoded", room), queue(engine, "queue", room);
  if (phased) {
    engine.processes().spawn("normalize", source(engine, calls, call.normalize_s, normalized));
    engine.processes().spawn("encode", stage(engine, calls, normalized, call.encode_s, encoded));
    engine.processes().spawn("submit", stage(engine, calls, encoded, call.submit_s, queue));
  } else {
    engine.processes().spawn("host", source(engine, calls, call.host_s(), queue));
  }
  engine.processes().spawn("device", device(engine, calls, queue, call.device_s));
  engine.run();
  return static_cast<double>(engine.now().ticks) * 1e-12;
}

}  // namespace

TEST_CASE("instruction sizes are DVM's", "[golden]") {
  // dvm src/isa.h: elementwise 16 B, reduction 24 B, longest SIMD 56 B, longest load or store 120 B.
  const FusedOp op{.loads = 2, .stores = 1, .elementwise = 3, .reduces = 1, .wide = 1, .elements = 1000};
  CHECK(instructions_of(op) == 8);
  CHECK(code_bytes_of(op, kRuntime) == 3 * 120 + 3 * 16 + 24 + 56);
  FusedOp mix = op;
  mix.leaf = LeafKind::mix;
  CHECK(instructions_of(mix) == 9);
  CHECK(code_bytes_of(mix, kRuntime) == 4 * 120 + 3 * 16 + 24 + 56);
}

TEST_CASE("a tile leaves room for the code and every operand twice", "[unit]") {
  const NpuParams npu = test::npu("ascend-910b2");
  CHECK(tile_bytes_of(npu, kRuntime, chain(1 << 20)) == 16384);  // 8 buffers of 16 KiB in 192 KiB
  FusedOp many = chain(1 << 20);
  many.loads = 20;  // (196608 - 512 - (21*120 + 7*16)) / 44 = 4397.1 -> a multiple of 32
  CHECK(tile_bytes_of(npu, kRuntime, many) == 4384);
  many.loads = 100000;
  CHECK(tile_bytes_of(npu, kRuntime, many) == 32);
}

TEST_CASE("the encode of a typical fused operator is about 100 us", "[unit]") {
  // The anchor: DVM's tutorial. Ten instructions: 20 + 30 + 10 * 5 us.
  const RuntimeTimes t =
      runtime_times(test::npu("ascend-910b2"), kRuntime, chain(1 << 22), RuntimeMode::bytecode, true);
  CHECK(t.instructions == 10);
  CHECK(t.normalize_s + t.encode_s == Approx(100e-6));
  CHECK(t.launches == 1);
  // A shape seen before is relocated.
  const RuntimeTimes again =
      runtime_times(test::npu("ascend-910b2"), kRuntime, chain(1 << 22), RuntimeMode::bytecode, false);
  CHECK(again.host_s() == Approx(kRuntime.relocate_s + kRuntime.submit_s));
  CHECK(again.device_s == t.device_s);
}

TEST_CASE("device time by hand", "[unit]") {
  // One core with one vector core at 1 GHz and 256 B a cycle beside 1 TB/s: tiles of 16 KiB, 2 loads 32.768 ns, 7 SIMD
  // instructions 448 ns, store 16.384 ns; 10 instructions at 50 ns are 500 ns and win. 128 Ki elements of 2 bytes are
  // 16 tiles. Code: 3 * 120 + 7 * 16 = 472 bytes.
  BytecodeParams params;
  params.vector_cores = 1;
  const NpuParams npu = test::simple_npu();
  const RuntimeTimes t = runtime_times(npu, params, chain(128 << 10), RuntimeMode::bytecode, true);
  CHECK(t.tiles == 16);
  CHECK(t.waves == 16);
  CHECK(t.pipe_s == Approx(448e-9));
  CHECK(t.device_s == Approx(16 * 500e-9 + (32.768 + 16.384) * 1e-9 + 0.472e-9));
  // Ahead of time nothing is decoded.
  CHECK(runtime_times(npu, params, chain(128 << 10), RuntimeMode::aot, true).device_s ==
        Approx(16 * 448e-9 + (32.768 + 16.384) * 1e-9));
}

TEST_CASE("large tiles hide decoding, tiny shapes expose it", "[prop]") {
  const NpuParams npu = test::npu("ascend-910b2");
  const auto overhead = [&](const FusedOp& op, const BytecodeParams& params) {
    const double aot = runtime_times(npu, params, op, RuntimeMode::aot, false).device_s;
    return runtime_times(npu, params, op, RuntimeMode::bytecode, false).device_s / aot - 1;
  };
  CHECK(overhead(chain(64 << 20), kRuntime) < 0.01);
  // With tiles of 256 bytes the decoder is what runs.
  BytecodeParams small;
  small.tile_bytes = 256;
  CHECK(overhead(chain(64 << 20), small) > 1);
  // A tiny shape has one tile, shorter than its decoding.
  const RuntimeTimes tiny = runtime_times(npu, kRuntime, chain(64), RuntimeMode::bytecode, false);
  CHECK(tiny.tiles == 1);
  CHECK(tiny.decode_s > tiny.pipe_s);
  double before = 1e9;
  for (std::int64_t bytes = 256; bytes <= 16384; bytes *= 2) {  // coarser tiles never cost more on a large shape
    small.tile_bytes = bytes;
    const double now = overhead(chain(64 << 20), small);
    CHECK(now <= before + 1e-9);
    before = now;
  }
}

TEST_CASE("modes against each other", "[prop]") {
  const NpuParams npu = test::npu("ascend-910b2");
  for (const std::int64_t elements : {1000, 100'000, 10'000'000}) {
    const FusedOp op = chain(elements);
    const RuntimeTimes eager = runtime_times(npu, kRuntime, op, RuntimeMode::per_op, true);
    const RuntimeTimes aot = runtime_times(npu, kRuntime, op, RuntimeMode::aot, true);
    const RuntimeTimes jit = runtime_times(npu, kRuntime, op, RuntimeMode::jit, true);
    const RuntimeTimes code = runtime_times(npu, kRuntime, op, RuntimeMode::bytecode, true);
    CHECK(eager.launches == 7);
    CHECK(eager.device_s > code.device_s);  // seven launches, and intermediates through memory
    CHECK(code.device_s >= aot.device_s);
    CHECK(jit.device_s == aot.device_s);
    CHECK(jit.compile_s == kRuntime.compile_s);
    CHECK(runtime_times(npu, kRuntime, op, RuntimeMode::jit, false).compile_s == 0);
    CHECK(aot.compile_s == 0);
    CHECK(code.compile_s == 0);
  }
  // Padding to a bucket of 4096 rows makes a product of 2049 rows that of 4096.
  BytecodeParams padded;
  padded.bucket = 4096;
  FusedOp product{.leaf = LeafKind::cube, .loads = 0, .stores = 0, .gemm = {2049, 4096, 4096}};
  FusedOp whole = product;
  whole.gemm.m = 4096;
  CHECK(runtime_times(npu, padded, product, RuntimeMode::aot, false).device_s ==
        runtime_times(npu, kRuntime, whole, RuntimeMode::aot, false).device_s);
  CHECK(runtime_times(npu, padded, product, RuntimeMode::bytecode, false).device_s <
        runtime_times(npu, padded, product, RuntimeMode::aot, false).device_s);
}

TEST_CASE("a mixed leaf overlaps its product and its SIMD instructions", "[prop]") {
  const NpuParams npu = test::npu("ascend-910b2");
  const FusedOp cube{.leaf = LeafKind::cube, .loads = 0, .stores = 0, .gemm = {4096, 4096, 4096}};
  FusedOp mix = cube;
  mix.leaf = LeafKind::mix;
  mix.elementwise = 2;
  const double product = runtime_times(npu, kRuntime, cube, RuntimeMode::bytecode, false).device_s;
  const double both = runtime_times(npu, kRuntime, mix, RuntimeMode::bytecode, false).device_s;
  const double apart = runtime_times(npu, kRuntime, mix, RuntimeMode::per_op, false).device_s;
  CHECK(both >= product);
  CHECK(both < apart);
  CHECK(runtime_times(npu, kRuntime, mix, RuntimeMode::per_op, false).launches == 3);
}

TEST_CASE("nothing to run costs nothing", "[unit]") {
  for (const RuntimeMode mode : {RuntimeMode::per_op, RuntimeMode::aot, RuntimeMode::jit, RuntimeMode::bytecode}) {
    CHECK(runtime_times(test::npu("ascend-910b2"), kRuntime, chain(0), mode, true).device_s == 0);
    CHECK_FALSE(to_string(mode).empty());
  }
  CHECK(stream_s({}, 0, HostThreads::serial) == 0);
}

TEST_CASE("host and device as processes agree with the closed forms", "[prop]") {
  const NpuParams npu = test::npu("ascend-910b2");
  for (const std::int64_t elements : {1000, 1'000'000, 100'000'000})
    for (const bool new_shape : {false, true}) {
      const RuntimeTimes t = runtime_times(npu, kRuntime, chain(elements), RuntimeMode::bytecode, new_shape);
      for (const std::int64_t calls : {1, 2, 50}) {
        INFO(elements << " new " << new_shape << " calls " << calls);
        CHECK(run_s(t, calls, false, 8) == Approx(stream_s(t, calls, HostThreads::one_ahead)).epsilon(1e-6));
        CHECK(run_s(t, calls, true, 8) == Approx(stream_s(t, calls, HostThreads::phased)).epsilon(1e-6));
      }
    }
}

TEST_CASE("dynamic shapes of small operators are bound by the host unless its phases are pipelined", "[prop]") {
  const NpuParams npu = test::npu("ascend-910b2");
  const RuntimeTimes small = runtime_times(npu, kRuntime, chain(100'000), RuntimeMode::bytecode, true);
  REQUIRE(small.host_s() > small.device_s);
  const double calls = 1000;
  CHECK(run_s(small, 1000, false, 8) / calls == Approx(small.host_s()).epsilon(0.01));
  CHECK(run_s(small, 1000, true, 8) / calls == Approx(small.encode_s).epsilon(0.01));  // the longest phase
  CHECK(run_s(small, 1000, true, 8) < run_s(small, 1000, false, 8));
  // A large operator hides the host altogether.
  const RuntimeTimes large = runtime_times(npu, kRuntime, chain(200'000'000), RuntimeMode::bytecode, true);
  REQUIRE(large.host_s() < large.device_s);
  CHECK(run_s(large, 100, false, 8) / 100 == Approx(large.device_s).epsilon(0.02));
}

}  // namespace test_npu_bytecode
