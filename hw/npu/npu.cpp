#include "hw/npu/npu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "hw/gpu/clock_change.hpp"
#include "hw/npu/npu_gemm.hpp"

namespace orrery::hw {

double matrix_rate(const MatrixUnit& unit, DType dtype) {
  const MatrixRates& r = unit.rates;
  const double half = dtype == DType::bf16 ? (r.bf16 > 0 ? r.bf16 : r.fp16) : (r.fp16 > 0 ? r.fp16 : r.bf16);
  switch (dtype) {
    case DType::fp32:
      return r.fp32;
    case DType::fp16:
    case DType::bf16:
      return half;
    case DType::fp8:
      return r.fp8 > 0 ? r.fp8 : half;
    case DType::int8:
      return r.int8 > 0 ? r.int8 : half;
  }
  return half;
}

double matrix_peak(const NpuParams& npu, DType dtype) {
  const double units = static_cast<double>(npu.cores) * static_cast<double>(npu.matrix.per_core);
  return 2.0 * cells(npu.matrix) * units * npu.clock_hz * matrix_rate(npu.matrix, dtype);
}

double matrix_flop_energy(const NpuParams& npu, DType dtype) {
  if (dtype == DType::fp32) return npu.power.fp32_flop_j;
  return bytes_of(dtype) == 1 ? npu.power.fp8_flop_j : npu.power.fp16_flop_j;
}

NpuParams at_clock(const NpuParams& npu, double clock_hz) {
  const ClockChange change = change_clock(npu.dvfs, npu.clock_hz, clock_hz);
  const double share = change.share, squared = change.voltage_squared;
  NpuParams out = npu;
  out.clock_hz = clock_hz;
  out.dvfs = change.dvfs;
  out.l2_bandwidth *= share;
  for (double* energy : {&out.power.fp32_flop_j, &out.power.fp16_flop_j, &out.power.fp8_flop_j}) *energy *= squared;
  out.power.active_w *= share * squared;
  return out;
}

void NpuParams::check(const NpuParams& npu, const sim::Node& fields, sim::Faults& faults) {
  if (npu.matrix.rates.fp16 == 0 && npu.matrix.rates.bf16 == 0)
    faults.add(fields.origin_at("matrix.rates"), "no 16-bit format: fp16 or bf16 must be above 0");
  if (npu.matrix.kind == MatrixKind::systolic && npu.matrix.depth != 1)
    faults.add(fields.origin_at("matrix.depth"),
               "a systolic array has depth 1, got " + std::to_string(npu.matrix.depth));
  // The smallest tile: one step of the matrix unit in every dimension, 16-bit operands twice (double buffering).
  const UnitEdges u = unit_edges(npu.matrix);
  const auto too_small = [&](const char* key, std::int64_t have, std::int64_t need) {
    if (have > 0 && have < need)
      faults.add(fields.origin_at(std::string("scratch.") + key),
                 "holds no tile: one of " + std::to_string(u.m) + " x " + std::to_string(u.n) + " x " +
                     std::to_string(u.k) + ", double-buffered, takes " + std::to_string(need) + " bytes, got " +
                     std::to_string(have));
  };
  const std::int64_t left = 2 * u.m * u.k * 2, right = 2 * u.k * u.n * 2, sums = u.m * u.n * 4;
  too_small("l1", npu.scratch.l1, left + right + (npu.scratch.accumulator > 0 ? 0 : sums));
  too_small("left", npu.scratch.left, left);
  too_small("right", npu.scratch.right, right);
  too_small("accumulator", npu.scratch.accumulator, sums);
  if (npu.l2_bytes > 0 && npu.l2_bytes < npu.scratch.l1)
    faults.add(fields.origin_at("l2"), "smaller than the L1 of one core: a unit may be wrong (" +
                                           sim::humanise(static_cast<double>(npu.l2_bytes), sim::Unit::bytes) + ")");
  const std::int64_t on_chip = std::max(npu.l2_bytes, npu.cores * npu.scratch.l1);
  if (npu.memory_bytes > 0 && npu.memory_bytes <= on_chip)
    faults.add(fields.origin_at("memory"), "smaller than the buffers on chip: a unit may be wrong (" +
                                               sim::humanise(static_cast<double>(npu.memory_bytes), sim::Unit::bytes) +
                                               ")");
  if (npu.core_bandwidth > npu.memory_bandwidth && npu.memory_bandwidth > 0)
    faults.add(fields.origin_at("core_bandwidth"), "one core cannot exceed memory_bandwidth");
  if (npu.power.tdp_w > 0 && npu.power.idle_w >= npu.power.tdp_w)
    faults.add(fields.origin_at("power.idle"), "at or above power.tdp");
  if (const sim::Node* link = fields.find("link")) LinkParams::check(npu.link, *link, faults);
}

}  // namespace orrery::hw
