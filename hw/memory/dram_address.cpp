#include "hw/memory/dram_address.hpp"

#include <algorithm>
#include <stdexcept>

namespace orrery::hw {
namespace {

constexpr std::array<DramLevel, kDramLevels> kStreamOrder{DramLevel::channel, DramLevel::bank_group, DramLevel::column,
                                                          DramLevel::bank,    DramLevel::rank,       DramLevel::row};

std::size_t index(DramLevel level) {
  return static_cast<std::size_t>(level);
}

}  // namespace

DramAddressMap::DramAddressMap(const DramParams& dram, std::span<const DramLevel> order)
    : access_bytes_(static_cast<std::uint64_t>(dram.access_bytes())),
      banks_per_group_(static_cast<std::uint64_t>(dram.organisation.banks_per_group)),
      groups_(static_cast<std::uint64_t>(dram.organisation.bank_groups)) {
  if (order.size() != order_.size()) throw std::invalid_argument("an address order names every level once");
  std::copy(order.begin(), order.end(), order_.begin());
  for (const DramLevel level : order_)
    if (std::count(order_.begin(), order_.end(), level) != 1)
      throw std::invalid_argument("an address order names every level once");
  const auto set = [&](DramLevel level, std::int64_t count) {
    count_[index(level)] = static_cast<std::uint64_t>(count);
  };
  set(DramLevel::channel, dram.lanes());
  set(DramLevel::rank, dram.organisation.ranks);
  set(DramLevel::bank_group, dram.organisation.bank_groups);
  set(DramLevel::bank, dram.organisation.banks_per_group);
  set(DramLevel::row, dram.organisation.rows);
  set(DramLevel::column, dram.accesses_per_row());
}

DramAddressMap::DramAddressMap(const DramParams& dram) : DramAddressMap(dram, kStreamOrder) {}

DramPlace DramAddressMap::place(std::uint64_t address) const {
  std::uint64_t rest = address / access_bytes_;
  std::array<std::uint64_t, kDramLevels> digit{};
  for (const DramLevel level : order_) {
    digit[index(level)] = rest % count_[index(level)];
    rest /= count_[index(level)];
  }
  const std::uint64_t group = digit[index(DramLevel::rank)] * groups_ + digit[index(DramLevel::bank_group)];
  DramPlace place;
  place.channel = static_cast<std::int64_t>(digit[index(DramLevel::channel)]);
  place.bank = static_cast<std::int64_t>(group * banks_per_group_ + digit[index(DramLevel::bank)]);
  place.row = static_cast<std::int64_t>(digit[index(DramLevel::row)]);
  place.column = static_cast<std::int64_t>(digit[index(DramLevel::column)]);
  return place;
}

std::uint64_t DramAddressMap::address(const DramPlace& place) const {
  std::array<std::uint64_t, kDramLevels> digit{};
  const auto bank = static_cast<std::uint64_t>(place.bank);
  digit[index(DramLevel::channel)] = static_cast<std::uint64_t>(place.channel);
  digit[index(DramLevel::bank)] = bank % banks_per_group_;
  digit[index(DramLevel::bank_group)] = bank / banks_per_group_ % groups_;
  digit[index(DramLevel::rank)] = bank / banks_per_group_ / groups_;
  digit[index(DramLevel::row)] = static_cast<std::uint64_t>(place.row);
  digit[index(DramLevel::column)] = static_cast<std::uint64_t>(place.column);
  std::uint64_t number = 0;
  for (auto level = order_.rbegin(); level != order_.rend(); ++level)
    number = number * count_[index(*level)] + digit[index(*level)];
  return number * access_bytes_;
}

}  // namespace orrery::hw
