// Kernels on bank-level units in closed form: what the command streams of tests/hw/bank_pim_stream.hpp come to.
//
// Distances between the last column command of a step and the first of the next, c = interval, s = stagger:
//   read to write, same row     RL + burst + tRTRS - WL
//   write to read, same row     WL + burst + tWTR_L
//   read, then another row      max(tRTP, tRAS - tRCD - (n-1) c) + tRP + tRCD + s      n = commands that used the row
//   write, then another row     WL + burst + tWR + tRP + tRCD + s
//   other side, another row     max(turnaround, tRP + tRCD + s): its old row has been idle long enough
// A refresh adds tRFC and closing and opening rows, every tREFI.
#include <algorithm>

#include "hw/base/arithmetic.hpp"
#include "hw/pim/bank_pim.hpp"

namespace orrery::hw {
namespace {

// Distances across a fence: what comes next waits `fence` clocks from the last command, closing of rows included.
class CommandDistances {
 public:
  explicit CommandDistances(const BankPimParams& pim)
      : t_(pim.dram.timing),
        burst_(pim.dram.burst_clocks()),
        stagger_(pim.stagger(pim.banks_per_command())),
        interval_(pim.interval()),
        fence_(pim.fence) {}

  std::int64_t interval() const { return interval_; }
  std::int64_t run(std::int64_t commands) const { return std::max<std::int64_t>(0, commands - 1) * interval_; }
  std::int64_t open(bool write) const { return t_.rp + (write ? t_.rcd_wr : t_.rcd_rd) + stagger_; }

  std::int64_t fenced_interval() const { return std::max(interval_, fence_); }
  std::int64_t turn_to_write() const { return std::max({std::int64_t{1}, t_.rl + burst_ + t_.rtrs - t_.wl, fence_}); }
  std::int64_t turn_to_read() const { return std::max(t_.wl + burst_ + t_.wtr_l, fence_); }
  /// From a row of `n` reads to another row of the same banks.
  std::int64_t after_reads(std::int64_t n, bool write) const {
    const std::int64_t close = std::max({t_.rtp, t_.ras - t_.rcd_rd - run(n), fence_});
    return std::max(close + open(write), write ? turn_to_write() : interval_);
  }
  std::int64_t after_writes(bool write) const { return std::max(t_.wl + burst_ + t_.wr, fence_) + open(write); }
  /// From writes of one side to reads of a new row of the other.
  std::int64_t other_side() const { return std::max(turn_to_read(), fence_ + open(false)); }
  /// Clocks with refreshes among them.
  std::int64_t refreshed(std::int64_t clocks) const {
    const double lost = static_cast<double>(t_.rfc + t_.rtp + t_.rp + t_.rcd_rd + stagger_);
    const auto refreshes =
        static_cast<std::int64_t>(static_cast<double>(clocks) / (static_cast<double>(t_.refi) - lost));
    return clocks + static_cast<std::int64_t>(static_cast<double>(refreshes) * lost);
  }

 private:
  const DramTiming& t_;
  std::int64_t burst_, stagger_, interval_, fence_;
};

// Mode changes and program at both ends of an HBM-PIM kernel; returns their clocks.
std::int64_t mode_changes(const BankPimParams& pim, const CommandDistances& at, PimCounts& counts) {
  const std::int64_t writes =
      pim.mode_commands + ceil_div(pim.program_entries * 4, pim.dram.access_bytes()) + ceil_div(pim.mode_commands, 2);
  counts.register_writes += writes;
  counts.activations += 1;
  return pim.dram.timing.rcd_wr + at.run(writes) + at.interval() + pim.fence + pim.dram.timing.wl +
         pim.dram.burst_clocks();
}

PimCounts hbm_gemv(const BankPimParams& pim, const PimKernel& k) {
  const CommandDistances at(pim);
  const std::int64_t r = pim.registers, per_row = pim.dram.accesses_per_row(), sides = pim.banks_per_unit;
  const auto units = static_cast<std::int64_t>(pim.units());
  const std::int64_t output_tiles = ceil_div(k.outputs, units * r), input_tiles = ceil_div(k.inputs, pim.lanes * r);
  const std::int64_t passes = output_tiles * k.batch;
  PimCounts counts;
  counts.set_banks = pim.banks_per_command();

  std::int64_t clocks = 0;
  for (std::int64_t side = 0; side < sides; ++side) {
    const bool shared = side == sides - 1;  // the side whose banks hold the register row
    const std::int64_t tiles = (input_tiles - side + sides - 1) / sides;
    const std::int64_t reads = tiles * r * r;
    const std::int64_t rows = ceil_div(reads, per_row);
    // A tile starts with a row of its own if tiles are whole rows; else rows run on from tile to tile.
    const std::int64_t fresh = r * r % per_row == 0 || shared ? tiles : std::min(tiles, rows);
    const std::int64_t within = std::max<std::int64_t>(0, rows - fresh);
    const std::int64_t fences = std::max<std::int64_t>(0, tiles * (r - 1) - within);
    const std::int64_t used = std::min(per_row, r * r);
    const std::int64_t to_registers = shared ? at.after_reads(used, true) : at.turn_to_write();
    const std::int64_t to_rows = shared ? at.after_writes(false) : at.other_side();
    clocks += tiles * (to_registers + at.run(r)) + fresh * to_rows + (tiles - fresh) * at.turn_to_read() +
              within * at.after_reads(per_row, false) + fences * at.fenced_interval() +
              (reads - tiles - within - fences) * at.interval();
    counts.activations += (rows > fresh ? rows : fresh) + (shared ? tiles : 0);
    counts.unit_reads += reads;
    counts.register_writes += tiles * r;
  }
  // Results go to a row of the odd banks, and the program's start is a register write before and after.
  clocks += at.after_reads(std::min(per_row, r * r), true) + at.run(r) + at.after_writes(true) + 2 * at.interval();
  counts.unit_writes += r;
  counts.register_writes += 2;
  counts.activations += 2;

  counts.activations *= passes;
  counts.unit_reads *= passes;
  counts.unit_writes *= passes;
  counts.register_writes *= passes;
  counts.clocks = at.refreshed(passes * clocks + mode_changes(pim, at, counts));
  return counts;
}

PimCounts hbm_element_wise(const BankPimParams& pim, const PimKernel& k) {
  const CommandDistances at(pim);
  const std::int64_t r = pim.registers, sides = pim.banks_per_unit;
  const auto units = static_cast<std::int64_t>(pim.units());
  const std::int64_t chunks = ceil_div(k.elements, units * r * pim.lanes * sides);
  const bool two = k.op == PimOp::add || k.op == PimOp::mul, again = k.op == PimOp::bn;
  PimCounts counts;
  counts.set_banks = pim.banks_per_command();
  const std::int64_t enter = sides > 1 ? at.other_side() : at.after_writes(false);
  const std::int64_t reads = at.run(r) + (two     ? at.after_reads(r, false) + at.run(r)
                                          : again ? at.fenced_interval() + at.run(r)
                                                  : 0);
  const std::int64_t block = enter + reads + at.after_reads(again ? 2 * r : r, true) + at.run(r);
  const std::int64_t blocks = chunks * sides;
  counts.unit_reads = blocks * (two || again ? 2 * r : r);
  counts.unit_writes = blocks * r;
  counts.activations = blocks * (two ? 3 : 2);
  const std::int64_t setup = again ? 3 : 2;
  counts.register_writes = setup;
  const std::int64_t clocks = blocks * block + at.after_writes(true) + setup * at.interval();
  counts.clocks = at.refreshed(clocks + mode_changes(pim, at, counts));
  return counts;
}

PimCounts aim_gemv(const BankPimParams& pim, const PimKernel& k) {
  const CommandDistances at(pim);
  const DramTiming& t = pim.dram.timing;
  const std::int64_t access = pim.dram.access_bytes();
  const std::int64_t slice = std::min(pim.buffer_bytes, pim.dram.page_bytes()) / access;
  const std::int64_t total = ceil_div(k.inputs, pim.lanes);
  const std::int64_t groups = ceil_div(k.outputs, static_cast<std::int64_t>(pim.units()));
  const std::int64_t results = ceil_div(pim.banks_per_command() * 2, access);
  const std::int64_t bus = std::min(t.ccd_s, pim.interval());
  PimCounts counts;
  counts.set_banks = pim.banks_per_command();
  const auto add_slices = [&](std::int64_t slices, std::int64_t n) {
    if (slices == 0 || n == 0) return;
    const std::int64_t fill = at.turn_to_write() + (n - 1) * bus;
    // Results leave while the next row opens.
    const std::int64_t next = std::max(at.after_reads(n, false), results * bus + pim.fence + at.open(false));
    const std::int64_t first = std::max(pim.fence + at.open(false), t.wl + pim.dram.burst_clocks() + t.wtr_s);
    counts.clocks += slices * (fill + first + groups * at.run(n) + (groups - 1) * next + results * bus);
    counts.register_writes += slices * n;
    counts.unit_reads += slices * groups * n;
    counts.result_reads += slices * groups * results;
    counts.activations += slices * groups;
  };
  add_slices(total / slice, slice);
  add_slices(total % slice == 0 ? 0 : 1, total % slice);
  counts.clocks = at.refreshed(k.batch * counts.clocks + t.rl + pim.dram.burst_clocks());
  counts.register_writes *= k.batch;
  counts.unit_reads *= k.batch;
  counts.result_reads *= k.batch;
  counts.activations *= k.batch;
  return counts;
}

}  // namespace

PimCounts pim_counts(const BankPimParams& pim, const PimKernel& kernel) {
  if (kernel.op == PimOp::gemv) {
    if (kernel.outputs <= 0 || kernel.inputs <= 0 || kernel.batch <= 0) return {};
    return pim.style == PimStyle::aim ? aim_gemv(pim, kernel) : hbm_gemv(pim, kernel);
  }
  if (kernel.elements <= 0 || pim.style == PimStyle::aim) return {};
  return hbm_element_wise(pim, kernel);
}

}  // namespace orrery::hw
