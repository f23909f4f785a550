// Area and cost of a GPU-class die, estimated from its design: what design-space exploration trades speed against.
//
//   core = (lanes lane_mm2 + MACs mac_mm2) / logic_density + SRAM(L1 + registers) * port_factor
//   die  = (cores core + SRAM(L2) + memory bandwidth phy_mm2 + link bandwidth link_mm2) / (1 - rest)
//   SRAM(b) = 8 b bitcell / array_share
//   yield = exp(-D0 other) * sum_{i <= spare} Poisson(i; D0 cores core): a defect in a core costs that core, of which
//           `spare` may be off; anywhere else it costs the die
//   dies per wafer = pi r^2 / A - 2 pi r / sqrt(2 A)        cost = wafer / (dies yield) + memory + package
//
// Lanes are fp32 multiply-adds a core and clock, MACs fp16 ones of the matrix units, both from the peaks. Two constants
// of logic (mm2 at 7 nm) are fitted to six published dies of four processes; leaving one out, the other five predict it
// within 9 to 25 % (docs/explain/energy.md). Left out: double-precision and ray-tracing units, which is most of the
// error; dies of several chips are counted one by one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/params.hpp"

namespace orrery::hw {

struct GpuParams;

/// A manufacturing process. Areas in mm2.
struct ProcessParams {
  static constexpr std::string_view kKind = "process";
  double bitcell_um2 = 0, logic_density = 1, wafer_mm = 300, wafer_cost = 0, defects_per_cm2 = 0.1;
  static sim::FieldRows<ProcessParams> fields();
};

enum class MemoryPhy : std::uint8_t { hbm, gddr, lpddr };
constexpr auto enum_names(MemoryPhy) {
  using enum MemoryPhy;
  return sim::names<MemoryPhy>({{"hbm", hbm}, {"gddr", gddr}, {"lpddr", lpddr}});
}

/// What the part's die holds beyond what the part has switched on.
struct DieParams {
  std::string process;
  std::int64_t cores = 0;
  std::int64_t register_bytes = 262144, l2_bytes = 0;
  double memory_share = 1;
  MemoryPhy memory = MemoryPhy::hbm;
  double area_mm2 = 0;
  std::int64_t dies = 1;
  static sim::FieldRows<DieParams> fields();
};

/// Constants of the estimate; the defaults are those of docs/explain/energy.md.
struct AreaConstants {
  double lane_mm2 = 0.0238, mac_mm2 = 0.0019;                   ///< at 7 nm
  double array_share = 0.5, port_factor = 1.6;                  ///< cells of an SRAM macro; ports of a core's
  double hbm_mm2 = 0.030, gddr_mm2 = 0.085, lpddr_mm2 = 0.085;  ///< a GB/s of memory
  double link_mm2 = 0.10, rest = 0.12;                          ///< a GB/s of link; share of all else
  double hbm_usd_per_gib = 12, gddr_usd_per_gib = 4, lpddr_usd_per_gib = 3;
  double package_usd_per_mm2 = 0.15;
};

/// Areas in mm2 (of all dies), costs in US dollars.
struct AreaEstimate {
  double cores = 0, l2 = 0, memory_phy = 0, link_phy = 0, rest = 0, die = 0, total = 0;
  double yield = 1, dies_per_wafer = 0;
  double silicon_usd = 0, memory_usd = 0, package_usd = 0, usd = 0;
};

/// What an estimate needs to know of a chip; lanes, MACs and bytes are of a core.
struct Chip {
  const DieParams& die;
  std::int64_t cores = 1;
  double lanes = 0, macs = 0, core_bytes = 0;
  double l2_bytes = 0, memory_bytes = 0, memory_bandwidth = 0, link_bandwidth = 0;
};
AreaEstimate estimate_area(const Chip& chip, const ProcessParams& process, const AreaConstants& constants);

/// Estimate for a design. `gpu.die.cores` and `l2` of 0 stand for what is switched on.
AreaEstimate estimate_area(const GpuParams& gpu, const ProcessParams& process, const AreaConstants& constants = {});

/// Share of dies that work: at most `spare` of the defects fall, one each, on cores, none elsewhere. Areas in mm2.
double die_yield(double core_mm2, double other_mm2, std::int64_t spare, double defects_per_cm2);
/// Whole dies on a wafer, fractions kept; 0 for a die that does not fit.
double dies_per_wafer(double die_mm2, double wafer_mm);

}  // namespace orrery::hw
