#include "sim/energy_ledger.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace orrery::sim {
namespace {

/// floor(pj * done / whole): energy drawn when `done` of `whole` ticks have passed.
std::int64_t drawn(std::int64_t pj, std::int64_t done, std::int64_t whole) {
  return static_cast<std::int64_t>(static_cast<__int128>(pj) * done / whole);
}

}  // namespace

std::int64_t energy_share(std::int64_t pj, Time from, Time to, Time a, Time b) {
  const std::int64_t whole = (to - from).ticks;
  if (whole <= 0) return a <= from && from < b ? pj : 0;
  const std::int64_t low = std::clamp<std::int64_t>((a - from).ticks, 0, whole);
  const std::int64_t high = std::clamp<std::int64_t>((b - from).ticks, low, whole);
  return drawn(pj, high, whole) - drawn(pj, low, whole);
}

std::int64_t picojoules(double joules) {
  const double pj = joules * 1e12;
  if (!(pj < 9.2e18)) throw std::overflow_error("an entry of the energy ledger exceeds 2^63 pJ: book shorter spans");
  return static_cast<std::int64_t>(std::floor(pj + 0.5));
}

std::int64_t energy_of(double watts, Duration span, const TickScale& scale) {
  return picojoules(watts * static_cast<double>(span.ticks) * static_cast<double>(scale.ps_per_tick()) * 1e-12);
}

void PowerSeries::add(std::int64_t pj, Time from, Time to) {
  if (from < start_) throw std::invalid_argument("energy drawn before the start of the power series");
  const auto index_of = [&](Time t) { return static_cast<std::size_t>((t - start_).ticks / bin_.ticks); };
  const std::size_t first = index_of(from);
  const std::size_t last = to > from ? index_of(Time{to.ticks - 1}) : first;
  if (last >= bins_.size()) bins_.resize(last + 1, 0);
  for (std::size_t bin = first; bin <= last; ++bin) {
    const Time begin = start_ + bin_ * static_cast<std::int64_t>(bin);
    bins_[bin] += energy_share(pj, from, to, begin, begin + bin_);
  }
}

double PowerSeries::watts(std::size_t bin, const TickScale& scale) const {
  return static_cast<double>(bins_.at(bin)) /
         (static_cast<double>(bin_.ticks) * static_cast<double>(scale.ps_per_tick()));
}

EnergyLedger::AccountId EnergyLedger::account(const std::string& device, const std::string& category) {
  for (std::size_t i = 0; i < accounts_.size(); ++i)
    if (accounts_[i].device == device && accounts_[i].category == category) return {static_cast<std::uint32_t>(i)};
  accounts_.push_back({device, category});
  return {static_cast<std::uint32_t>(accounts_.size() - 1)};
}

void EnergyLedger::draw(AccountId account, std::int64_t pj, Time from, Time to) {
  Account& entry = accounts_.at(account.index);
  entry.pj += pj;
  entry.busy_ticks += (to - from).ticks;
  if (!series_.empty()) series_.front().add(pj, from, to);
}

__int128 EnergyLedger::total_pj() const {
  __int128 sum = 0;
  for (const Account& account : accounts_) sum += account.pj;
  return sum;
}

__int128 EnergyLedger::device_pj(const std::string& device) const {
  __int128 sum = 0;
  for (const Account& account : accounts_)
    if (account.device == device) sum += account.pj;
  return sum;
}

bool EnergyLedger::balances() const {
  if (series_.empty()) return true;
  __int128 sum = 0;
  for (const std::int64_t pj : series_.front().bins_pj()) sum += pj;
  return sum == total_pj();
}

}  // namespace orrery::sim
