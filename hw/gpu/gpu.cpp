#include "hw/gpu/gpu.hpp"

#include <string>

namespace orrery::hw {
namespace {

/// Collects what is wrong with a part, a line a fault.
class Check {
 public:
  Check(const sim::Node& fields, sim::Faults& faults) : fields_(fields), faults_(faults) {}

  /// A field outside least to most, where only a mistaken unit can have put it.
  bool scale(const char* place, double value, double least, double most, sim::Unit unit) {
    if (value >= least && value <= most) return true;
    faults_.add(fields_.origin_at(place), "expected " + sim::humanise(least, unit) + " to " +
                                              sim::humanise(most, unit) + ", got " + sim::humanise(value, unit) +
                                              ": a unit may be wrong");
    return false;
  }
  /// A field that another one bounds: `relation` is "less than", `what` the other's name.
  void against(bool right, const char* place, const std::string& relation, double limit, double value, sim::Unit unit) {
    if (right) return;
    faults_.add(fields_.origin_at(place),
                "expected " + relation + " = " + sim::humanise(limit, unit) + ", got " + sim::humanise(value, unit));
  }

 private:
  const sim::Node& fields_;
  sim::Faults& faults_;
};

/// Peaks by what an SM does in a clock (8 to 64 Ki FLOP on every part there is), and one format against another.
void check_peaks(const GpuParams& gpu, Check& check) {
  const double per_clock = static_cast<double>(gpu.sms) * gpu.clock_hz;
  constexpr double kLeast = 8, kMost = 65536;
  const PeakFlops& p = gpu.peak;
  const auto right = [&](const char* place, double peak) {
    return peak == 0 || check.scale(place, peak, kLeast * per_clock, kMost * per_clock, sim::Unit::flop_per_s);
  };
  const bool half = right("peak.fp16", p.fp16);
  if (right("peak.fp32", p.fp32) && half)
    check.against(p.fp16 >= p.fp32, "peak.fp16", "at least fp32", p.fp32, p.fp16, sim::Unit::flop_per_s);
  right("peak.bf16", p.bf16);
  if (right("peak.fp8", p.fp8) && half)
    check.against(p.fp8 == 0 || p.fp8 >= p.fp16, "peak.fp8", "at least fp16", p.fp16, p.fp8, sim::Unit::flop_per_s);
  if (right("peak.int8", p.int8) && half)
    check.against(p.int8 == 0 || p.int8 >= p.fp16, "peak.int8", "at least fp16", p.fp16, p.int8, sim::Unit::flop_per_s);
  if (right("peak.fp4", p.fp4) && half)
    check.against(p.fp4 == 0 || p.fp4 >= p.fp16, "peak.fp4", "at least fp16", p.fp16, p.fp4, sim::Unit::flop_per_s);
}

/// Sizes and bandwidths. A memory is read once in 1 ms to 5 s on every part there is.
void check_memories(const GpuParams& gpu, Check& check) {
  const auto l1 = static_cast<double>(gpu.l1_bytes), l2 = static_cast<double>(gpu.l2_bytes);
  const auto memory = static_cast<double>(gpu.memory_bytes);
  constexpr double kGiB = 1 << 30;
  check.against(gpu.l1_bytes <= gpu.l2_bytes, "l1", "at most l2", l2, l1, sim::Unit::bytes);
  if (!check.scale("memory", memory, kGiB, 16384 * kGiB, sim::Unit::bytes)) return;
  check.against(l2 < memory, "l2", "less than memory", memory, l2, sim::Unit::bytes);
  if (!check.scale("memory_bandwidth", gpu.memory_bandwidth, memory / 5, memory / 1e-3, sim::Unit::bytes_per_s)) return;
  check.against(gpu.l2_bandwidth >= gpu.memory_bandwidth, "l2_bandwidth", "at least memory_bandwidth",
                gpu.memory_bandwidth, gpu.l2_bandwidth, sim::Unit::bytes_per_s);
}

}  // namespace

void GpuParams::check(const GpuParams& gpu, const sim::Node& fields, sim::Faults& faults) {
  using sim::Unit;
  Check check(fields, faults);
  if (check.scale("clock", gpu.clock_hz, 1e8, 1e10, Unit::hertz)) {
    check_peaks(gpu, check);
    check.against(gpu.dvfs.lowest_clock_hz <= gpu.clock_hz, "dvfs.lowest_clock", "at most clock", gpu.clock_hz,
                  gpu.dvfs.lowest_clock_hz, Unit::hertz);
  }
  check_memories(gpu, check);
  check.scale("launch_stream", gpu.launch_stream_s, 0, 1e-3, Unit::seconds);
  check.scale("launch_graph", gpu.launch_graph_s, 0, 1e-3, Unit::seconds);
  if (gpu.flash2.library != AttentionLibrary::flash2)
    faults.add(fields.find("flash2")->origin(), "library: expected \"flash2\"");
  check.against(gpu.gemm.l2_none > gpu.gemm.l2_full, "gemm.l2_none", "more than l2_full", gpu.gemm.l2_full,
                gpu.gemm.l2_none, Unit::ratio);
  const double left_w = gpu.power.tdp_w - gpu.power.idle_w;
  check.against(left_w > 0, "power.idle", "less than tdp", gpu.power.tdp_w, gpu.power.idle_w, Unit::watts);
  if (left_w > 0)
    check.against(gpu.power.active_w < left_w, "power.active", "less than tdp - idle", left_w, gpu.power.active_w,
                  Unit::watts);
  if (const sim::Node* link = fields.find("link")) LinkParams::check(gpu.link, *link, faults);
}

std::vector<AttentionLibrary> attention_libraries(const GpuParams& gpu) {
  std::vector<AttentionLibrary> all{gpu.attention.library};
  if (all.front() == AttentionLibrary::flash3) all.push_back(AttentionLibrary::flash2);
  return all;
}

GpuParams with_attention(GpuParams gpu, AttentionLibrary library) {
  if (library == AttentionLibrary::flash2 && gpu.attention.library == AttentionLibrary::flash3)
    gpu.attention = gpu.flash2;
  return gpu;
}

bool has_matrix_units(const GpuParams& gpu, DType dtype) {
  if (dtype == DType::fp8) return gpu.peak.fp8 > 0;
  if (dtype == DType::int8) return gpu.peak.int8 > 0;
  return true;
}

double matrix_peak(const GpuParams& gpu, DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return gpu.peak.fp32;
    case DType::fp16:
      return gpu.peak.fp16;
    case DType::bf16:
      return gpu.peak.bf16;
    case DType::fp8:
      return has_matrix_units(gpu, dtype) ? gpu.peak.fp8 : gpu.peak.fp16;
    case DType::int8:
      return has_matrix_units(gpu, dtype) ? gpu.peak.int8 : gpu.peak.fp16;
  }
  return gpu.peak.fp16;
}

double matrix_flop_energy(const GpuParams& gpu, DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return gpu.power.fp32_flop_j;
    case DType::fp16:
    case DType::bf16:
      return gpu.power.fp16_flop_j;
    case DType::fp8:
      return has_matrix_units(gpu, dtype) ? gpu.power.fp8_flop_j : gpu.power.fp16_flop_j;
    case DType::int8:
      return has_matrix_units(gpu, dtype) ? gpu.power.fp8_flop_j : gpu.power.fp16_flop_j;
  }
  return gpu.power.fp16_flop_j;
}

MatrixOperands matrix_operands(const GpuParams& gpu, DType dtype, WeightFormat weights) {
  const double element = static_cast<double>(bytes_of(dtype)), weight = weight_element(weights, dtype);
  const MatrixOperands widened{matrix_peak(gpu, dtype), element, weight, matrix_flop_energy(gpu, dtype)};
  switch (weights) {
    case WeightFormat::fp8:
      if (!has_matrix_units(gpu, DType::fp8)) return widened;
      return {gpu.peak.fp8, 1, 1, gpu.power.fp8_flop_j};
    case WeightFormat::int8:
      if (!has_matrix_units(gpu, DType::int8)) return widened;
      return {gpu.peak.int8, 1, 1, gpu.power.fp8_flop_j};
    case WeightFormat::mxfp4:
      if (gpu.peak.fp4 <= 0 || gpu.peak.fp8 <= 0) return widened;
      return {gpu.peak.fp8, 1, weight, gpu.power.fp8_flop_j};
    case WeightFormat::nvfp4:
      if (gpu.peak.fp4 <= 0) return widened;
      return {gpu.peak.fp4, weight, weight, gpu.power.fp8_flop_j};
    case WeightFormat::as_dtype:
    case WeightFormat::fp16:
    case WeightFormat::bf16:
    case WeightFormat::int4:
    case WeightFormat::int3:
    case WeightFormat::int2:
      break;
  }
  return widened;
}

sim::FieldRows<PeakFlops> PeakFlops::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("fp32", &PeakFlops::fp32, Unit::flop_per_s, sim::positive(),
                               "Peak fp32 rate of the vector units.")),
      sim::required(sim::field("fp16", &PeakFlops::fp16, Unit::flop_per_s, sim::positive(),
                               "Peak dense fp16 rate of the tensor units.")),
      sim::required(sim::field("bf16", &PeakFlops::bf16, Unit::flop_per_s, sim::positive(),
                               "Peak dense bf16 rate of the tensor units.")),
      sim::field("fp8", &PeakFlops::fp8, Unit::flop_per_s, sim::at_least(0),
                 "Peak dense fp8 rate of the tensor units; 0 where absent."),
      sim::field("int8", &PeakFlops::int8, Unit::flop_per_s, sim::at_least(0),
                 "Peak dense int8 rate of the tensor units; 0 where absent."),
      sim::field("fp4", &PeakFlops::fp4, Unit::flop_per_s, sim::at_least(0),
                 "Peak dense rate of the tensor units with both operands of 4 bits; 0 where absent."),
  };
  return table;
}

sim::FieldRows<GemmConstants> GemmConstants::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("efficiency", &GemmConstants::efficiency, Unit::ratio, sim::between(0.01, 1.2),
                 "Share of the tensor peak reached in the steady state of a tile; above 1 where the clock exceeds that "
                 "of the data sheet's peak."),
      sim::field("fill_k", &GemmConstants::fill_k, Unit::none, sim::at_least(0),
                 "Cost of a tile's prologue and epilogue, as further steps of k with 16-bit operands."),
      sim::field("wave_smoothing", &GemmConstants::wave_smoothing, Unit::ratio, sim::between(0, 1),
                 "How a partial last wave of tiles is charged. 0: as a whole wave; 1: with many waves, by its share."),
      sim::field("memory_efficiency", &GemmConstants::memory_efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the peak memory bandwidth that matrix products reach."),
      sim::field("k_cycles", &GemmConstants::k_cycles, Unit::none, sim::at_least(0),
                 "Cycles of latency that a thread block cannot hide, per step of k with 16-bit operands."),
      sim::field("l2_delivery", &GemmConstants::l2_delivery, Unit::ratio, sim::between(0.01, 8),
                 "Operand bytes delivered to tiles per byte of L2 bandwidth."),
      sim::field("multicast", &GemmConstants::multicast, Unit::ratio, sim::between(1, 8),
                 "Factor on l2_delivery where a library loads operands once for a cluster of thread blocks."),
      sim::field("fixed_cycles", &GemmConstants::fixed_cycles, Unit::none, sim::at_least(0),
                 "Cycles for start and tail, besides the launch."),
      sim::field("split_cycles", &GemmConstants::split_cycles, Unit::none, sim::at_least(0),
                 "Cycles that a split-K reduction takes to start."),
      sim::field("split_traffic", &GemmConstants::split_traffic, Unit::ratio, sim::at_least(0),
                 "Bytes that a split-K reduction moves at L2 bandwidth, per byte of its fp32 partial results."),
      sim::field("exposed_write", &GemmConstants::exposed_write, Unit::ratio, sim::between(0, 1),
                 "Share of the time to write the result C that is not hidden behind arithmetic."),
      sim::field("unsplit_below", &GemmConstants::unsplit_below, Unit::none, sim::at_least(0),
                 "Multiply-adds below which the library never splits k, except for vectors (m = 1); 0: it always may."),
      sim::field("unsplit_k", &GemmConstants::unsplit_k, Unit::none, sim::at_least(0),
                 "Length of k from which the library splits small products as well."),
      sim::field("l2_full", &GemmConstants::l2_full, Unit::ratio, sim::between(0, 2),
                 "Working set, as a share of an L2 partition, up to which repeated calls find all of it there."),
      sim::field(
          "l2_none", &GemmConstants::l2_none, Unit::ratio, sim::between(0.01, 4),
          "Working set, as a share of an L2 partition, from which repeated calls find nothing there; above l2_full."),
      sim::field("peak_power", &GemmConstants::peak_power, Unit::ratio, sim::at_least(0),
                 "Dynamic power of the matrix units at their peak on random operands, as a share of the TDP."),
  };
  return table;
}

sim::FieldRows<StreamConstants> StreamConstants::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("share", &StreamConstants::share, Unit::ratio, sim::between(0.01, 1),
                 "Share of the peak memory bandwidth that passes over memory reach."),
      sim::field("l2_share", &StreamConstants::l2_share, Unit::ratio, sim::between(0.01, 2),
                 "Share of the L2 bandwidth that passes over memory reach, reads and writes together."),
      sim::field("l2_reach", &StreamConstants::l2_reach, Unit::ratio, sim::between(0.01, 4),
                 "Bytes of a pass, as a multiple of the L2, at which half are found in the L2."),
      sim::field("latency", &StreamConstants::latency_s, Unit::seconds, sim::at_least(0),
                 "Latency of one iteration of a row kernel on data in the L2."),
      sim::field("miss_latency", &StreamConstants::miss_latency_s, Unit::seconds, sim::at_least(0),
                 "Further latency of an iteration on data in device memory."),
      sim::field("threads_per_sm", &StreamConstants::threads_per_sm, Unit::count, sim::between(32, 8192),
                 "Most threads that an SM holds, a published fact."),
      sim::field("fixed", &StreamConstants::fixed_s, Unit::seconds, sim::at_least(0),
                 "Fixed time for start and tail, besides the launch."),
  };
  return table;
}

sim::FieldRows<MoeConstants> MoeConstants::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("efficiency", &MoeConstants::efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the tensor peak that a tile reaches with all rows in use."),
      sim::field("memory_efficiency", &MoeConstants::memory_efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the peak memory bandwidth at which experts' weights are read."),
      sim::field("cta_bandwidth", &MoeConstants::cta_bandwidth, Unit::bytes_per_s, sim::positive(),
                 "Rate at which a thread block loads its own operands, latency included."),
      sim::field("block_start", &MoeConstants::block_start_s, Unit::seconds, sim::at_least(0),
                 "Time per wave of thread blocks to read ids of sorted rows and to fill and drain the pipeline."),
      sim::field("wave_smoothing", &MoeConstants::wave_smoothing, Unit::ratio, sim::between(0, 1),
                 "How a partial last wave of tiles is charged. 0: as a whole wave; 1: by its share."),
      sim::field("l2_delivery", &MoeConstants::l2_delivery, Unit::ratio, sim::between(0.01, 8),
                 "Operand bytes delivered to tiles per byte of L2 bandwidth."),
      sim::field("l2_reach", &MoeConstants::l2_reach, Unit::ratio, sim::between(0.01, 4),
                 "Size of the weights, as a multiple of the L2, at which repeated calls find half of them in the L2."),
      sim::field("unaligned_rate", &MoeConstants::unaligned_rate, Unit::none, sim::positive(),
                 "Elements that an SM loads per clock where alignment is unknown."),
      sim::field("combine_share", &MoeConstants::combine_share, Unit::ratio, sim::between(0.01, 1),
                 "Speed of the weighted sum of experts' rows, relative to a plain pass over the same bytes."),
      sim::field("sort", &MoeConstants::sort_s, Unit::seconds, sim::at_least(0),
                 "Time of the small kernels that sort tokens by expert."),
      sim::field("remote", &MoeConstants::remote_s, Unit::seconds, sim::at_least(0),
                 "Time added where other ranks hold experts, to map experts and zero their rows."),
  };
  return table;
}

sim::FieldRows<GpuParams> GpuParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("peak", &GpuParams::peak, "Peak dense rates by number format.")),
      sim::required(sim::field("sms", &GpuParams::sms, Unit::count, sim::at_least(1),
                               "Number of streaming multiprocessors (SMs).")),
      sim::required(sim::field("clock", &GpuParams::clock_hz, Unit::hertz, sim::positive(),
                               "Highest clock, for which the peak rates hold.")),
      sim::required(sim::field("l1", &GpuParams::l1_bytes, Unit::bytes, sim::positive(),
                               "Size of the L1 and shared memory of an SM.")),
      sim::required(
          sim::field("l2", &GpuParams::l2_bytes, Unit::bytes, sim::positive(), "Size of the second-level cache (L2).")),
      sim::field("l2_partitions", &GpuParams::l2_partitions, Unit::count, sim::between(1, 64),
                 "Number of L2 partitions, each of which keeps a copy of what all SMs read."),
      sim::required(sim::field("l2_bandwidth", &GpuParams::l2_bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Measured read bandwidth of the L2.")),
      sim::required(
          sim::field("memory", &GpuParams::memory_bytes, Unit::bytes, sim::positive(), "Size of the device memory.")),
      sim::required(sim::field("memory_bandwidth", &GpuParams::memory_bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Peak bandwidth of the device memory.")),
      sim::field("launch_mode", &GpuParams::launch_mode,
                 "How kernels are launched: one by one in a stream, or as nodes of a captured graph."),
      sim::required(sim::field("launch_stream", &GpuParams::launch_stream_s, Unit::seconds, sim::at_least(0),
                               "Launch cost in a stream: the shortest time between two of its kernels.")),
      sim::required(sim::field("launch_graph", &GpuParams::launch_graph_s, Unit::seconds, sim::at_least(0),
                               "Launch cost in a graph: the shortest time between two of its kernels.")),
      sim::required(sim::field("link", &GpuParams::link, "Link to other devices of the node.")),
      sim::required(sim::field("power", &GpuParams::power, "Power and energy.")),
      sim::field("dvfs", &GpuParams::dvfs, "Available clocks and their voltages."),
      sim::field("die", &GpuParams::die, "The die, for estimates of area and cost."),
      sim::field("gemm", &GpuParams::gemm, "Constants of matrix products."),
      sim::field("attention", &GpuParams::attention, "Constants of attention."),
      sim::field("flash2", &GpuParams::flash2,
                 "Constants of FlashAttention-2, where `attention` holds those of another library."),
      sim::field("stream", &GpuParams::stream, "Constants of passes over memory."),
      sim::field("moe", &GpuParams::moe, "Constants of grouped products and MoE layers."),
  };
  return table;
}

}  // namespace orrery::hw
