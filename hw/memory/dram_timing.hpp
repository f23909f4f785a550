// When a DRAM command may go: earliest-time bookkeeping of one pseudo-channel.
//
// Every command leaves behind the earliest clock at which each later command may follow it, per bank, bank group, rank
// and bus; a command may go at the latest of what it finds:
//   ACT  after tRRD_S of the rank, tRRD_L of the group, tRC and PRE + tRP of the bank, the fourth last ACT + tFAW,
//        REF + tRFC
//   PRE  after ACT + tRAS, RD + tRTP, WR + WL + burst + tWR
//   RD   after ACT + tRCDRD, RD + tCCD_S/L, WR + WL + burst + tWTR_S/L; on the bus, other ranks' bursts + tRTRS
//   WR   after ACT + tRCDWR, WR + tCCD_S/L, RD + RL + burst + tRTRS - WL
//   REF  with all banks of the rank closed and their tRP over
// Row commands (ACT, PRE, REF) and column commands (RD, WR) have a bus each, one command a clock.
// A set command addresses several banks of the pseudo-channel at once, as processing in memory does: it goes when it
// may go in every bank of the set, and is one activation for tFAW, since devices with such commands lift that limit;
// their own limit is `stagger`, the clocks from the first to the last activation of a set.
// Source: JESD79-4 (DDR4), JESD235 (HBM2) and the like, as far as the parameters of hw/memory/dram.hpp tell.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "hw/memory/dram.hpp"

namespace orrery::hw {

/// A clock that no command waits for.
inline constexpr std::int64_t kNoClock = std::numeric_limits<std::int64_t>::max();

enum class DramOp : std::uint8_t { activate, precharge, read, write, refresh };

/// Banks of a pseudo-channel as bits: bank = (rank * bank_groups + group) * banks_per_group + index.
using BankSet = std::uint64_t;

/// The timing state of one pseudo-channel. Clocks are counted from 0; nothing is pending at the start.
class DramTimer {
 public:
  /// `stagger`: clocks over which a set's activations spread.
  explicit DramTimer(const DramParams& dram, std::int64_t stagger = 0);

  /// Earliest clock at which the command to `bank` may go (for refresh: to the bank's rank). The state must allow it:
  /// activate a closed bank, read or write an open one.
  std::int64_t earliest(DramOp op, std::int64_t bank) const {
    const Bank& b = bank_[at(bank)];
    const Group& g = group_[at(group_of_[at(bank)])];
    const Rank& r = rank_[at(rank_of_[at(bank)])];
    switch (op) {
      case DramOp::activate:
        return std::max(std::max(row_bus_, b.activate),
                        std::max(g.activate, std::max(r.activate, r.last_activations[at(r.oldest)] + timing_.faw)));
      case DramOp::precharge:
        return std::max(row_bus_, b.precharge);
      case DramOp::read:
        return std::max(std::max(column_bus_, b.read), std::max(g.read, r.read));
      case DramOp::write:
        return std::max(std::max(column_bus_, b.write), std::max(g.write, r.write));
      case DramOp::refresh:
        return earliest_refresh(bank);
    }
    return 0;
  }
  /// Books the command at `clock`, which is no earlier than earliest(). `row` matters to activations only.
  void issue(DramOp op, std::int64_t bank, std::int64_t clock, std::int64_t row = 0);

  /// Closes a bank by the column command it has just had (auto-precharge): as a precharge at its earliest clock, which
  /// is returned, but with no place on the bus of row commands.
  std::int64_t close_after_access(std::int64_t bank);

  /// The same for all banks of a set at once. Precharge may include closed banks.
  std::int64_t earliest_set(DramOp op, BankSet banks) const;
  void issue_set(DramOp op, BankSet banks, std::int64_t clock, std::int64_t row = 0);

  /// The same for a column command of a rank that reaches no bank (registers, buffers): the bus and tCCD_S only.
  std::int64_t earliest_bankless(bool write, std::int64_t rank) const;
  void issue_bankless(bool write, std::int64_t rank, std::int64_t clock);

  /// The open row of a bank, or kClosed.
  static constexpr std::int64_t kClosed = -1;
  std::int64_t open_row(std::int64_t bank) const { return open_row_[at(bank)]; }
  bool is_open(std::int64_t bank) const { return open_row(bank) != kClosed; }

  std::int64_t rank_of(std::int64_t bank) const { return rank_of_[at(bank)]; }
  /// All banks of a rank, and of the pseudo-channel.
  BankSet rank_set(std::int64_t rank) const;
  BankSet all_banks() const;

 private:
  // Earliest clocks for row and column commands at a level; each level keeps what its own rules say.
  struct Bank {
    std::int64_t activate = 0, precharge = 0, read = 0, write = 0;
  };
  struct Group {
    std::int64_t activate = 0, read = 0, write = 0;
  };
  struct Rank {
    std::int64_t activate = 0, read = 0, write = 0;
    std::array<std::int64_t, 4> last_activations{};
    std::int64_t oldest = 0;  // index into last_activations
  };

  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
  std::int64_t earliest_refresh(std::int64_t bank) const;
  void book_activate(std::int64_t bank, std::int64_t clock, std::int64_t row, std::int64_t spread, bool counts);
  void book_column(bool write, std::int64_t bank, std::int64_t clock);
  void book_bus(bool write, std::int64_t rank, std::int64_t clock);

  DramTiming timing_;
  std::int64_t burst_ = 0, stagger_ = 0, banks_ = 0, banks_per_rank_ = 0, banks_per_group_ = 0;
  std::vector<Bank> bank_;
  std::vector<Group> group_;
  std::vector<Rank> rank_;
  std::vector<std::int64_t> open_row_, rank_of_, group_of_;
  std::int64_t row_bus_ = 0, column_bus_ = 0;
};

}  // namespace orrery::hw
