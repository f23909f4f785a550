// The energy ledger: who drew how much, when, in whole picojoules.
//
// An entry is an energy over a span of time; it counts for an account (a device and a class of work). Sums are integers
// of 128 bits, so that the total of a run is the sum of its accounts and the sum of its power series to the last
// picojoule, however many entries there are and in whatever order they come. A span is shared out over the bins of a
// series by E(t) = floor(energy * (t - from) / (to - from)), whose differences always add up to the whole.
// 1 W is 1 pJ/ps: power of a bin is its picojoules over its picoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/units.hpp"

namespace orrery::sim {

/// Picojoules of an entry (pj over [from, to)) that fall into [a, b). Shares of adjoining spans add up to the whole; an
/// entry without length falls wholly into the span that its instant is in (a <= from < b).
std::int64_t energy_share(std::int64_t pj, Time from, Time to, Time a, Time b);

/// Joules as whole picojoules, to the nearest. Throws std::overflow_error past 2^63 pJ.
std::int64_t picojoules(double joules);

/// Energy of constant power over a span, rounded to the nearest picojoule. Throws std::overflow_error past 2^63 pJ.
std::int64_t energy_of(double watts, Duration span, const TickScale& scale);

/// Energy by bins of equal length from `start` on. Grows as entries come; a bin holds picojoules.
class PowerSeries {
 public:
  /// `bin` > 0.
  PowerSeries(Time start, Duration bin) : start_(start), bin_(bin) {}
  /// Entries before `start` throw std::invalid_argument.
  void add(std::int64_t pj, Time from, Time to);
  const std::vector<std::int64_t>& bins_pj() const { return bins_; }
  /// Mean power of a bin, W.
  double watts(std::size_t bin, const TickScale& scale) const;
  Time start() const { return start_; }
  Duration bin() const { return bin_; }

 private:
  Time start_;
  Duration bin_;
  std::vector<std::int64_t> bins_;
};

class EnergyLedger {
 public:
  struct AccountId {
    std::uint32_t index = 0;
  };
  struct Account {
    std::string device, category;  ///< "gpu[0]", "compute"
    __int128 pj = 0;
    __int128 busy_ticks = 0;  ///< sum of the spans of its entries
  };

  /// Without a series: totals only.
  EnergyLedger() = default;
  EnergyLedger(Time start, Duration bin) : series_(std::vector<PowerSeries>{PowerSeries(start, bin)}) {}

  /// Opens an account, or finds it.
  AccountId account(const std::string& device, const std::string& category);
  /// Books an entry; `pj` >= 0, `to` >= `from`.
  void draw(AccountId account, std::int64_t pj, Time from, Time to);

  const std::vector<Account>& accounts() const { return accounts_; }
  __int128 total_pj() const;
  /// Of one device, all categories.
  __int128 device_pj(const std::string& device) const;
  /// Null without a series.
  const PowerSeries* series() const { return series_.empty() ? nullptr : &series_.front(); }
  /// Whether the accounts and the series hold the same energy (they do, by construction; tests and runs ask).
  bool balances() const;

 private:
  std::vector<Account> accounts_;
  std::vector<PowerSeries> series_;  ///< none or one
};

}  // namespace orrery::sim
