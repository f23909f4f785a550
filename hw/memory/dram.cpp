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

}  // namespace orrery::hw
