// Which bank, row and column an address falls on.
//
// An address without its offset in the burst is a mixed-radix number whose digits, from the lowest, are the levels of
// `order`: {"channel", "bank_group", "column", "bank", "rank", "row"} spreads consecutive bursts over channels, then
// over bank groups, so that a stream pays tCCD_S and not tCCD_L. "channel" counts pseudo-channels too, "column" counts
// column commands of a row. Each level stands exactly once; counts need not be powers of two. Addresses past the end
// wrap.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "hw/memory/dram.hpp"

namespace orrery::hw {

/// Levels of an address.
enum class DramLevel : std::uint8_t { channel, rank, bank_group, bank, row, column };
inline constexpr int kDramLevels = 6;

/// Where one burst lies. `bank` counts within the pseudo-channel, over ranks and groups; `column` in column commands.
struct DramPlace {
  std::int64_t channel = 0, bank = 0, row = 0, column = 0;
  friend bool operator==(const DramPlace&, const DramPlace&) = default;
};

/// The mapping of one device.
class DramAddressMap {
 public:
  /// `order` from the lowest digit to the highest; every level exactly once (else std::invalid_argument).
  DramAddressMap(const DramParams& dram, std::span<const DramLevel> order);
  /// The order of the header comment.
  explicit DramAddressMap(const DramParams& dram);

  DramPlace place(std::uint64_t address) const;
  /// The lowest address of a place: the inverse of place().
  std::uint64_t address(const DramPlace& place) const;

 private:
  std::array<DramLevel, kDramLevels> order_{};
  std::array<std::uint64_t, kDramLevels> count_{};  // by level
  std::uint64_t access_bytes_ = 1, banks_per_group_ = 1, groups_ = 1;
};

}  // namespace orrery::hw
