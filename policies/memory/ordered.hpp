// Placing buffers in a given order of choice (not of time), each at the lowest offset that is free for its lifetime.
// Every smallest plan comes from some order (sort it by offset and let each buffer fall), so orders are what offline
// planners choose. O(n * placed buffers at or below the place found), read in order of memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "policies/memory/planner.hpp"

namespace orrery::policies {

/// Offsets (by index of buffer) when `buffers` are placed in `order`.
std::vector<std::int64_t> place_in_order(std::span<const Buffer> buffers, std::span<const std::uint32_t> order);

/// Buffers by descending keys, the first key first, then by index. `keys` are letters: z bytes, w steps of life, a
/// their product, t the most bytes that are live at one of its steps.
std::vector<std::uint32_t> order_by(std::span<const Buffer> buffers, std::string_view keys);

}  // namespace orrery::policies
