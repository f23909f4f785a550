// An FPGA, a static design of multiply-add cores on it, and three ways to run a chain of layers on those cores.
//
// A design has `cores` equal cores of `macs_per_core` multiply-adds a cycle (initiation interval 1), a weight port
// each, one port for activations that go off chip, and a stage buffer: the output that may wait on chip between two
// stages.
//
//   sequential  one task after another on all cores: load weights, compute, and what the stage buffer cannot hold goes
//               off chip and back; nothing overlaps:
//                 sum of (weights + spilled) / port + macs / (cores * macs_per_core)
//   dataflow    a core a task, in turn, each edge with a buffer of its own; weights stream. A task waits for its whole
//               input unless it can take it as it comes (`windowed`): sum, or the longest of an overlapped run
//   InTAR       stages planned in advance, and cores that change role between them. A stage is one task split over all
//               cores, if the stage buffer holds its output, or a pipeline of consecutive tasks, a core each, of which
//               only the last output waits: producers go by output and consumers by input. The shortest plan wins (a
//               search over stages, with the two other modes among the plans), so it is never slower than either
//
// A cycle count is issue slots: macs / rate, rounded up, or the weights through the core's port if that is longer; a
// pipeline adds `fifo_cycles` a link, a stage change `switch_cycles`. What does not fit the part (DSP, block RAM) is a
// value, not an error. Sources: InTAR (He et al., FCCM 2025; github.com/OswaldHe/InTAR), the worked MLP of its code.
// Left out: routing and timing closure (the clock is an input), banking conflicts, partial reconfiguration of the
// fabric, control and address logic beyond a share of LUTs a multiply-add.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hw/base/cost_model.hpp"
#include "hw/base/kernel.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

inline constexpr double kBram18Bytes = 18 * 1024 / 8.0;  ///< of a block RAM of 18 Kbit
inline constexpr double kUramBytes = 288 * 1024 / 8.0;   ///< of an Ultra RAM

/// Multiply-adds that one DSP slice does a cycle, by format of operands.
struct MacsPerDsp {
  double int8 = 2, int16 = 1, fp16 = 0.5, fp32 = 0.2;
  static sim::FieldRows<MacsPerDsp> fields();
};

/// What a part offers. Sizes in bytes, rates per s.
struct FpgaParams {
  static constexpr std::string_view kKind = "fpga";
  std::int64_t dsp = 0, bram18 = 0, uram = 0, lut = 0;
  double shell_share = 0.1;
  double clock_hz = 0;
  double memory_bandwidth = 0;
  std::int64_t memory_bytes = 0, memory_ports = 32;
  MacsPerDsp macs_per_dsp;
  double luts_per_mac = 100;
  double idle_w = 0, tdp_w = 0;
  static sim::FieldRows<FpgaParams> fields();
  /// Faults that only several fields together show.
  static void check(const FpgaParams& fpga, const sim::Node& fields, sim::Faults& faults);
};

/// A format of operands on an FPGA.
enum class FpgaFormat : std::uint8_t { int8, int16, fp16, fp32 };
std::int64_t bytes_of(FpgaFormat format);
double macs_per_dsp(const FpgaParams& fpga, FpgaFormat format);
/// The format in which operands of a kernel's `dtype` are multiplied: fp8 and bf16 as fp16.
FpgaFormat fpga_format(DType dtype);
/// Multiply-adds a cycle of the largest design that DSP slices and look-up tables have room for.
double macs_per_cycle(const FpgaParams& fpga, FpgaFormat format);

/// A static design.
struct FpgaDesign {
  std::int64_t cores = 1, macs_per_core = 16;
  std::int64_t stage_buffer_bytes = 0;  ///< the output that may wait on chip between stages
  double weight_port_bytes = 64;        ///< bytes a cycle into each core
  double spill_port_bytes = 64;         ///< bytes a cycle off chip and back, all cores together; sequential weights too
  std::int64_t fifo_cycles = 0;         ///< fill of a link between cores
  std::int64_t switch_cycles = 0;       ///< a change of roles
  FpgaFormat format = FpgaFormat::int16;
};

/// One layer of a chain: each task takes the output of the one before.
struct FpgaTask {
  std::string name;
  std::int64_t macs = 0, weight_bytes = 0, output_bytes = 0;
  bool windowed = false;  ///< takes its input as it comes in every mode (a convolution over rows), not whole
};
/// Fully connected layer of one vector.
FpgaTask dense_task(std::string name, std::int64_t inputs, std::int64_t outputs, FpgaFormat format);
/// Convolution of `kernel` x `kernel` to `rows` x `columns` outputs.
FpgaTask convolution_task(std::string name, std::int64_t channels_in, std::int64_t channels_out, std::int64_t kernel,
                          std::int64_t rows, std::int64_t columns, FpgaFormat format);

enum class FpgaMode : std::uint8_t { sequential, dataflow, intar };

/// A stage of a plan: tasks [first, last], split over all cores if it is one and `split`, else a core each.
struct FpgaStage {
  std::size_t first = 0, last = 0;
  bool split = false;
  std::int64_t cycles = 0;
};
struct FpgaPlan {
  FpgaMode mode = FpgaMode::sequential;  ///< of the plan that won, in InTAR mode
  std::vector<FpgaStage> stages;
  std::int64_t cycles = 0;
  double spilled_bytes = 0;  ///< written off chip and read back
  double seconds(const FpgaParams& fpga) const { return static_cast<double>(cycles) / fpga.clock_hz; }
};
/// A design or plan that the part cannot hold, and why.
struct FpgaDoesNotFit {
  std::string reason;
};

/// What a design takes of a part.
struct FpgaResources {
  double dsp = 0, bram18 = 0, lut = 0;
};
FpgaResources resources_of(const FpgaParams& fpga, const FpgaDesign& design, const std::vector<FpgaTask>& tasks,
                           FpgaMode mode);

/// Runs a chain of tasks in a mode. An empty chain takes no cycles.
std::variant<FpgaPlan, FpgaDoesNotFit> plan_fpga(const FpgaParams& fpga, const FpgaDesign& design,
                                                 const std::vector<FpgaTask>& tasks, FpgaMode mode);

/// One kernel at a time on the largest design that the part holds, on all its cores: its multiply-adds while weights
/// (or cached keys) stream in, then activations off chip. Energy is what a busy board draws above idle.
std::unique_ptr<CostModel> make_fpga_cost(const FpgaParams& fpga);

}  // namespace orrery::hw
