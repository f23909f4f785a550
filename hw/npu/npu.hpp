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
  static constexpr auto fields() {
    using sim::Unit;
    constexpr sim::Range kRate = sim::between(0, 16);
    return sim::FieldTable{
        sim::field("fp32", &MatrixRates::fp32, Unit::ratio, kRate, "0: fp32 products run on the vector unit."),
        sim::field("fp16", &MatrixRates::fp16, Unit::ratio, kRate, "0: runs at the rate of bf16."),
        sim::field("bf16", &MatrixRates::bf16, Unit::ratio, kRate, "0: runs at the rate of fp16."),
        sim::field("fp8", &MatrixRates::fp8, Unit::ratio, kRate, "0: runs at the 16-bit rate."),
        sim::field("int8", &MatrixRates::int8, Unit::ratio, kRate, "0: runs at the 16-bit rate."),
    };
  }
};

/// The matrix unit of a core.
struct MatrixUnit {
  MatrixKind kind = MatrixKind::systolic;
  Dataflow dataflow = Dataflow::ws;
  std::int64_t rows = 128, columns = 128, depth = 1, per_core = 1;
  bool preload = true;
  double efficiency = 1;
  MatrixRates rates;
  static constexpr auto fields() {
    using sim::Unit;
    constexpr sim::Range kEdge = sim::between(1, 4096);
    return sim::FieldTable{
        sim::required(sim::field("kind", &MatrixUnit::kind, "Systolic array, or a cube that multiplies blocks.")),
        sim::field("dataflow", &MatrixUnit::dataflow, "Operand that stays in a systolic array: ws, os or is."),
        sim::required(sim::field("rows", &MatrixUnit::rows, Unit::count, kEdge, "Rows of cells; m of a cube.")),
        sim::required(sim::field("columns", &MatrixUnit::columns, Unit::count, kEdge, "Columns; n of a cube.")),
        sim::field("depth", &MatrixUnit::depth, Unit::count, kEdge, "k of a cube; 1 for a systolic array."),
        sim::field("per_core", &MatrixUnit::per_core, Unit::count, sim::between(1, 64), "Such units a core."),
        sim::field("preload", &MatrixUnit::preload,
                   "Whether the next stationary operand shifts in behind the current fold (systolic)."),
        sim::field("efficiency", &MatrixUnit::efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Share of its cycles that the unit does not stall on issue and scratchpads."),
        sim::required(sim::field("rates", &MatrixUnit::rates, "Multiply-adds a cell and cycle by number format.")),
    };
  }
};

/// The vector units of a core, together.
struct VectorUnit {
  std::int64_t bytes_per_cycle = 0;
  double efficiency = 1;
  double softmax_ops = 5;
  bool through_l2 = false;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("bytes_per_cycle", &VectorUnit::bytes_per_cycle, Unit::count, sim::between(1, 1 << 20),
                                 "Operand bytes that the vector units of a core work on in a cycle.")),
        sim::field("efficiency", &VectorUnit::efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Share of its cycles that the unit does not stall."),
        sim::field("softmax_ops", &VectorUnit::softmax_ops, Unit::count, sim::at_least(0),
                   "Vector operations a score of attention: scale, maximum, exponential, sum, rescale."),
        sim::field("through_l2", &VectorUnit::through_l2,
                   "Whether matrix results reach the vector units through the L2 (split cores)."),
    };
  }
};

/// Scratchpads of a core. 0 for left, right, accumulator, unified: there is none of its own, L1 serves.
struct Scratchpads {
  std::int64_t l1 = 0, left = 0, right = 0, accumulator = 0, unified = 0;
  static constexpr auto fields() {
    using sim::Unit;
    constexpr sim::Range kSize = sim::between(0, 1LL << 40);
    return sim::FieldTable{
        sim::required(sim::field("l1", &Scratchpads::l1, Unit::bytes, sim::positive(), "Operand buffer (L1, VMEM).")),
        sim::field("left", &Scratchpads::left, Unit::bytes, kSize, "Buffer of left operands (L0A)."),
        sim::field("right", &Scratchpads::right, Unit::bytes, kSize, "Buffer of right operands (L0B)."),
        sim::field("accumulator", &Scratchpads::accumulator, Unit::bytes, kSize, "Buffer of sums, fp32 (L0C)."),
        sim::field("unified", &Scratchpads::unified, Unit::bytes, kSize, "Buffer of the vector units (UB)."),
    };
  }
};

/// Paths of a core in bytes a cycle; 0: the path does not limit.
struct DmaRates {
  double l2_read = 0, l2_write = 0, l1_left = 0, l1_right = 0, result = 0, unified = 0;
  double fixed_s = 0;
  static constexpr auto fields() {
    using sim::Unit;
    constexpr sim::Range kRate = sim::between(0, 1 << 20);
    return sim::FieldTable{
        sim::field("l2_read", &DmaRates::l2_read, Unit::none, kRate, "L2 or NoC to L1, bytes a cycle."),
        sim::field("l2_write", &DmaRates::l2_write, Unit::none, kRate, "Core to L2 or NoC, bytes a cycle."),
        sim::field("l1_left", &DmaRates::l1_left, Unit::none, kRate, "L1 to the left operand buffer, bytes a cycle."),
        sim::field("l1_right", &DmaRates::l1_right, Unit::none, kRate, "L1 to the right operand buffer."),
        sim::field("result", &DmaRates::result, Unit::none, kRate, "Accumulator to where results go, bytes a cycle."),
        sim::field("unified", &DmaRates::unified, Unit::none, kRate, "Memory to the vector units' buffer and back."),
        sim::field("fixed", &DmaRates::fixed_s, Unit::seconds, sim::at_least(0), "Start of a transfer."),
    };
  }
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

  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("cores", &NpuParams::cores, Unit::count, sim::between(1, 1 << 16),
                                 "Cores that share the memory.")),
        sim::required(sim::field("clock", &NpuParams::clock_hz, Unit::hertz, sim::positive(), "Clock of the cores.")),
        sim::required(sim::field("matrix", &NpuParams::matrix, "Matrix unit of a core.")),
        sim::required(sim::field("vector", &NpuParams::vector, "Vector units of a core.")),
        sim::required(sim::field("scratch", &NpuParams::scratch, "Scratchpads of a core.")),
        sim::field("dma", &NpuParams::dma, "Paths of a core."),
        sim::field("l2", &NpuParams::l2_bytes, Unit::bytes, sim::at_least(0), "Shared buffer; 0 where there is none."),
        sim::field("l2_bandwidth", &NpuParams::l2_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                   "Of the shared buffer or the network on chip, all cores; 0: it does not limit."),
        sim::required(sim::field("memory", &NpuParams::memory_bytes, Unit::bytes, sim::positive(), "Device memory.")),
        sim::required(sim::field("memory_bandwidth", &NpuParams::memory_bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Peak of the device memory.")),
        sim::field("memory_efficiency", &NpuParams::memory_efficiency, Unit::ratio, sim::between(0.01, 1),
                   "Share of that peak which all cores together reach."),
        sim::field("memory_latency", &NpuParams::memory_latency_s, Unit::seconds, sim::at_least(0),
                   "From a request to its first byte: paid once a kernel, before the pipeline runs."),
        sim::field("core_bandwidth", &NpuParams::core_bandwidth, Unit::bytes_per_s, sim::at_least(0),
                   "Device memory bandwidth that one core alone reaches; 0: all of it."),
        sim::field("launch", &NpuParams::launch_s, Unit::seconds, sim::at_least(0), "Launch of a kernel."),
        sim::field("step", &NpuParams::step_s, Unit::seconds, sim::at_least(0),
                   "Loop and synchronisation of one step of the double-buffered pipeline."),
        sim::field("whole_operands", &NpuParams::whole_operands,
                   "Whether a product that fits half of the L1 is one step a core, loaded, computed, stored: compilers "
                   "that cut only what does not fit."),
        sim::field("link", &NpuParams::link, "Links to other devices."),
        sim::required(sim::field("power", &NpuParams::power, "Power and energy.")),
        sim::field("dvfs", &NpuParams::dvfs, "Clocks and voltages."),
        sim::field("die", &NpuParams::die, "The die, for estimates of area and cost; it has no registers to count."),
    };
  }

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
