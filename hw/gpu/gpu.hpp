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
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("fp32", &PeakFlops::fp32, Unit::flop_per_s, sim::positive(), "Vector units.")),
        sim::required(sim::field("fp16", &PeakFlops::fp16, Unit::flop_per_s, sim::positive(), "Tensor units.")),
        sim::required(sim::field("bf16", &PeakFlops::bf16, Unit::flop_per_s, sim::positive(), "Tensor units.")),
        sim::field("fp8", &PeakFlops::fp8, Unit::flop_per_s, sim::at_least(0), "Tensor units; 0 where absent."),
        sim::field("int8", &PeakFlops::int8, Unit::flop_per_s, sim::at_least(0), "Tensor units; 0 where absent."),
        sim::field("fp4", &PeakFlops::fp4, Unit::flop_per_s, sim::at_least(0),
                   "Tensor units, both operands of 4 bits; 0 where absent."),
    };
  }
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
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("efficiency", &GemmConstants::efficiency, Unit::ratio, sim::between(0.01, 1.2),
                   "Share of the tensor peak in the steady state of a tile; above 1 where the part clocks higher than "
                   "its data sheet's peak."),
        sim::field("fill_k", &GemmConstants::fill_k, Unit::none, sim::at_least(0),
                   "Prologue and epilogue of a tile, as further steps of k of 16-bit operands."),
        sim::field("wave_smoothing", &GemmConstants::wave_smoothing, Unit::ratio, sim::between(0, 1),
                   "0: whole waves of tiles; 1: with many waves a last, partial one costs its share."),
        sim::field("memory_efficiency", &GemmConstants::memory_efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Share of the memory's peak that products reach."),
        sim::field("k_cycles", &GemmConstants::k_cycles, Unit::none, sim::at_least(0),
                   "Cycles of latency that a thread block cannot hide, a step of k of 16-bit operands."),
        sim::field("l2_delivery", &GemmConstants::l2_delivery, Unit::ratio, sim::between(0.01, 8),
                   "Operand bytes delivered to tiles per byte of L2 bandwidth."),
        sim::field("multicast", &GemmConstants::multicast, Unit::ratio, sim::between(1, 8),
                   "Times as many where a library loads operands once for a cluster of thread blocks."),
        sim::field("fixed_cycles", &GemmConstants::fixed_cycles, Unit::none, sim::at_least(0),
                   "Cycles of start and tail, beside the launch."),
        sim::field("split_cycles", &GemmConstants::split_cycles, Unit::none, sim::at_least(0),
                   "Cycles that a split-K reduction takes to start."),
        sim::field("split_traffic", &GemmConstants::split_traffic, Unit::ratio, sim::at_least(0),
                   "Bytes that a reduction moves at L2 bandwidth, per byte of its fp32 partial results."),
        sim::field("exposed_write", &GemmConstants::exposed_write, Unit::ratio, sim::between(0, 1),
                   "Share of the time to write C that no tile's arithmetic hides."),
        sim::field("unsplit_below", &GemmConstants::unsplit_below, Unit::none, sim::at_least(0),
                   "Multiply-adds below which the library never splits k, 0: it always may; not for vectors (m of 1)."),
        sim::field("unsplit_k", &GemmConstants::unsplit_k, Unit::none, sim::at_least(0),
                   "Length of k from which it splits small products too."),
        sim::field("l2_full", &GemmConstants::l2_full, Unit::ratio, sim::between(0, 2),
                   "Working set, as a share of an L2 partition, up to which repeated calls find all of it there."),
        sim::field("l2_none", &GemmConstants::l2_none, Unit::ratio, sim::between(0.01, 4),
                   "Working set from which they find nothing; above l2_full."),
        sim::field("peak_power", &GemmConstants::peak_power, Unit::ratio, sim::at_least(0),
                   "Dynamic power of the matrix units at their peak on random operands, as a share of the TDP."),
    };
  }
};

/// Constants of `tiled` for passes over memory; equations in hw/tiled/stream.hpp.
struct StreamConstants {
  double share = 0.9, l2_share = 0.5, l2_reach = 0.8;
  double latency_s = 0.15e-6, miss_latency_s = 0.3e-6;
  std::int64_t threads_per_sm = 2048;
  double fixed_s = 0;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("share", &StreamConstants::share, Unit::ratio, sim::between(0.01, 1),
                   "Share of the memory's peak that passes reach."),
        sim::field("l2_share", &StreamConstants::l2_share, Unit::ratio, sim::between(0.01, 2),
                   "Share of the L2's bandwidth that passes reach, reads and writes together."),
        sim::field("l2_reach", &StreamConstants::l2_reach, Unit::ratio, sim::between(0.01, 4),
                   "Bytes of a pass, as a multiple of the L2, of which half are found in it."),
        sim::field("latency", &StreamConstants::latency_s, Unit::seconds, sim::at_least(0),
                   "Of an iteration of a row kernel on data in the L2."),
        sim::field("miss_latency", &StreamConstants::miss_latency_s, Unit::seconds, sim::at_least(0),
                   "Further latency on data in device memory."),
        sim::field("threads_per_sm", &StreamConstants::threads_per_sm, Unit::count, sim::between(32, 8192),
                   "Threads that an SM holds (a fact)."),
        sim::field("fixed", &StreamConstants::fixed_s, Unit::seconds, sim::at_least(0),
                   "Start and tail, beside the launch."),
    };
  }
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
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::field("efficiency", &MoeConstants::efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Share of the tensor peak of a tile with all rows in use."),
        sim::field("memory_efficiency", &MoeConstants::memory_efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Share of the memory's peak at which experts' weights are read."),
        sim::field("cta_bandwidth", &MoeConstants::cta_bandwidth, Unit::bytes_per_s, sim::positive(),
                   "Rate at which a thread block loads its own operands, latency included."),
        sim::field("block_start", &MoeConstants::block_start_s, Unit::seconds, sim::at_least(0),
                   "Of a wave of thread blocks: ids of sorted rows, filling and emptying the pipeline."),
        sim::field("wave_smoothing", &MoeConstants::wave_smoothing, Unit::ratio, sim::between(0, 1),
                   "0: whole waves of tiles; 1: a last, partial wave costs its share."),
        sim::field("l2_delivery", &MoeConstants::l2_delivery, Unit::ratio, sim::between(0.01, 8),
                   "Operand bytes delivered to tiles per byte of L2 bandwidth."),
        sim::field("l2_reach", &MoeConstants::l2_reach, Unit::ratio, sim::between(0.01, 4),
                   "Weights, as a multiple of the L2, of which repeated calls find half in it."),
        sim::field("unaligned_rate", &MoeConstants::unaligned_rate, Unit::none, sim::positive(),
                   "Elements that an SM loads a clock where alignment is unknown."),
        sim::field("combine_share", &MoeConstants::combine_share, Unit::ratio, sim::between(0.01, 1),
                   "Speed of the weighted sum of experts' rows, against a plain pass over the same bytes."),
        sim::field("sort", &MoeConstants::sort_s, Unit::seconds, sim::at_least(0),
                   "Small kernels that sort tokens by expert."),
        sim::field("remote", &MoeConstants::remote_s, Unit::seconds, sim::at_least(0),
                   "Added where other ranks hold experts: mapping of experts, zeroing of their rows."),
    };
  }
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

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("peak", &GpuParams::peak, "Peak rates by number format, dense.")),
        sim::required(sim::field("sms", &GpuParams::sms, Unit::count, sim::at_least(1), "Streaming multiprocessors.")),
        sim::required(sim::field("clock", &GpuParams::clock_hz, Unit::hertz, sim::positive(),
                                 "Highest clock: what the peaks hold for.")),
        sim::required(
            sim::field("l1", &GpuParams::l1_bytes, Unit::bytes, sim::positive(), "L1 and shared memory of an SM.")),
        sim::required(sim::field("l2", &GpuParams::l2_bytes, Unit::bytes, sim::positive(), "Second-level cache.")),
        sim::field("l2_partitions", &GpuParams::l2_partitions, Unit::count, sim::between(1, 64),
                   "Parts of the L2 that each keep a copy of what all SMs read."),
        sim::required(sim::field("l2_bandwidth", &GpuParams::l2_bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Measured read bandwidth of the L2.")),
        sim::required(sim::field("memory", &GpuParams::memory_bytes, Unit::bytes, sim::positive(), "Device memory.")),
        sim::required(sim::field("memory_bandwidth", &GpuParams::memory_bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Peak of the device memory.")),
        sim::field("launch_mode", &GpuParams::launch_mode, "How kernels are launched."),
        sim::required(sim::field("launch_stream", &GpuParams::launch_stream_s, Unit::seconds, sim::at_least(0),
                                 "Shortest time between two kernels of a stream.")),
        sim::required(sim::field("launch_graph", &GpuParams::launch_graph_s, Unit::seconds, sim::at_least(0),
                                 "Shortest time between two kernels of a graph.")),
        sim::required(sim::field("link", &GpuParams::link, "Link into the node.")),
        sim::required(sim::field("power", &GpuParams::power, "Power and energy.")),
        sim::field("dvfs", &GpuParams::dvfs, "Clocks and voltages."),
        sim::field("die", &GpuParams::die, "The die, for estimates of area and cost."),
        sim::field("gemm", &GpuParams::gemm, "Constants of matrix products."),
        sim::field("attention", &GpuParams::attention, "Constants of attention."),
        sim::field("flash2", &GpuParams::flash2,
                   "The same for FlashAttention-2, where `attention` is of another library."),
        sim::field("stream", &GpuParams::stream, "Constants of passes over memory."),
        sim::field("moe", &GpuParams::moe, "Constants of grouped products and MoE layers."),
    };
  }

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
/// and for int4, weights are widened on their way (weight-only) and the rate is that of `dtype`. 4-bit products take
/// the energy of 8-bit ones a FLOP (an assumption: none is published).
MatrixOperands matrix_operands(const GpuParams& gpu, DType dtype, WeightFormat weights);

}  // namespace orrery::hw
