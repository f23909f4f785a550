#include "hw/gpu.hpp"

namespace orrery::hw {

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

}  // namespace orrery::hw
