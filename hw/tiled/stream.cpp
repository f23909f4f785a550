#include "hw/tiled/stream.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "hw/base/real.hpp"

namespace orrery::hw {
namespace {

/// A library's kernel. Slots are issue slots of one warp for one iteration, stalls of its own included; fitted to
/// elementwise/{a100,h100,a40} (Vidur), layers/llmcompass (A100) and edge/layernorm_orin, the same for all devices.
struct Style {
  std::int64_t threads;    ///< of a block, at most
  double vector;           ///< elements (or pairs) a thread takes in an iteration
  double slots;            ///< a warp and iteration
  double chain_cycles;     ///< dependent arithmetic of an iteration that nothing hides
  double overhead_cycles;  ///< of a block: start, reductions across the block, end
  double sweeps;           ///< further reads of the row
  double slots_per_flop;   ///< elementwise kernels: instructions of a thread for each FLOP counted
};

constexpr double kLanes = 128;     // instructions that the four schedulers of an SM issue a clock, in threads
constexpr double kSchedulers = 4;  // of an SM
constexpr double kWarp = 32;
constexpr std::int64_t kMaxBlocksPerSm = 32;
constexpr std::int64_t kSoftmaxWarpColumns = 1024;  // PyTorch gives shorter rows to single warps
// Of an element of PyTorch's kernels that are not vectorised: three divisions for its place, or a switch on its type.
// From the largest products with a broadcast row of the H100 (experiments/measured/stream, 16,384 tokens).
constexpr double kElementSlots = 91;
// Of PyTorch's update of many tensors: elements of a chunk, and chunks of a launch (multi_tensor_apply.cuh). The stalls
// of an iteration are from a chunk alone, 26.7 us on the H100 (experiments/measured/stream, adam of 64 x 1,024).
constexpr double kChunk = 65536;
constexpr double kChunksPerLaunch = 320;
constexpr double kCompiledBlock = 1024;  // elements: compilers let a block take several rows of fewer

constexpr std::array<Style, 14> kStyles{{
    {0, 0, 0, 0, 0, 0, 0},           // by_class: resolved before use
    {0, 0, 0, 0, 0, 0, 5.75},        // elementwise: PyTorch's vectorised kernels, fp32 inside
    {1024, 1, 55, 0, 950, 1, 0},     // rms_norm: vLLM
    {128, 4, 133, 976, 835, 1, 0},   // layer_norm: PyTorch, running mean and variance (Welford)
    {1024, 1, 55, 0, 950, 0, 0},     // gated_activation: vLLM
    {512, 1, 113, 0, 950, 0, 0},     // rope: vLLM, an iteration is a pair
    {1024, 8, 500, 0, 1170, 2, 0},   // softmax: PyTorch; maximum, sum, result
    {1024, 2, 89, 0, 755, 0, 0},     // stored_norm: CUTLASS, two elements a load
    {256, 8, 6.5, 0, 4870, 2, 4.2},  // compiled: code of a compiler for one operation, norms in three sweeps
    {0, 0, 0, 0, 0, 0, 5.75},        // expert_sort: a time of its own (hw/tiled/grouped.hpp)
    {0, 0, 0, 0, 0, 0, 5.75},        // expert_sum
    {0, 0, 0, 0, 0, 0, 5.75},        // one_by_one: beside kElementSlots
    {512, 4, 0, 1380, 0, 0, 0},      // many_tensors: PyTorch's multi_tensor_apply
    {512, 4, 0, 1380, 0, 0, 0},      // tensor_of_many
}};

/// The grid that a style makes of a pass.
struct Grid {
  double rows = 0;     ///< thread blocks
  double threads = 1;  ///< of a block
  double iterations = 1;
  double slots = 0;  ///< of an iteration
};

Grid grid_of(const Style& style, const Streaming& s, Pass pass, DType dtype) {
  double width = std::max(1.0, d(s.write_bytes) / d(s.rows) / d(bytes_of(dtype)));
  if (pass == Pass::rope) width = std::max(2.0, width / 2);
  Grid g{d(s.rows), d(style.threads), 1, style.slots};
  if (pass == Pass::softmax && width <= d(kSoftmaxWarpColumns)) {  // four rows a block, a warp each
    g.rows = std::ceil(g.rows / 4);
    g.threads = 4 * kWarp;
    g.slots = style.slots / style.vector * std::max(1.0, width / kWarp);
    return g;
  }
  if (pass == Pass::compiled && width < kCompiledBlock) {
    const double together = std::floor(kCompiledBlock / width);
    g.rows = std::ceil(g.rows / together);
    width *= together;
  }
  // The rotary kernel walks over queries, then over keys: no block is wider than the queries, half or more of the row.
  const double most = pass == Pass::rope ? width / 2 : width / style.vector;
  g.threads = std::clamp(most, kWarp, g.threads);
  g.iterations = std::max(1.0, width / style.vector / g.threads);
  return g;
}

}  // namespace

Pass resolve_pass(const Streaming& s, OpClass op) {
  for (const Pass own :
       {Pass::expert_sort, Pass::expert_sum, Pass::one_by_one, Pass::many_tensors, Pass::tensor_of_many})
    if (s.pass == own) return own;
  if (s.rows <= 0 || s.write_bytes <= 0) return s.pass == Pass::compiled ? Pass::compiled : Pass::elementwise;
  if (s.pass != Pass::by_class) return s.pass;
  if (op == OpClass::norm) return Pass::rms_norm;
  if (op == OpClass::rope) return Pass::rope;
  if (op == OpClass::softmax) return Pass::softmax;
  if (op == OpClass::activation && s.read_bytes >= 2 * s.write_bytes) return Pass::gated_activation;
  return Pass::elementwise;
}

double hot_share(const GpuParams& gpu, double bytes) {
  if (bytes <= 0) return 1;
  return saturating(gpu.stream.l2_reach * d(gpu.l2_bytes) / bytes);
}

TiledTime tiled_streaming(const GpuParams& gpu, const Streaming& s, OpClass op, DType dtype) {
  const StreamConstants& c = gpu.stream;
  const double bytes = d(s.read_bytes) + d(s.write_bytes);
  const Pass pass = resolve_pass(s, op);
  const Style& style = kStyles[static_cast<std::size_t>(pass)];
  const double hot = hot_share(gpu, bytes);
  TiledTime t;
  t.dram_bytes = bytes;
  t.fixed_s = c.fixed_s;
  double cold_bytes = bytes * (1 - hot);
  double busy_s = 0;
  if (pass == Pass::many_tensors || pass == Pass::tensor_of_many) {
    // A launch ends with its slowest chunk, which a block walks alone once memory has nothing else to bring.
    const double iteration_s = c.latency_s + style.chain_cycles / gpu.clock_hz;
    const double chunk_s = kChunk / style.vector / d(style.threads) * iteration_s;
    const double chunks = d(s.rows) / kChunk;
    const double least = pass == Pass::many_tensors ? std::min(1.0, chunks) : 0;
    const double launches = std::max(least, chunks / kChunksPerLaunch);
    t.fixed_s += launches * chunk_s;
  } else if (style.threads == 0 || s.rows <= 0) {
    double slots = std::max(style.slots_per_flop, 1.0) * d(s.flops);
    if (pass == Pass::one_by_one) slots = std::max(slots, kElementSlots * d(s.rows));
    t.compute_s = slots / (d(gpu.sms) * kLanes * gpu.clock_hz);
    busy_s = t.compute_s;
  } else {
    const Grid g = grid_of(style, s, pass, dtype);
    const double warps = std::ceil(g.threads / kWarp);
    const double sms = d(gpu.sms);
    const double most =
        std::clamp(std::floor(d(c.threads_per_sm) / (warps * kWarp)), 1.0, static_cast<double>(kMaxBlocksPerSm));
    const double latency_s = c.latency_s + (1 - hot) * c.miss_latency_s + style.chain_cycles / gpu.clock_hz;
    const double issue_s = g.slots * warps / (kSchedulers * gpu.clock_hz);
    const auto wave_s = [&](double blocks) {
      return style.overhead_cycles / gpu.clock_hz + g.iterations * (latency_s + blocks * issue_s);
    };
    const double full = std::floor(g.rows / (sms * most));
    const double rest = g.rows - full * sms * most;
    busy_s = full * wave_s(most) + (rest > 0 ? wave_s(std::ceil(rest / sms)) : 0.0);
    t.compute_s = g.rows / sms * g.iterations * issue_s;
    if (style.sweeps > 0) {
      const double in_flight = std::min(g.rows, sms * most) * d(s.write_bytes) / g.rows;
      const double miss = 1 - hot_share(gpu, 2 * in_flight);
      const double again = style.sweeps * d(s.read_bytes) * miss * (1 - hot);
      cold_bytes += again;
      t.dram_bytes += again;
    }
  }
  const double memory_rate = gpu.memory_bandwidth * c.share;
  const double l2_rate =
      std::max(memory_rate, gpu.l2_bandwidth * c.l2_share);  // a cache is never the slower of the two
  t.compute_s = std::max(t.compute_s, d(s.flops) / gpu.peak.fp32);
  busy_s = std::max(busy_s, t.compute_s);
  t.memory_s = cold_bytes / memory_rate + bytes * hot / l2_rate;
  t.time_s = t.fixed_s + norm4(busy_s, t.memory_s);
  if (pass == Pass::expert_sum) t.time_s /= gpu.moe.combine_share;
  if (pass == Pass::expert_sort) t.time_s += gpu.moe.sort_s;
  return t;
}

}  // namespace orrery::hw
