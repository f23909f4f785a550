#include "hw/npu/bytecode.hpp"

#include <algorithm>
#include <cmath>

#include "hw/base/arithmetic.hpp"
#include "hw/base/real.hpp"
#include "hw/npu/npu_gemm.hpp"

namespace orrery::hw {
namespace {

constexpr std::int64_t kElementwiseBytes = 16, kReduceBytes = 24, kWideBytes = 56;  // dvm src/isa.h
constexpr std::int64_t kReservedBytes = 512;                                        // dvm src/system.cc
constexpr std::int64_t kLeastTile = 32;

std::int64_t simd_of(const FusedOp& op) {
  return op.elementwise + op.reduces + op.wide;
}

/// Pipes of one tile on one vector core.
struct Pipes {
  double load_s = 0, simd_s = 0, store_s = 0;
  double longest() const { return std::max(load_s, std::max(simd_s, store_s)); }
  double sum() const { return load_s + simd_s + store_s; }
};

/// `active` vector cores share the memory; bytes of one operand in a tile.
Pipes pipes_of(const NpuParams& npu, const BytecodeParams& params, double active, double loads, double simd,
               double stores, double bytes) {
  double rate = dram_rate(npu, std::min(active, d(npu.cores))) / active;  // tiles are spread over cores first
  if (npu.dma.unified > 0) rate = std::min(rate, npu.dma.unified * npu.clock_hz);
  const double vector_rate =
      d(npu.vector.bytes_per_cycle) / d(params.vector_cores) * npu.vector.efficiency * npu.clock_hz;
  return {loads * bytes / rate, simd * bytes / vector_rate, stores * bytes / rate};
}

/// Time from launch to end of a vector kernel; fills tiles, waves, pipe_s and decode_s of `out`.
double vector_device_s(const NpuParams& npu, const BytecodeParams& params, const FusedOp& op, std::int64_t elements,
                       double decode_s, RuntimeTimes& out) {
  const std::int64_t element = bytes_of(op.dtype);
  const std::int64_t tile = std::max<std::int64_t>(1, tile_bytes_of(npu, params, op) / element);
  const std::int64_t cores = npu.cores * params.vector_cores;
  out.tiles = ceil_div(elements, tile);
  out.waves = ceil_div(out.tiles, cores);
  const double bytes = d(std::min(tile, elements) * element);
  const Pipes p =
      pipes_of(npu, params, d(std::min(out.tiles, cores)), d(op.loads), d(simd_of(op)), d(op.stores), bytes);
  out.pipe_s = p.longest();
  out.decode_s = decode_s;
  const double fixed = npu.launch_s + npu.memory_latency_s + npu.dma.fixed_s;
  return fixed + d(out.waves) * std::max(p.longest(), decode_s) + p.sum() - p.longest();
}

/// The same for a product, with SIMD over its tiles for a mix leaf.
double cube_device_s(const NpuParams& npu, const BytecodeParams& params, const FusedOp& op, const Gemm& gemm,
                     double decode_s, RuntimeTimes& out) {
  const NpuGemmPlan plan = plan_npu_gemm(npu, gemm, op.dtype);
  out.tiles = plan.tiles;
  out.waves = plan.waves;
  out.decode_s = decode_s;
  const double tile_s = d(plan.steps_per_tile) * (plan.steady_s + npu.step_s);
  double pipe_s = tile_s, fill_s = 0;
  if (op.leaf == LeafKind::mix) {
    const double bytes = d(plan.tile_m) * d(plan.tile_n) * d(bytes_of(op.dtype)) / d(params.vector_cores);
    const double active = d(plan.active * params.vector_cores);
    const Pipes p = pipes_of(npu, params, active, d(op.loads), d(simd_of(op)), 0, bytes);  // the plan stores results
    pipe_s = std::max(tile_s, p.longest());
    fill_s = p.simd_s;
  }
  out.pipe_s = pipe_s;
  return npu.launch_s + plan.time_s + fill_s + d(plan.waves) * (std::max(pipe_s, decode_s) - tile_s);
}

double fused_device_s(const NpuParams& npu, const BytecodeParams& params, const FusedOp& op, std::int64_t bucket,
                      double decode_s, RuntimeTimes& out) {
  if (op.leaf == LeafKind::vector)
    return vector_device_s(npu, params, op, round_up(op.elements, bucket), decode_s, out);
  Gemm gemm = op.gemm;
  gemm.m = round_up(gemm.m, bucket);
  return cube_device_s(npu, params, op, gemm, decode_s, out);
}

/// One kernel an operation: two operands in and one result out, but no more loads than the fused operator has in all.
RuntimeTimes per_op_times(const NpuParams& npu, const BytecodeParams& params, const FusedOp& op) {
  RuntimeTimes out;
  // A leaf without SIMD instructions is a copy, and a kernel too.
  const std::int64_t simd = op.leaf == LeafKind::vector ? std::max<std::int64_t>(1, simd_of(op)) : simd_of(op);
  out.launches = simd + (op.leaf == LeafKind::vector ? 0 : 1);
  std::int64_t outside = op.loads;  // operands that no earlier operation made
  FusedOp one{.dtype = op.dtype};
  one.elements = op.leaf == LeafKind::vector ? op.elements : op.gemm.m * op.gemm.n * op.gemm.batch;
  one.elementwise = 1;
  if (op.leaf != LeafKind::vector) {
    out.device_s +=
        cube_device_s(npu, params, {.leaf = LeafKind::cube, .gemm = op.gemm, .dtype = op.dtype}, op.gemm, 0, out);
  } else {
    --outside;
  }
  for (std::int64_t i = 0; i < simd; ++i) {
    const std::int64_t left = simd - i;
    const std::int64_t extra = std::min<std::int64_t>(outside, ceil_div(std::max<std::int64_t>(outside, 0), left));
    one.loads = 1 + std::max<std::int64_t>(extra, 0);
    outside -= extra;
    out.device_s += vector_device_s(npu, params, one, one.elements, 0, out);
  }
  out.normalize_s = d(out.launches) * params.dispatch_s;
  out.submit_s = d(out.launches) * params.submit_s;
  out.instructions = instructions_of(op);
  return out;
}

bool is_nothing(const FusedOp& op) {
  if (op.leaf == LeafKind::vector) return op.elements <= 0;
  return op.gemm.m <= 0 || op.gemm.n <= 0 || op.gemm.k <= 0 || op.gemm.batch <= 0;
}

}  // namespace

std::int64_t instructions_of(const FusedOp& op) {
  return op.loads + op.stores + simd_of(op) + (op.leaf == LeafKind::vector ? 0 : 1);
}

std::int64_t code_bytes_of(const FusedOp& op, const BytecodeParams& params) {
  const std::int64_t moves = op.loads + op.stores + (op.leaf == LeafKind::vector ? 0 : 1);
  return moves * params.load_store_bytes + op.elementwise * kElementwiseBytes + op.reduces * kReduceBytes +
         op.wide * kWideBytes;
}

std::int64_t tile_bytes_of(const NpuParams& npu, const BytecodeParams& params, const FusedOp& op) {
  const std::int64_t buffer = npu.scratch.unified > 0 ? npu.scratch.unified : npu.scratch.l1;
  const std::int64_t room = buffer - kReservedBytes - code_bytes_of(op, params);
  const std::int64_t operands = 2 * (op.loads + op.stores + 1);  // double-buffered, and one temporary
  const std::int64_t tile = std::min(params.tile_bytes, room / std::max<std::int64_t>(1, operands));
  return std::max(kLeastTile, tile / kLeastTile * kLeastTile);
}

RuntimeTimes runtime_times(const NpuParams& npu, const BytecodeParams& params, const FusedOp& op, RuntimeMode mode,
                           bool new_shape) {
  if (is_nothing(op)) return {};
  if (mode == RuntimeMode::per_op) return per_op_times(npu, params, op);
  RuntimeTimes out;
  out.launches = 1;
  out.instructions = instructions_of(op);
  out.submit_s = params.submit_s;
  if (mode != RuntimeMode::bytecode) {
    if (mode == RuntimeMode::jit && new_shape) out.compile_s = params.compile_s;
    out.device_s = fused_device_s(npu, params, op, mode == RuntimeMode::aot ? params.bucket : 1, 0, out);
    return out;
  }
  const double n = d(out.instructions);
  out.code_bytes = code_bytes_of(op, params);
  out.normalize_s = new_shape ? params.normalize_s : 0.0;
  out.encode_s = new_shape ? params.encode_fixed_s + n * params.encode_instruction_s : params.relocate_s;
  out.device_s = fused_device_s(npu, params, op, 1, n * params.decode_s, out);
  const double core_rate = npu.dma.unified > 0 ? npu.dma.unified * npu.clock_hz : dram_rate(npu, 1);
  out.device_s += d(out.code_bytes) / core_rate;
  return out;
}

double stream_s(const RuntimeTimes& call, std::int64_t calls, HostThreads threads) {
  if (calls <= 0) return 0;
  const double host = call.host_s(), sum = host + call.device_s, more = d(calls - 1);
  switch (threads) {
    case HostThreads::serial:
      return d(calls) * sum;
    case HostThreads::one_ahead:
      return sum + more * std::max(host, call.device_s);
    case HostThreads::phased:
      return sum + more * std::max(std::max(call.normalize_s, call.encode_s), std::max(call.submit_s, call.device_s));
  }
  return 0;
}

}  // namespace orrery::hw
