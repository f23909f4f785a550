#include "hw/memory/dram.hpp"

#include <string>

namespace orrery::hw {

double DramParams::peak_bandwidth() const {
  return static_cast<double>(lanes()) * static_cast<double>(organisation.bus_bits) / 8 * clock_hz *
         static_cast<double>(transfers_per_clock);
}

double DramParams::capacity_bytes() const {
  return static_cast<double>(lanes()) * static_cast<double>(banks_per_lane()) * static_cast<double>(organisation.rows) *
         static_cast<double>(page_bytes());
}

double DramParams::access_bit_j() const {
  return energy.cell_bit_j + energy.column_bit_j + energy.group_bit_j + energy.tsv_bit_j + energy.io_bit_j;
}

double DramParams::row_j() const {
  return energy.activate_bit_j * 8 * static_cast<double>(page_bytes());
}

void DramParams::check(const DramParams& dram, const sim::Node& fields, sim::Faults& faults) {
  const DramTiming& t = dram.timing;
  const DramOrganisation& o = dram.organisation;
  const auto add = [&](const char* place, std::string message) {
    faults.add(fields.origin_at(place), std::move(message));
  };
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  if (o.bus_bits % 8 != 0) add("organisation.bus_bits", "expected whole bytes, got " + number(o.bus_bits) + " bits");
  if (o.burst > 0 && o.columns % o.burst != 0)
    add("organisation.columns",
        "expected a multiple of the burst of " + number(o.burst) + ", got " + number(o.columns));
  if (dram.banks_per_lane() > 64)
    add("organisation", "expected at most 64 banks behind one bus, got " + number(dram.banks_per_lane()));
  if (t.rc < t.ras + t.rp)
    add("timing.rc", "expected at least ras + rp = " + number(t.ras + t.rp) + ", got " + number(t.rc));
  if (t.ras < t.rcd_rd) add("timing.ras", "expected at least rcd_rd = " + number(t.rcd_rd) + ", got " + number(t.ras));
  if (t.ccd_l < t.ccd_s)
    add("timing.ccd_l", "expected at least ccd_s = " + number(t.ccd_s) + ", got " + number(t.ccd_l));
  if (t.ccd_s < dram.burst_clocks())
    add("timing.ccd_s",
        "expected at least the burst's " + number(dram.burst_clocks()) + " clocks, got " + number(t.ccd_s));
  if (t.rrd_l < t.rrd_s)
    add("timing.rrd_l", "expected at least rrd_s = " + number(t.rrd_s) + ", got " + number(t.rrd_l));
  if (t.faw < t.rrd_s) add("timing.faw", "expected at least rrd_s = " + number(t.rrd_s) + ", got " + number(t.faw));
  if (t.wtr_l < t.wtr_s)
    add("timing.wtr_l", "expected at least wtr_s = " + number(t.wtr_s) + ", got " + number(t.wtr_l));
  const std::int64_t refresh = t.rfc + t.rtp + t.rp + t.rcd_rd;  // with closing and opening a row
  if (t.refi <= refresh)
    add("timing.refi", "expected more than rfc + rtp + rp + rcd_rd = " + number(refresh) + ", got " + number(t.refi));
}

sim::FieldRows<DramOrganisation> DramOrganisation::fields() {
  using sim::Unit;
  using O = DramOrganisation;
  static const sim::FieldTable table{
      sim::required(sim::field("channels", &O::channels, Unit::count, sim::between(1, 4096),
                               "Number of channels of the device.")),
      sim::field("pseudo_channels", &O::pseudo_channels, Unit::count, sim::between(1, 8),
                 "Number of independent pseudo-channels (HBM) or subchannels (DDR5) per channel."),
      sim::field("ranks", &O::ranks, Unit::count, sim::between(1, 16),
                 "Number of ranks that share a pseudo-channel's bus."),
      sim::required(sim::field("bank_groups", &O::bank_groups, Unit::count, sim::between(1, 16),
                               "Number of bank groups per rank.")),
      sim::required(sim::field("banks_per_group", &O::banks_per_group, Unit::count, sim::between(1, 16),
                               "Number of banks per bank group.")),
      sim::required(sim::field("rows", &O::rows, Unit::count, sim::between(1, 1 << 24), "Number of rows per bank.")),
      sim::required(
          sim::field("columns", &O::columns, Unit::count, sim::between(1, 1 << 16), "Number of bus words per row.")),
      sim::required(sim::field("bus_bits", &O::bus_bits, Unit::count, sim::between(8, 1024),
                               "Width of a pseudo-channel's data bus, in bits.")),
      sim::required(
          sim::field("burst", &O::burst, Unit::count, sim::between(1, 64), "Number of bus words per column command.")),
  };
  return table;
}

sim::FieldRows<DramTiming> DramTiming::fields() {
  using sim::Unit;
  using T = DramTiming;
  const auto clocks = [](const char* name, std::int64_t T::*member, const char* doc) {
    return sim::required(sim::field(name, member, Unit::count, sim::between(1, 1e6), doc));
  };
  static const sim::FieldTable table{
      clocks("rcd_rd", &T::rcd_rd, "tRCDRD: clocks from an activation to a read."),
      clocks("rcd_wr", &T::rcd_wr, "tRCDWR: clocks from an activation to a write."),
      clocks("rp", &T::rp, "tRP: clocks from a precharge to an activation of the same bank."),
      clocks("ras", &T::ras, "tRAS: clocks from an activation to a precharge."),
      clocks("rc", &T::rc, "tRC: clocks between activations of the same bank."),
      clocks("ccd_s", &T::ccd_s, "tCCD_S: clocks between column commands to different bank groups."),
      clocks("ccd_l", &T::ccd_l, "tCCD_L: clocks between column commands to the same bank group."),
      clocks("rrd_s", &T::rrd_s, "tRRD_S: clocks between activations in different bank groups."),
      clocks("rrd_l", &T::rrd_l, "tRRD_L: clocks between activations in the same bank group."),
      clocks("faw", &T::faw, "tFAW (tXAW): window in clocks that holds at most four activations of a rank."),
      clocks("wr", &T::wr, "tWR: clocks from the last word of a write to a precharge."),
      clocks("wtr_s", &T::wtr_s, "tWTR_S: clocks from the last word of a write to a read in another bank group."),
      clocks("wtr_l", &T::wtr_l, "tWTR_L: clocks from the last word of a write to a read in the same bank group."),
      clocks("rtp", &T::rtp, "tRTP: clocks from a read to a precharge."),
      clocks("rl", &T::rl, "Read latency: clocks from the command to the first word."),
      clocks("wl", &T::wl, "Write latency: clocks from the command to the first word."),
      clocks("rfc", &T::rfc, "tRFC: clocks that a refresh of a rank takes."),
      clocks("refi", &T::refi, "tREFI: clocks between refreshes."),
      sim::field("rtrs", &T::rtrs, Unit::count, sim::between(0, 64),
                 "Clocks of a gap on the bus when another rank, or the other direction, starts to drive it."),
  };
  return table;
}

sim::FieldRows<DramEnergy> DramEnergy::fields() {
  using sim::Unit;
  using E = DramEnergy;
  constexpr sim::Range kAny = sim::at_least(0);
  static const sim::FieldTable table{
      sim::field("activate_bit", &E::activate_bit_j, Unit::joules, kAny,
                 "Energy to open and close a row, per bit of the row."),
      sim::field("cell_bit", &E::cell_bit_j, Unit::joules, kAny, "Energy per bit of a column access at the bank."),
      sim::field("column_bit", &E::column_bit_j, Unit::joules, kAny,
                 "Energy per bit from the bank to its group's multiplexer."),
      sim::field("group_bit", &E::group_bit_j, Unit::joules, kAny,
                 "Energy per bit from the group's multiplexer to the die's global bus."),
      sim::field("tsv_bit", &E::tsv_bit_j, Unit::joules, kAny, "Energy per bit through the stack (TSVs)."),
      sim::field("io_bit", &E::io_bit_j, Unit::joules, kAny, "Energy per bit from the device to the host."),
      sim::field("background", &E::background_w, Unit::watts, kAny, "Power of the device, whatever it does."),
      sim::field("open_rows", &E::open_rows_w, Unit::watts, kAny, "Power of the device added while a row is open."),
  };
  return table;
}

sim::FieldRows<DramParams> DramParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("standard", &DramParams::standard, "Family of the standard; only a label.")),
      sim::required(sim::field("organisation", &DramParams::organisation,
                               "Organisation: numbers of channels, ranks, banks, rows and columns.")),
      sim::required(sim::field("clock", &DramParams::clock_hz, Unit::hertz, sim::between(1e8, 1e10),
                               "Command clock, in whose cycles the timings are given.")),
      sim::field("transfers_per_clock", &DramParams::transfers_per_clock, Unit::count, sim::between(1, 16),
                 "Bus words that the data pins carry per command clock."),
      sim::required(sim::field("timing", &DramParams::timing, "Timing constraints between commands, in clocks.")),
      sim::field("energy", &DramParams::energy, "Energy by level of the data path."),
  };
  return table;
}

}  // namespace orrery::hw
