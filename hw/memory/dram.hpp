// DRAM as the bank-timing model sees it: how a device is organised, and what its data sheet forbids.
//
// A device (a stack, a DIMM's channels, a chip) has `channels`, each split into `pseudo_channels` that work on their
// own and have ranks, bank groups and banks. A bank holds rows of `columns` bus words; one column command moves `burst`
// bus words. All timings are whole clocks of `clock`, as in JEDEC's tables and in the configuration files of DRAM
// simulators; the bus carries `transfers_per_clock` words a clock (2 for DDR and HBM2; more where a faster strobe
// clocks the data). From these:
//   access = bus_bits / 8 * burst                      bytes of a column command
//   t_burst = burst / transfers_per_clock              clocks of the bus that it takes
//   peak = channels pseudo_channels bus_bits / 8 clock transfers_per_clock
// hw/memory/dram_timing.hpp plays commands against the timings, dram_controller.hpp schedules requests, dram_rate.hpp
// says in closed form what comes out. Sources of the values: hw/catalog/*.json.
// Left out: power-down states, temperature-dependent refresh, per-bank refresh, on-die ECC, command encodings that take
// several clocks.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/base/params.hpp"

namespace orrery::hw {

/// Family of the standard; a label, since every number stands in the entry.
enum class DramStandard : std::uint8_t { ddr4, ddr5, gddr6, hbm2, hbm3 };
constexpr auto enum_names(DramStandard) {
  using enum DramStandard;
  return sim::names<DramStandard>({{"ddr4", ddr4}, {"ddr5", ddr5}, {"gddr6", gddr6}, {"hbm2", hbm2}, {"hbm3", hbm3}});
}

/// Counts of a device. Columns are words of the bus, so a row holds columns * bus_bits / 8 bytes.
struct DramOrganisation {
  std::int64_t channels = 1, pseudo_channels = 1, ranks = 1, bank_groups = 4, banks_per_group = 4;
  std::int64_t rows = 0, columns = 0, bus_bits = 0, burst = 0;
  static sim::FieldRows<DramOrganisation> fields();
};

/// Least distances between commands, in clocks.
struct DramTiming {
  std::int64_t rcd_rd = 0, rcd_wr = 0, rp = 0, ras = 0, rc = 0;
  std::int64_t ccd_s = 0, ccd_l = 0, rrd_s = 0, rrd_l = 0, faw = 0;
  std::int64_t wr = 0, wtr_s = 0, wtr_l = 0, rtp = 0, rl = 0, wl = 0;
  std::int64_t rfc = 0, refi = 0, rtrs = 1;
  static sim::FieldRows<DramTiming> fields();
};

/// Energy in J per bit by level of the path, and of the device without commands in W.
struct DramEnergy {
  double activate_bit_j = 0, cell_bit_j = 0, column_bit_j = 0, group_bit_j = 0, tsv_bit_j = 0, io_bit_j = 0;
  double background_w = 0, open_rows_w = 0;
  static sim::FieldRows<DramEnergy> fields();
};

/// A memory device.
struct DramParams {
  static constexpr std::string_view kKind = "dram";
  DramStandard standard = DramStandard::hbm2;
  DramOrganisation organisation;
  double clock_hz = 0;
  std::int64_t transfers_per_clock = 2;
  DramTiming timing;
  DramEnergy energy;
  static sim::FieldRows<DramParams> fields();

  /// Faults that no single field shows: timings that contradict each other, counts that do not divide.
  static void check(const DramParams& dram, const sim::Node& fields, sim::Faults& faults);

  /// Bytes that a column command moves over the bus (or out of one bank).
  std::int64_t access_bytes() const { return organisation.bus_bits / 8 * organisation.burst; }
  /// Bytes of a row.
  std::int64_t page_bytes() const { return organisation.bus_bits / 8 * organisation.columns; }
  /// Column commands that a row holds.
  std::int64_t accesses_per_row() const { return organisation.columns / organisation.burst; }
  /// Clocks of the bus that a column command takes, rounded up.
  std::int64_t burst_clocks() const { return (organisation.burst + transfers_per_clock - 1) / transfers_per_clock; }
  /// Pseudo-channels of the device: each has a controller of its own.
  std::int64_t lanes() const { return organisation.channels * organisation.pseudo_channels; }
  /// Banks of a rank, and of a pseudo-channel.
  std::int64_t banks_per_rank() const { return organisation.bank_groups * organisation.banks_per_group; }
  std::int64_t banks_per_lane() const { return organisation.ranks * banks_per_rank(); }
  /// Peak of the device, B/s.
  double peak_bandwidth() const;
  /// Capacity of the device, bytes.
  double capacity_bytes() const;
  /// Energy of a bit from an open row to the host, J, without activation.
  double access_bit_j() const;
  /// Energy of opening and closing one row, J.
  double row_j() const;
};

}  // namespace orrery::hw
