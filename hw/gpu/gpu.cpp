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
      break;
  }
  return widened;
}

}  // namespace orrery::hw
