// Memories for the tests of this folder, and a checker of command streams that shares nothing with the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hw/memory/dram.hpp"
#include "hw/memory/dram_controller.hpp"
#include "hw/parts/catalog.hpp"

namespace orrery::hw::test {

inline DramParams dram(const std::string& name) {
  return read_part<DramParams>(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/" + name + ".json").part;
}

inline const std::vector<std::string>& dram_names() {
  static const std::vector<std::string> names{"ddr4-3200",  "ddr5-4800",    "gddr6-16gbps", "hbm2-2.4gbps",
                                              "hbm2-2gbps", "hbm2-neupims", "hbm3-5.2gbps"};
  return names;
}

/// The first rule that a stream of single-bank commands breaks, in words; none if it breaks none. Compares all pairs of
/// commands that lie closer than the longest rule, straight from the definitions of the timings.
inline std::optional<std::string> broken_rule(const DramParams& dram, const std::vector<DramCommand>& log) {
  const DramTiming& t = dram.timing;
  const std::int64_t per_rank = dram.banks_per_rank(), per_group = dram.organisation.banks_per_group;
  const std::int64_t burst = dram.burst_clocks();
  const auto rank = [&](const DramCommand& c) { return c.bank / per_rank; };
  const auto group = [&](const DramCommand& c) { return c.bank / per_group; };
  std::vector<std::int64_t> row(static_cast<std::size_t>(dram.banks_per_lane()), -1);
  for (std::size_t i = 0; i < log.size(); ++i) {
    const DramCommand& b = log[i];
    const auto fail = [&](const char* rule) { return std::string(rule) + " at command " + std::to_string(i); };
    std::int64_t& open = row[static_cast<std::size_t>(b.bank)];
    if (b.op == DramOp::activate && open >= 0) return fail("activation of an open bank");
    if ((b.op == DramOp::read || b.op == DramOp::write) && open != b.row) return fail("column command to another row");
    if (b.op == DramOp::refresh)
      for (std::int64_t bank = b.bank; bank < b.bank + per_rank; ++bank)
        if (row[static_cast<std::size_t>(bank)] >= 0) return fail("refresh with an open bank");
    if (b.op == DramOp::activate) open = b.row;
    if (b.op == DramOp::precharge) open = -1;
    std::int64_t window = 0;  // activations of the rank before this one
    for (std::size_t j = i; j-- > 0;) {
      const DramCommand& a = log[j];
      const std::int64_t gap = b.clock - a.clock;
      if (gap < 0) return fail("order");
      if (gap > t.rfc + t.rc) break;
      const bool same_rank = rank(a) == rank(b), same_group = group(a) == group(b), same_bank = a.bank == b.bank;
      const bool column_a = a.op == DramOp::read || a.op == DramOp::write;
      const bool column_b = b.op == DramOp::read || b.op == DramOp::write;
      if (gap < 1 && column_a == column_b) return fail("command bus");
      if (a.op == DramOp::refresh && same_rank && b.op != DramOp::precharge && gap < t.rfc) return fail("tRFC");
      if (b.op == DramOp::refresh && same_rank && a.op == DramOp::precharge && gap < t.rp)
        return fail("tRP of refresh");
      if (a.op == DramOp::activate && b.op == DramOp::activate && same_rank) {
        if (gap < (same_group ? t.rrd_l : t.rrd_s)) return fail("tRRD");
        if (same_bank && gap < t.rc) return fail("tRC");
        if (++window == 4 && gap < t.faw) return fail("tFAW");
      }
      if (same_bank) {
        if (a.op == DramOp::precharge && b.op == DramOp::activate && gap < t.rp) return fail("tRP");
        if (a.op == DramOp::activate && b.op == DramOp::precharge && gap < t.ras) return fail("tRAS");
        if (a.op == DramOp::activate && b.op == DramOp::read && gap < t.rcd_rd) return fail("tRCDRD");
        if (a.op == DramOp::activate && b.op == DramOp::write && gap < t.rcd_wr) return fail("tRCDWR");
        if (a.op == DramOp::read && b.op == DramOp::precharge && gap < t.rtp) return fail("tRTP");
        if (a.op == DramOp::write && b.op == DramOp::precharge && gap < t.wl + burst + t.wr) return fail("tWR");
      }
      if (column_a && column_b) {
        const std::int64_t from = a.clock + (a.op == DramOp::read ? t.rl : t.wl);
        const std::int64_t to = b.clock + (b.op == DramOp::read ? t.rl : t.wl);
        if (from + burst > to) return fail("data bus");
        if (same_rank && a.op == b.op && gap < (same_group ? t.ccd_l : t.ccd_s)) return fail("tCCD");
        if (same_rank && a.op == DramOp::write && b.op == DramOp::read &&
            gap < t.wl + burst + (same_group ? t.wtr_l : t.wtr_s))
          return fail("tWTR");
      }
    }
  }
  return std::nullopt;
}

}  // namespace orrery::hw::test
