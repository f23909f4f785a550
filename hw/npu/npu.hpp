// An NPU as the cost model sees it: cores with a matrix unit, a vector unit, scratchpads and DMA engines, behind one
// shared memory and, on some, one shared L2.
//
// Facts (array shapes, clocks, sizes, bytes a cycle of each path) come from data sheets, vendors' platform files and
// papers; what nobody publishes is a named assumption of the catalog entry. The constants to be fitted are few:
// `matrix.efficiency`, `core_bandwidth`, `launch`, `step`. The equations are in hw/npu/npu_gemm.hpp and
// hw/npu/npu_cost.cpp. Left out: scalar units, clocks under load, bank conflicts of scratchpads, sparsity, paging.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "hw/base/cost_model.hpp"
#include "hw/base/kernel.hpp"
#include "hw/gpu/gpu.hpp"
#include "hw/npu/systolic.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

/// What a matrix unit does in a cycle: a systolic array moves operands by a cell; a cube multiplies a whole
/// rows x depth by depth x columns block.
enum class MatrixKind : std::uint8_t { systolic, cube };
constexpr auto enum_names(MatrixKind) {
  using enum MatrixKind;
  return sim::names<MatrixKind>({{"systolic", systolic}, {"cube", cube}});
}

/// Multiply-adds per cell and cycle by number format, with 16-bit at 1 as a rule. 0: the unit lacks the format.
struct MatrixRates {
  double fp32 = 0, fp16 = 0, bf16 = 0, fp8 = 0, int8 = 0;
  static sim::FieldRows<MatrixRates> fields();
};

/// The matrix unit of a core.
struct MatrixUnit {
  MatrixKind kind = MatrixKind::systolic;
  Dataflow dataflow = Dataflow::ws;
  std::int64_t rows = 128, columns = 128, depth = 1, per_core = 1;
  bool preload = true;
  double efficiency = 1;
  MatrixRates rates;
  static sim::FieldRows<MatrixUnit> fields();
};

/// The vector units of a core, together.
struct VectorUnit {
  std::int64_t bytes_per_cycle = 0;
  double efficiency = 1;
  double softmax_ops = 5;
  bool through_l2 = false;
  static sim::FieldRows<VectorUnit> fields();
};

/// Scratchpads of a core. 0 for left, right, accumulator, unified: there is none of its own, L1 serves.
struct Scratchpads {
  std::int64_t l1 = 0, left = 0, right = 0, accumulator = 0, unified = 0;
  static sim::FieldRows<Scratchpads> fields();
};

/// Paths of a core in bytes a cycle; 0: the path does not limit.
struct DmaRates {
  double l2_read = 0, l2_write = 0, l1_left = 0, l1_right = 0, result = 0, unified = 0;
  double fixed_s = 0;
  static sim::FieldRows<DmaRates> fields();
};

/// One NPU. Sizes in bytes, rates per s, times in s.
struct NpuParams {
  static constexpr std::string_view kKind = "npu";
  std::int64_t cores = 0;
  double clock_hz = 0;
  MatrixUnit matrix;
  VectorUnit vector;
  Scratchpads scratch;
  DmaRates dma;
  std::int64_t l2_bytes = 0, memory_bytes = 0;
  double l2_bandwidth = 0, memory_bandwidth = 0, memory_efficiency = 0.9, memory_latency_s = 0;
  double core_bandwidth = 0;
  double launch_s = 0, step_s = 0;
  bool whole_operands = false;
  LinkParams link;
  PowerParams power;
  DvfsParams dvfs;
  DieParams die;

  static sim::FieldRows<NpuParams> fields();

  /// Faults that fields of one file make together: no 16-bit format, scratchpads that hold no tile, sizes that
  /// contradict each other.
  static void check(const NpuParams& npu, const sim::Node& fields, sim::Faults& faults);
};

/// Multiply-adds of one matrix unit in a cycle at rate 1.
inline double cells(const MatrixUnit& unit) {
  return static_cast<double>(unit.rows) * static_cast<double>(unit.columns) * static_cast<double>(unit.depth);
}
/// Multiply-adds a cell and cycle for `dtype`; 0 only for fp32 without such units.
double matrix_rate(const MatrixUnit& unit, DType dtype);
/// Peak FLOP/s of all matrix units for `dtype`, a multiply-add counting two.
double matrix_peak(const NpuParams& npu, DType dtype);
/// Dynamic energy of a matrix FLOP, J.
double matrix_flop_energy(const NpuParams& npu, DType dtype);

/// Area and cost as hw/gpu/area.hpp has them: cells of the matrix units at their 16-bit rate as MACs, four bytes a
/// cycle of the vector units as a lane, scratchpads as the SRAM of a core. Not judged: nobody publishes areas of these
/// blocks.
AreaEstimate estimate_area(const NpuParams& npu, const ProcessParams& process, const AreaConstants& constants = {});

/// The NPU at another clock, as hw/gpu/dvfs.hpp has it: units, on-chip paths and the L2 slow down with the clock,
/// energy of an operation falls with the square of the voltage, memory and launch stay. Throws std::invalid_argument
/// outside `dvfs.lowest_clock` to `clock`.
NpuParams at_clock(const NpuParams& npu, double clock_hz);

/// The cost model of an NPU: products in tiles through its scratchpads, attention on matrix and vector units, passes
/// over memory on the vector units. Copies what it needs.
std::unique_ptr<CostModel> npu_cost_model(const NpuParams& npu);
/// The same with `cores` of the device's cores at work and the rest idle: what one core of many reaches.
std::unique_ptr<CostModel> npu_cost_model(const NpuParams& npu, std::int64_t cores);

}  // namespace orrery::hw
