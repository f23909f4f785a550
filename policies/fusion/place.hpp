// Places in lists.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orrery::policies {

/// The place of an operator, a loop or a pattern's node in a list. Not of -1, which stands for none.
constexpr std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace orrery::policies
