// Processing in memory at the banks: HBM-PIM (Aquabolt-XL) and GDDR6-AiM over the bank-timing model.
//
// A unit stands beside each bank, or beside a pair of them, and does one SIMD operation for each column command that
// reaches its banks; the host drives it with ordinary commands sent to all banks of a pseudo-channel at once. All
// pseudo-channels work alike, so time is that of one, counted in closed form (`pim_clocks`);
// tests/hw/bank_pim_stream.hpp plays the commands on hw/memory/dram_timing.hpp.
//   HBM-PIM: a unit of 16 fp16 lanes per two banks. Its program sits in the CRF; operands come from the open row, from
//     the vector registers GRF_A and GRF_B, and scalars from SRF. A column command reaches the even or the odd banks.
//     Registers are memory-mapped to a reserved row of the odd banks, which must be open there to write them. SB mode
//     is plain memory, AB mode sends commands to all banks, AB-PIM makes them trigger the units; each change is a few
//     commands. Column commands keep tCCD_L, since every bank group takes part.
//     GEMV: an output per unit and GRF_B register, 16 lane sums each that the host adds up; GRF_A holds inputs.
//   AiM: a unit of 16 multiply-adds with an adder tree per bank, a global buffer with the input, all banks at once.
//     GEMV: rows of the matrix across banks; a page of inputs in the buffer, a page of weights per bank and activation.
// A group of commands that fills the registers ends in a fence; it orders commands and costs `fence` clocks.
// Activation of a set: at most `activate_at_once` banks at a time, further ones `activate_spacing` clocks later; that
// is the power limit. Peak = units lanes 2 clock / interval; internal bandwidth = banks per command access clock /
// interval. Sources: Lee et al., ISCA 2021, and SAITPublic/PIMSimulator for HBM-PIM; Lee et al., ISSCC 2022, for AiM.
// Left out: functional execution, exceptions, ECC, mixed traffic of a host beside an AB-PIM kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "hw/base/kernel.hpp"
#include "hw/memory/dram.hpp"
#include "sim/base/params.hpp"

namespace orrery::hw {

class CostModel;

/// How units, registers and commands are arranged.
enum class PimStyle : std::uint8_t { hbm_pim, aim };
constexpr auto enum_names(PimStyle) {
  using enum PimStyle;
  return sim::names<PimStyle>({{"hbm_pim", hbm_pim}, {"aim", aim}});
}

/// When a kernel goes to the units: whenever they can run it, or only where that is sooner than on the host.
enum class PimOffload : std::uint8_t { eligible, fastest };
constexpr auto enum_names(PimOffload) {
  using enum PimOffload;
  return sim::names<PimOffload>({{"eligible", eligible}, {"fastest", fastest}});
}

/// Energy in J beyond the memory's own: of the units, and the units' share of an activation of a set.
struct PimEnergy {
  double mac_j = 0, register_byte_j = 0, standby_w = 0;
  static sim::FieldRows<PimEnergy> fields();
};

/// `devices` stacks or chips that work in step.
struct BankPimParams {
  static constexpr std::string_view kKind = "bank_pim";
  PimStyle style = PimStyle::hbm_pim;
  DramParams dram;
  std::int64_t devices = 1;
  std::int64_t banks_per_unit = 2, lanes = 16, registers = 8, program_entries = 32;
  std::int64_t buffer_bytes = 0;
  std::int64_t column_interval = 0;
  std::int64_t mode_commands = 4, fence = 0;
  std::int64_t activate_at_once = 0, activate_spacing = 0;
  double launch_s = 0;
  PimOffload offload = PimOffload::fastest;
  PimEnergy energy;
  static sim::FieldRows<BankPimParams> fields();
  /// Faults that no single field shows, those of the memory included.
  static void check(const BankPimParams& pim, const sim::Node& fields, sim::Faults& faults);

  /// Clocks between column commands to all banks.
  std::int64_t interval() const { return column_interval > 0 ? column_interval : dram.timing.ccd_l; }
  /// Banks of a pseudo-channel that a column command reaches: one of each unit.
  std::int64_t banks_per_command() const { return dram.banks_per_lane() / banks_per_unit; }
  /// Clocks from the first to the last activation of `banks` banks.
  std::int64_t stagger(std::int64_t banks) const;
  /// Units of all devices, their peak in FLOP/s, and the bandwidth from banks to units in B/s.
  double units() const;
  double peak_flops() const;
  double internal_bandwidth() const;
  double external_bandwidth() const { return static_cast<double>(devices) * dram.peak_bandwidth(); }
};

/// What the units can run.
enum class PimOp : std::uint8_t { gemv, add, mul, bn, relu };

/// One kernel for the units: a matrix of `outputs` x `inputs` times `batch` vectors, or `elements` of an element-wise
/// operation; two-byte elements.
struct PimKernel {
  PimOp op = PimOp::gemv;
  std::int64_t outputs = 0, inputs = 0, batch = 1;
  std::int64_t elements = 0;
};

/// What a kernel costs one pseudo-channel, counted. Column commands reach banks_per_command() banks each.
struct PimCounts {
  std::int64_t clocks = 0;
  std::int64_t unit_reads = 0, unit_writes = 0;  ///< column commands from or to rows
  std::int64_t register_writes = 0;              ///< and to registers or the buffer
  std::int64_t result_reads = 0;                 ///< column reads of results by the host
  std::int64_t activations = 0;                  ///< of sets of banks
  std::int64_t set_banks = 0;                    ///< banks of a set
};

/// Counts of a kernel in closed form; `clocks` follow from the order of the command stream. Zero for an empty kernel.
PimCounts pim_counts(const BankPimParams& pim, const PimKernel& kernel);
/// Energy of a kernel on all devices, J, by command and by byte and level of its path.
double pim_energy_j(const BankPimParams& pim, const PimCounts& counts);
/// The same work without units: operands over the bus at the streaming rate, s. The baseline beside every figure.
double pim_baseline_s(const BankPimParams& pim, const PimKernel& kernel);
/// Seconds of a kernel with the host's launch.
double pim_time_s(const BankPimParams& pim, const PimCounts& counts);

/// Products with few rows and element-wise passes go to the units, everything else (and whatever `offload` keeps) to
/// `host`, which is the device without units.
std::unique_ptr<CostModel> make_bank_pim_cost(const BankPimParams& pim, std::unique_ptr<CostModel> host);

}  // namespace orrery::hw
