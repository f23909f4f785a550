// Places in lists, for the files of memory controllers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orrery::hw {

/// The place of a bank, a rank or a request in a list. Not of -1, which stands for none.
inline std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace orrery::hw
