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

sim::FieldRows<MatrixRates> MatrixRates::fields() {
  using sim::Unit;
  constexpr sim::Range kRate = sim::between(0, 16);
  static const sim::FieldTable table{
      sim::field("fp32", &MatrixRates::fp32, Unit::ratio, kRate,
                 "Rate of fp32, in multiply-adds per cell and cycle; 0: fp32 products run on the vector units."),
      sim::field("fp16", &MatrixRates::fp16, Unit::ratio, kRate,
                 "Rate of fp16, in multiply-adds per cell and cycle; 0: runs at the rate of bf16."),
      sim::field("bf16", &MatrixRates::bf16, Unit::ratio, kRate,
                 "Rate of bf16, in multiply-adds per cell and cycle; 0: runs at the rate of fp16."),
      sim::field("fp8", &MatrixRates::fp8, Unit::ratio, kRate,
                 "Rate of fp8, in multiply-adds per cell and cycle; 0: runs at the 16-bit rate."),
      sim::field("int8", &MatrixRates::int8, Unit::ratio, kRate,
                 "Rate of int8, in multiply-adds per cell and cycle; 0: runs at the 16-bit rate."),
  };
  return table;
}

sim::FieldRows<MatrixUnit> MatrixUnit::fields() {
  using sim::Unit;
  constexpr sim::Range kEdge = sim::between(1, 4096);
  static const sim::FieldTable table{
      sim::required(sim::field("kind", &MatrixUnit::kind,
                               "Kind of matrix unit: a systolic array, or a cube that multiplies whole blocks.")),
      sim::field("dataflow", &MatrixUnit::dataflow,
                 "Operand that stays in a systolic array: weights (ws), outputs (os) or inputs (is)."),
      sim::required(
          sim::field("rows", &MatrixUnit::rows, Unit::count, kEdge, "Number of rows of cells; of a cube, its m.")),
      sim::required(sim::field("columns", &MatrixUnit::columns, Unit::count, kEdge,
                               "Number of columns of cells; of a cube, its n.")),
      sim::field("depth", &MatrixUnit::depth, Unit::count, kEdge, "Depth (k) of a cube; 1 for a systolic array."),
      sim::field("per_core", &MatrixUnit::per_core, Unit::count, sim::between(1, 64),
                 "Number of matrix units per core."),
      sim::field("preload", &MatrixUnit::preload,
                 "Whether a systolic array shifts in the next stationary operand during the current fold."),
      sim::field("efficiency", &MatrixUnit::efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of cycles in which the unit does not stall on issue or scratchpads."),
      sim::required(sim::field("rates", &MatrixUnit::rates, "Multiply-adds per cell and cycle, by number format.")),
  };
  return table;
}

sim::FieldRows<VectorUnit> VectorUnit::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("bytes_per_cycle", &VectorUnit::bytes_per_cycle, Unit::count, sim::between(1, 1 << 20),
                               "Operand bytes that the vector units of a core process per cycle.")),
      sim::field("efficiency", &VectorUnit::efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of cycles in which the vector units do not stall."),
      sim::field("softmax_ops", &VectorUnit::softmax_ops, Unit::count, sim::at_least(0),
                 "Vector operations per attention score: scale, maximum, exponential, sum and rescale."),
      sim::field("through_l2", &VectorUnit::through_l2,
                 "Whether matrix results reach the vector units through the L2 (split cores)."),
  };
  return table;
}

sim::FieldRows<Scratchpads> Scratchpads::fields() {
  using sim::Unit;
  constexpr sim::Range kSize = sim::between(0, 1LL << 40);
  static const sim::FieldTable table{
      sim::required(
          sim::field("l1", &Scratchpads::l1, Unit::bytes, sim::positive(), "Size of the operand buffer (L1, VMEM).")),
      sim::field("left", &Scratchpads::left, Unit::bytes, kSize,
                 "Size of the buffer of left operands (L0A); 0: L1 serves."),
      sim::field("right", &Scratchpads::right, Unit::bytes, kSize,
                 "Size of the buffer of right operands (L0B); 0: L1 serves."),
      sim::field("accumulator", &Scratchpads::accumulator, Unit::bytes, kSize,
                 "Size of the buffer of fp32 sums (L0C); 0: L1 serves."),
      sim::field("unified", &Scratchpads::unified, Unit::bytes, kSize,
                 "Size of the vector units' buffer (UB); 0: L1 serves."),
  };
  return table;
}

sim::FieldRows<DmaRates> DmaRates::fields() {
  using sim::Unit;
  constexpr sim::Range kRate = sim::between(0, 1 << 20);
  static const sim::FieldTable table{
      sim::field("l2_read", &DmaRates::l2_read, Unit::none, kRate,
                 "Bytes per cycle from L2 or network on chip to L1; 0: the path does not limit."),
      sim::field("l2_write", &DmaRates::l2_write, Unit::none, kRate,
                 "Bytes per cycle from the core to L2 or network on chip; 0: the path does not limit."),
      sim::field("l1_left", &DmaRates::l1_left, Unit::none, kRate,
                 "Bytes per cycle from L1 to the left operand buffer; 0: the path does not limit."),
      sim::field("l1_right", &DmaRates::l1_right, Unit::none, kRate,
                 "Bytes per cycle from L1 to the right operand buffer; 0: the path does not limit."),
      sim::field("result", &DmaRates::result, Unit::none, kRate,
                 "Bytes per cycle from the accumulator to where results go; 0: the path does not limit."),
      sim::field("unified", &DmaRates::unified, Unit::none, kRate,
                 "Bytes per cycle between memory and the vector units' buffer; 0: the path does not limit."),
      sim::field("fixed", &DmaRates::fixed_s, Unit::seconds, sim::at_least(0), "Fixed time to start a transfer."),
  };
  return table;
}

sim::FieldRows<NpuParams> NpuParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("cores", &NpuParams::cores, Unit::count, sim::between(1, 1 << 16),
                               "Number of cores, which share the memory.")),
      sim::required(sim::field("clock", &NpuParams::clock_hz, Unit::hertz, sim::positive(), "Clock of the cores.")),
      sim::required(sim::field("matrix", &NpuParams::matrix, "Matrix units of a core.")),
      sim::required(sim::field("vector", &NpuParams::vector, "Vector units of a core.")),
      sim::required(sim::field("scratch", &NpuParams::scratch, "Scratchpads of a core.")),
      sim::field("dma", &NpuParams::dma, "Data paths of a core."),
      sim::field("l2", &NpuParams::l2_bytes, Unit::bytes, sim::at_least(0),
                 "Size of the shared buffer (L2); 0 if there is none."),
      sim::field("l2_bandwidth", &NpuParams::l2_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Bandwidth of the shared buffer or network on chip for all cores together; 0: it does not limit."),
      sim::required(
          sim::field("memory", &NpuParams::memory_bytes, Unit::bytes, sim::positive(), "Size of the device memory.")),
      sim::required(sim::field("memory_bandwidth", &NpuParams::memory_bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Peak bandwidth of the device memory.")),
      sim::field("memory_efficiency", &NpuParams::memory_efficiency, Unit::ratio, sim::between(0.01, 1),
                 "Share of the peak memory bandwidth that all cores together reach."),
      sim::field("memory_latency", &NpuParams::memory_latency_s, Unit::seconds, sim::at_least(0),
                 "Time from a memory request to its first byte, paid once per kernel before the pipeline runs."),
      sim::field("core_bandwidth", &NpuParams::core_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                 "Device memory bandwidth that a single core reaches alone; 0: all of it."),
      sim::field("launch", &NpuParams::launch_s, Unit::seconds, sim::at_least(0), "Time to launch a kernel."),
      sim::field("step", &NpuParams::step_s, Unit::seconds, sim::at_least(0),
                 "Time for loop overhead and synchronisation in each step of the double-buffered pipeline."),
      sim::field("whole_operands", &NpuParams::whole_operands,
                 "Whether a product that fits half of L1 is one step per core: load, compute, store. Compilers that "
                 "tile only what does not fit do so."),
      sim::field("link", &NpuParams::link, "Links to other devices."),
      sim::required(sim::field("power", &NpuParams::power, "Power and energy.")),
      sim::field("dvfs", &NpuParams::dvfs, "Available clocks and their voltages."),
      sim::field("die", &NpuParams::die, "The die, for estimates of area and cost; it has no registers to count."),
  };
  return table;
}

}  // namespace orrery::hw
