#include "hw/gpu/area.hpp"

#include <algorithm>
#include <cmath>

#include "hw/gpu/gpu.hpp"
#include "sim/base/math.hpp"

namespace orrery::hw {
namespace {

constexpr double kPi = 3.14159265358979323846;

double sram_mm2(double bytes, const ProcessParams& process, const AreaConstants& c) {
  return 8 * bytes * process.bitcell_um2 * 1e-6 / c.array_share;
}

double phy_mm2(MemoryPhy memory, const AreaConstants& c) {
  switch (memory) {
    case MemoryPhy::hbm:
      return c.hbm_mm2;
    case MemoryPhy::gddr:
      return c.gddr_mm2;
    case MemoryPhy::lpddr:
      return c.lpddr_mm2;
  }
  return c.hbm_mm2;
}

double memory_usd_per_gib(MemoryPhy memory, const AreaConstants& c) {
  switch (memory) {
    case MemoryPhy::hbm:
      return c.hbm_usd_per_gib;
    case MemoryPhy::gddr:
      return c.gddr_usd_per_gib;
    case MemoryPhy::lpddr:
      return c.lpddr_usd_per_gib;
  }
  return c.hbm_usd_per_gib;
}

}  // namespace

AreaEstimate estimate_area(const Chip& chip, const ProcessParams& process, const AreaConstants& c) {
  const DieParams& die = chip.die;
  const auto dies = static_cast<double>(die.dies);
  const auto on = static_cast<double>(chip.cores), there = std::max(on, static_cast<double>(die.cores) * dies);
  const double core = (chip.lanes * c.lane_mm2 + chip.macs * c.mac_mm2) / process.logic_density +
                      sram_mm2(chip.core_bytes, process, c) * c.port_factor;
  AreaEstimate out;
  out.cores = there * core;
  out.l2 = sram_mm2(std::max(chip.l2_bytes, static_cast<double>(die.l2_bytes) * dies), process, c);
  out.memory_phy = chip.memory_bandwidth * 1e-9 / die.memory_share * phy_mm2(die.memory, c);
  out.link_phy = chip.link_bandwidth * 1e-9 * c.link_mm2;
  out.total = (out.cores + out.l2 + out.memory_phy + out.link_phy) / (1 - c.rest);
  out.rest = out.total * c.rest;
  out.die = out.total / dies;

  const auto spare = static_cast<std::int64_t>((there - on) / dies);
  out.yield = die_yield(out.cores / dies, (out.total - out.cores) / dies, spare, process.defects_per_cm2);
  out.dies_per_wafer = dies_per_wafer(out.die, process.wafer_mm);
  out.silicon_usd = out.dies_per_wafer > 0 ? dies * process.wafer_cost / (out.dies_per_wafer * out.yield) : HUGE_VAL;
  out.memory_usd = chip.memory_bytes / 1073741824.0 * memory_usd_per_gib(die.memory, c);
  out.package_usd = out.total * c.package_usd_per_mm2;
  out.usd = out.silicon_usd + out.memory_usd + out.package_usd;
  return out;
}

double die_yield(double core_mm2, double other_mm2, std::int64_t spare, double defects_per_cm2) {
  const double per_mm2 = defects_per_cm2 / 100;
  const double hits = per_mm2 * std::max(0.0, core_mm2);
  double term = sim::det_exp(-hits), sum = term;
  for (std::int64_t i = 1; i <= spare; ++i) {
    term *= hits / static_cast<double>(i);
    sum += term;
  }
  return sim::det_exp(-per_mm2 * std::max(0.0, other_mm2)) * std::min(1.0, sum);
}

double dies_per_wafer(double die_mm2, double wafer_mm) {
  const double radius = wafer_mm / 2;
  return std::max(0.0, kPi * radius * radius / die_mm2 - 2 * kPi * radius / std::sqrt(2 * die_mm2));
}

AreaEstimate estimate_area(const GpuParams& gpu, const ProcessParams& process, const AreaConstants& c) {
  const double per_core_clock = 1 / (2 * static_cast<double>(gpu.sms) * gpu.clock_hz);  // a multiply-add is two FLOPs
  return estimate_area(Chip{.die = gpu.die,
                            .cores = gpu.sms,
                            .lanes = gpu.peak.fp32 * per_core_clock,
                            .macs = gpu.peak.fp16 * per_core_clock,
                            .core_bytes = static_cast<double>(gpu.l1_bytes + gpu.die.register_bytes),
                            .l2_bytes = static_cast<double>(gpu.l2_bytes),
                            .memory_bytes = static_cast<double>(gpu.memory_bytes),
                            .memory_bandwidth = gpu.memory_bandwidth,
                            .link_bandwidth = gpu.link.bandwidth},
                       process, c);
}

sim::FieldRows<ProcessParams> ProcessParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("bitcell_um2", &ProcessParams::bitcell_um2, Unit::none, sim::between(0.005, 1),
                               "Area of a high-density SRAM cell, in square micrometres.")),
      sim::required(sim::field("logic_density", &ProcessParams::logic_density, Unit::ratio, sim::between(0.05, 10),
                               "Logic density, relative to that of a 7 nm process.")),
      sim::field("wafer_diameter_mm", &ProcessParams::wafer_mm, Unit::none, sim::between(100, 450),
                 "Diameter of a wafer, in mm."),
      sim::required(sim::field("wafer_cost_usd", &ProcessParams::wafer_cost, Unit::none, sim::at_least(0),
                               "Price of a processed wafer, in US dollars.")),
      sim::field("defects_per_cm2", &ProcessParams::defects_per_cm2, Unit::none, sim::between(0, 10),
                 "Killer defects per square centimetre."),
  };
  return table;
}

sim::FieldRows<DieParams> DieParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("process", &DieParams::process, Unit::reference, sim::any_value(),
                 "Manufacturing process, a part of the catalog; empty: no estimate is made."),
      sim::field("cores", &DieParams::cores, Unit::count, sim::between(0, 1 << 16),
                 "Number of cores on the die; 0: those that are switched on."),
      sim::field("register_file", &DieParams::register_bytes, Unit::bytes, sim::at_least(0),
                 "Size of a core's register file."),
      sim::field("l2", &DieParams::l2_bytes, Unit::bytes, sim::at_least(0),
                 "Size of the L2 on the die; 0: what is switched on."),
      sim::field("memory_share", &DieParams::memory_share, Unit::ratio, sim::between(0.1, 1),
                 "Share of the die's memory interfaces that is switched on."),
      sim::field("memory_phy", &DieParams::memory, "Kind of the memory interface."),
      sim::field("area_mm2", &DieParams::area_mm2, Unit::none, sim::at_least(0),
                 "Published area of a die in mm2, for comparison only, never an input; 0: not published."),
      sim::field("dies", &DieParams::dies, Unit::count, sim::between(1, 64),
                 "Number of equal dies that make up the part."),
  };
  return table;
}

}  // namespace orrery::hw
