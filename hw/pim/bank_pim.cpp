#include "hw/pim/bank_pim.hpp"

#include <algorithm>
#include <string>

#include "hw/base/real.hpp"
#include "hw/memory/dram_rate.hpp"

namespace orrery::hw {
namespace {

constexpr double kElement = 2;  // bytes: fp16 and bf16

}  // namespace

std::int64_t BankPimParams::stagger(std::int64_t banks) const {
  if (activate_at_once <= 0 || banks <= activate_at_once) return 0;
  return ((banks + activate_at_once - 1) / activate_at_once - 1) * activate_spacing;
}

double BankPimParams::units() const {
  return d(devices) * d(dram.lanes()) * d(banks_per_command());
}

double BankPimParams::peak_flops() const {
  return 2 * units() * d(lanes) * dram.clock_hz / d(interval());
}

double BankPimParams::internal_bandwidth() const {
  return units() * d(dram.access_bytes()) * dram.clock_hz / d(interval());
}

void BankPimParams::check(const BankPimParams& pim, const sim::Node& fields, sim::Faults& faults) {
  DramParams::check(pim.dram, *fields.find("dram"), faults);
  const auto add = [&](const char* place, std::string message) {
    faults.add(fields.origin_at(place), std::move(message));
  };
  if (pim.dram.banks_per_lane() % pim.banks_per_unit != 0 || pim.banks_per_unit > 2)
    add("banks_per_unit", "expected 1 or 2 that divides the " + std::to_string(pim.dram.banks_per_lane()) +
                              " banks, got " + std::to_string(pim.banks_per_unit));
  if (pim.lanes * 2 != pim.dram.access_bytes())
    add("lanes", "expected lanes of two bytes to take a column access of " + std::to_string(pim.dram.access_bytes()) +
                     " bytes, got " + std::to_string(pim.lanes));
  if (pim.style == PimStyle::aim && pim.buffer_bytes < pim.dram.access_bytes())
    add("buffer", "expected a buffer of at least a column access for style aim, got " +
                      std::to_string(pim.buffer_bytes) + " bytes");
  const DramTiming& t = pim.dram.timing;
  const std::int64_t refresh = t.rfc + t.rtp + t.rp + t.rcd_rd + pim.stagger(pim.dram.banks_per_lane());
  if (t.refi <= refresh)
    add("activate_spacing", "expected activations of all banks to leave time between refreshes: " +
                                std::to_string(refresh) + " of " + std::to_string(t.refi) + " clocks are gone");
  if (pim.dram.organisation.ranks != 1)
    add("dram.organisation.ranks", "expected 1 rank, got " + std::to_string(pim.dram.organisation.ranks));
}

double pim_energy_j(const BankPimParams& pim, const PimCounts& counts) {
  const DramEnergy& e = pim.dram.energy;
  const double bits = 8 * d(pim.dram.access_bytes());
  const double path = e.column_bit_j + e.group_bit_j + e.tsv_bit_j + e.io_bit_j;  // between a bank's edge and the host
  const double banks = d(counts.set_banks);
  const double rows = d(counts.activations) * banks * pim.dram.row_j();
  const double column = banks * (bits * e.cell_bit_j + d(pim.dram.access_bytes()) * pim.energy.register_byte_j);
  const double reads = d(counts.unit_reads) * (column + banks * d(pim.lanes) * pim.energy.mac_j);
  const double writes = d(counts.unit_writes) * column;
  const double registers =
      d(counts.register_writes) * (bits * path + banks * d(pim.dram.access_bytes()) * pim.energy.register_byte_j);
  const double results = d(counts.result_reads) * bits * path;
  const double all = d(pim.devices) * d(pim.dram.lanes());
  return all * (rows + reads + writes + registers + results) +
         d(pim.devices) * pim.energy.standby_w * d(counts.clocks) / pim.dram.clock_hz;
}

double pim_baseline_s(const BankPimParams& pim, const PimKernel& kernel) {
  double bytes = 0;
  if (kernel.op == PimOp::gemv) {
    bytes =
        kElement * (d(kernel.outputs) * d(kernel.inputs) + d(kernel.batch) * (d(kernel.outputs) + d(kernel.inputs)));
  } else {
    const double streams = kernel.op == PimOp::add || kernel.op == PimOp::mul ? 3 : 2;
    bytes = kElement * streams * d(kernel.elements);
  }
  return bytes / (pim.external_bandwidth() * streaming_share(pim.dram));
}

double pim_time_s(const BankPimParams& pim, const PimCounts& counts) {
  return counts.clocks == 0 ? 0 : pim.launch_s + d(counts.clocks) / pim.dram.clock_hz;
}

sim::FieldRows<PimEnergy> PimEnergy::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("mac", &PimEnergy::mac_j, Unit::joules, sim::at_least(0), "Energy of one lane's multiply-add."),
      sim::field("register_byte", &PimEnergy::register_byte_j, Unit::joules, sim::at_least(0),
                 "Energy per byte to or from a unit's registers or buffer."),
      sim::field("standby", &PimEnergy::standby_w, Unit::watts, sim::at_least(0),
                 "Power of all units of a device while a kernel runs."),
  };
  return table;
}

sim::FieldRows<BankPimParams> BankPimParams::fields() {
  using sim::Unit;
  using P = BankPimParams;
  static const sim::FieldTable table{
      sim::required(
          sim::field("style", &P::style, "How units, registers and commands are arranged, as in HBM-PIM or in AiM.")),
      sim::required(sim::field("dram", &P::dram, "Memory of one device.")),
      sim::field("devices", &P::devices, Unit::count, sim::between(1, 4096),
                 "Number of stacks or chips that work in step."),
      sim::field("banks_per_unit", &P::banks_per_unit, Unit::count, sim::between(1, 8),
                 "Number of banks that share a unit."),
      sim::field("lanes", &P::lanes, Unit::count, sim::between(1, 256), "Number of fp16 lanes per unit."),
      sim::field("registers", &P::registers, Unit::count, sim::between(1, 256),
                 "Vector registers in each of GRF_A and GRF_B, each as wide as a column access."),
      sim::field("program_entries", &P::program_entries, Unit::count, sim::between(1, 1024),
                 "Number of 32-bit instructions in the CRF, written before a kernel."),
      sim::field("buffer", &P::buffer_bytes, Unit::bytes, sim::at_least(0),
                 "Size of the global buffer of a pseudo-channel (AiM); 0: none."),
      sim::field("column_interval", &P::column_interval, Unit::count, sim::between(0, 1024),
                 "Clocks between column commands that go to all banks; 0: tCCD_L."),
      sim::field("mode_commands", &P::mode_commands, Unit::count, sim::between(0, 64),
                 "Commands needed to enter all-bank mode, and again to leave it."),
      sim::field("fence", &P::fence, Unit::count, sim::between(0, 1e6),
                 "Clocks that a fence adds; 0: it only orders commands."),
      sim::field("activate_at_once", &P::activate_at_once, Unit::count, sim::between(0, 64),
                 "Most banks of a pseudo-channel that may be activated at once; 0: all."),
      sim::field("activate_spacing", &P::activate_spacing, Unit::count, sim::between(0, 1e6),
                 "Clocks between groups of banks that are activated at once."),
      sim::field("launch", &P::launch_s, Unit::seconds, sim::at_least(0), "Host time to start a kernel."),
      sim::field("offload", &P::offload,
                 "When kernels go to the units: whenever they can run them (eligible), or where that is faster than "
                 "the host (fastest)."),
      sim::field("energy", &P::energy, "Energy of the units."),
  };
  return table;
}

}  // namespace orrery::hw
