// A GPU as the cost models see it: published facts, and the few constants of the `tiled` model.
//
// Facts (peaks, sizes, bandwidths, power) come from data sheets and micro-benchmarks. The constants of the nested
// blocks are fitted to measured kernels, a handful per family, and stand with their sources in hw/catalog/*.json; the
// equations they belong to are in hw/tiled/tiled.hpp. Left out: temperature, ECC, MIG, sparsity, paging.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hw/base/kernel.hpp"
#include "hw/base/power.hpp"
#include "hw/gpu/area.hpp"
#include "hw/gpu/attention.hpp"
#include "hw/gpu/dvfs.hpp"
#include "hw/network/link.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

/// How kernels reach the device: one by one through a stream, or as nodes of a captured graph.
enum class LaunchMode : std::uint8_t { stream, graph };
constexpr auto enum_names(LaunchMode) {
  using enum LaunchMode;
  return sim::names<LaunchMode>({{"stream", stream}, {"graph", graph}});
}

/// Peak rates in FLOP/s (dense; a multiply-add is two). 0: the device has no such units.
struct PeakFlops {
  double fp32 = 0, fp16 = 0, bf16 = 0, fp8 = 0, int8 = 0, fp4 = 0;
  static sim::FieldRows<PeakFlops> fields();
};

/// Constants of `tiled` for matrix products, shared by a family: shares of data-sheet rates, and cycles of the clock.
struct GemmConstants {
  double efficiency = 0.95;
  double fill_k = 200;
  double wave_smoothing = 0.3;
  double memory_efficiency = 0.8;
  double k_cycles = 5;
  double l2_delivery = 1;
  double multicast = 1;
  double fixed_cycles = 3000;
  double split_cycles = 3000;
  double split_traffic = 1;
  double exposed_write = 0;
  double unsplit_below = 0;
  double unsplit_k = 0;
  double l2_full = 0.3;
  double l2_none = 1;
  double peak_power = 1;
  static sim::FieldRows<GemmConstants> fields();
};

/// Constants of `tiled` for passes over memory; equations in hw/tiled/stream.hpp.
struct StreamConstants {
  double share = 0.9, l2_share = 0.5, l2_reach = 0.8;
  double latency_s = 0.15e-6, miss_latency_s = 0.3e-6;
  std::int64_t threads_per_sm = 2048;
  double fixed_s = 0;
  static sim::FieldRows<StreamConstants> fields();
};

/// Constants of `tiled` for grouped products and fused MoE layers; equations in hw/tiled/grouped.hpp.
struct MoeConstants {
  double efficiency = 0.8;
  double memory_efficiency = 0.91;
  double cta_bandwidth = 46e9;
  double block_start_s = 3e-6;
  double wave_smoothing = 1;
  double l2_delivery = 0.9;
  double l2_reach = 0.2;
  double unaligned_rate = 1.9;
  double combine_share = 0.5;
  double sort_s = 12.5e-6;
  double remote_s = 10e-6;
  static sim::FieldRows<MoeConstants> fields();
};

/// One GPU. Sizes in bytes, rates per s, times in s.
struct GpuParams {
  static constexpr std::string_view kKind = "gpu";
  PeakFlops peak;
  std::int64_t sms = 0;
  double clock_hz = 0;
  std::int64_t l1_bytes = 0, l2_bytes = 0, memory_bytes = 0;
  std::int64_t l2_partitions = 1;
  double l2_bandwidth = 0, memory_bandwidth = 0;
  LaunchMode launch_mode = LaunchMode::graph;
  double launch_stream_s = 0, launch_graph_s = 0;
  LinkParams link;
  PowerParams power;
  DvfsParams dvfs;
  DieParams die;
  GemmConstants gemm;
  AttentionConstants attention;
  AttentionConstants flash2;
  StreamConstants stream;
  MoeConstants moe;

  static sim::FieldRows<GpuParams> fields();

  /// Faults that no single field shows: a unit that is wrong by a factor of 1000, powers or sizes that contradict each
  /// other.
  static void check(const GpuParams& gpu, const sim::Node& fields, sim::Faults& faults);

  /// Launch cost of a kernel in the chosen mode, s.
  double launch_s() const { return launch_mode == LaunchMode::graph ? launch_graph_s : launch_stream_s; }
};

/// Libraries of attention that the part has constants of: that of `attention`, and beside FlashAttention-3 the second.
std::vector<AttentionLibrary> attention_libraries(const GpuParams& gpu);
/// The part under a program whose attention is of this library; as it is for one that it has no constants of.
GpuParams with_attention(GpuParams gpu, AttentionLibrary library);
/// Whether the device has matrix units for `dtype`.
bool has_matrix_units(const GpuParams& gpu, DType dtype);
/// Peak rate of matrix units for `dtype`, FLOP/s. A format that the device lacks runs at the 16-bit rate.
double matrix_peak(const GpuParams& gpu, DType dtype);
/// Dynamic energy of a FLOP of matrix units, J.
double matrix_flop_energy(const GpuParams& gpu, DType dtype);

/// What matrix units do with weights of a format and activations of a dtype.
struct MatrixOperands {
  double peak = 0;        ///< FLOP/s
  double activation = 2;  ///< bytes of an element of the activations as the units read them
  double weight = 2;      ///< bytes of a weight, in memory and on the way to the units
  double flop_j = 0;
};
/// 8-bit weights, and nvfp4, are multiplied with activations turned into their own format where the device has such
/// units (W8A8, W4A4), mxfp4 with activations of 8 bits (W4A8: the form in which gpt-oss is served on Blackwell). Else,
/// and for int4 and smaller, weights are widened on their way (weight-only) and the rate is that of `dtype`. 4-bit
/// products take the energy of 8-bit ones a FLOP (an assumption: none is published).
MatrixOperands matrix_operands(const GpuParams& gpu, DType dtype, WeightFormat weights);

}  // namespace orrery::hw
