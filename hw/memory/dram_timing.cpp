#include "hw/memory/dram_timing.hpp"

#include <algorithm>
#include <bit>

namespace orrery::hw {
namespace {

constexpr std::int64_t kLongAgo = -(std::int64_t{1} << 40);  // so that the first four activations find no window

void raise(std::int64_t& value, std::int64_t to) {
  value = std::max(value, to);
}

}  // namespace

DramTimer::DramTimer(const DramParams& dram, std::int64_t stagger)
    : timing_(dram.timing),
      burst_(dram.burst_clocks()),
      stagger_(stagger),
      banks_(dram.banks_per_lane()),
      banks_per_rank_(dram.banks_per_rank()),
      banks_per_group_(dram.organisation.banks_per_group),
      bank_(at(banks_)),
      group_(at(banks_ / banks_per_group_)),
      rank_(at(dram.organisation.ranks)),
      open_row_(at(banks_), kClosed),
      rank_of_(at(banks_)),
      group_of_(at(banks_)) {
  for (Rank& rank : rank_) rank.last_activations.fill(kLongAgo);
  for (std::int64_t bank = 0; bank < banks_; ++bank) {
    rank_of_[at(bank)] = bank / banks_per_rank_;
    group_of_[at(bank)] = bank / banks_per_group_;
  }
}

BankSet DramTimer::rank_set(std::int64_t rank) const {
  const BankSet one = banks_per_rank_ >= 64 ? ~BankSet{0} : (BankSet{1} << banks_per_rank_) - 1;
  return one << (rank * banks_per_rank_);
}

BankSet DramTimer::all_banks() const {
  return banks_ >= 64 ? ~BankSet{0} : (BankSet{1} << banks_) - 1;
}

std::int64_t DramTimer::earliest_refresh(std::int64_t bank) const {
  std::int64_t clock = row_bus_;
  const std::int64_t first = rank_of_[at(bank)] * banks_per_rank_;
  for (std::int64_t i = first; i < first + banks_per_rank_; ++i) raise(clock, bank_[at(i)].activate);
  return clock;
}

void DramTimer::book_activate(std::int64_t bank, std::int64_t clock, std::int64_t row, std::int64_t spread,
                              bool counts) {
  const DramTiming& t = timing_;
  const std::int64_t last = clock + spread;
  Bank& b = bank_[at(bank)];
  raise(b.activate, last + t.rc);
  raise(b.precharge, last + t.ras);
  raise(b.read, last + t.rcd_rd);
  raise(b.write, last + t.rcd_wr);
  raise(group_[at(group_of_[at(bank)])].activate, last + t.rrd_l);
  Rank& r = rank_[at(rank_of_[at(bank)])];
  raise(r.activate, last + t.rrd_s);
  if (counts) {
    r.last_activations[at(r.oldest)] = last;
    r.oldest = (r.oldest + 1) % 4;
  }
  open_row_[at(bank)] = row;
}

void DramTimer::book_column(bool write, std::int64_t bank, std::int64_t clock) {
  const DramTiming& t = timing_;
  Bank& b = bank_[at(bank)];
  Group& g = group_[at(group_of_[at(bank)])];
  const std::int64_t own = rank_of_[at(bank)];
  const std::int64_t data_end = clock + (write ? t.wl : t.rl) + burst_;
  raise(b.precharge, write ? data_end + t.wr : clock + t.rtp);
  if (write) {
    raise(g.write, clock + t.ccd_l);
    raise(g.read, data_end + t.wtr_l);
  } else {
    raise(g.read, clock + t.ccd_l);
  }
  book_bus(write, own, clock);
}

void DramTimer::book_bus(bool write, std::int64_t own, std::int64_t clock) {
  const DramTiming& t = timing_;
  const std::int64_t data_end = clock + (write ? t.wl : t.rl) + burst_;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(rank_.size()); ++i) {
    Rank& r = rank_[at(i)];
    if (write) {
      raise(r.write, i == own ? clock + t.ccd_s : clock + burst_ + t.rtrs);
      raise(r.read, i == own ? data_end + t.wtr_s : data_end + t.rtrs - t.rl);
    } else {
      raise(r.read, i == own ? clock + t.ccd_s : clock + burst_ + t.rtrs);
      raise(r.write, data_end + t.rtrs - t.wl);
    }
  }
}

std::int64_t DramTimer::earliest_bankless(bool write, std::int64_t rank) const {
  const Rank& r = rank_[at(rank)];
  return std::max(column_bus_, write ? r.write : r.read);
}

void DramTimer::issue_bankless(bool write, std::int64_t rank, std::int64_t clock) {
  column_bus_ = clock + 1;
  book_bus(write, rank, clock);
}

void DramTimer::issue(DramOp op, std::int64_t bank, std::int64_t clock, std::int64_t row) {
  switch (op) {
    case DramOp::activate:
      row_bus_ = clock + 1;
      book_activate(bank, clock, row, 0, true);
      return;
    case DramOp::precharge:
      row_bus_ = clock + 1;
      raise(bank_[at(bank)].activate, clock + timing_.rp);
      open_row_[at(bank)] = kClosed;
      return;
    case DramOp::read:
    case DramOp::write:
      column_bus_ = clock + 1;
      book_column(op == DramOp::write, bank, clock);
      return;
    case DramOp::refresh: {
      row_bus_ = clock + 1;
      const std::int64_t first = rank_of_[at(bank)] * banks_per_rank_;
      for (std::int64_t i = first; i < first + banks_per_rank_; ++i) raise(bank_[at(i)].activate, clock + timing_.rfc);
      return;
    }
  }
}

std::int64_t DramTimer::close_after_access(std::int64_t bank) {
  Bank& b = bank_[at(bank)];
  raise(b.activate, b.precharge + timing_.rp);
  open_row_[at(bank)] = kClosed;
  return b.precharge;
}

std::int64_t DramTimer::earliest_set(DramOp op, BankSet banks) const {
  std::int64_t clock = 0;
  for (BankSet rest = banks; rest != 0; rest &= rest - 1) {
    const std::int64_t bank = std::countr_zero(rest);
    if (op == DramOp::precharge && !is_open(bank)) continue;
    raise(clock, earliest(op, bank));
  }
  return clock;
}

void DramTimer::issue_set(DramOp op, BankSet banks, std::int64_t clock, std::int64_t row) {
  (op == DramOp::read || op == DramOp::write ? column_bus_ : row_bus_) = clock + 1;
  bool first = true;
  for (BankSet rest = banks; rest != 0; rest &= rest - 1) {
    const std::int64_t bank = std::countr_zero(rest);
    switch (op) {
      case DramOp::activate:
        book_activate(bank, clock, row, stagger_, first);
        break;
      case DramOp::precharge:
        if (is_open(bank)) raise(bank_[at(bank)].activate, clock + timing_.rp);
        open_row_[at(bank)] = kClosed;
        break;
      case DramOp::read:
      case DramOp::write:
        book_column(op == DramOp::write, bank, clock);
        break;
      case DramOp::refresh:
        raise(bank_[at(bank)].activate, clock + timing_.rfc);
        break;
    }
    first = false;
  }
}

}  // namespace orrery::hw
