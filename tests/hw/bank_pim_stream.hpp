// The commands of a kernel on bank-level units, and their play on the timings of one pseudo-channel.
//
// A stream is a list of steps: column commands to sets of banks (with the row that must be open there), mode changes,
// fences. The player opens and closes rows of whole sets as the steps demand, in order, and refreshes when due; it is
// what the closed form of hw/pim/bank_pim.hpp is held against.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/memory/dram_timing.hpp"
#include "hw/pim/bank_pim.hpp"

namespace orrery::hw {

enum class PimStepKind : std::uint8_t {
  read_rows,        ///< units take operands from the open row
  write_rows,       ///< units write results to the open row
  write_registers,  ///< the host writes registers, program or buffer
  read_results,     ///< the host reads results
  fence
};

/// `count` column commands of a kind to one set of banks and one row.
struct PimStep {
  PimStepKind kind = PimStepKind::fence;
  BankSet banks = 0;
  std::int64_t row = 0, count = 0;
};

/// Row to which registers are mapped.
inline constexpr std::int64_t kRegisterRow = -2;

/// The even and the odd banks of every unit (hbm_pim), or all banks twice (aim).
BankSet pim_banks(const BankPimParams& pim, bool odd);

/// Steps of a kernel on one pseudo-channel, mode changes included.
std::vector<PimStep> pim_steps(const BankPimParams& pim, const PimKernel& kernel);

/// Plays steps; counts as they came out. `refresh`: whether refreshes interrupt.
PimCounts play_steps(const BankPimParams& pim, const std::vector<PimStep>& steps, bool refresh = true);

}  // namespace orrery::hw
