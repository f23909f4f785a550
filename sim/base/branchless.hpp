// Choices without a branch, where nothing could guess the outcome.
#pragma once

#include <cstdint>

namespace orrery::sim {

/// The same number, but a compiler does not see where it comes from: what is computed from it stays arithmetic, where a
/// number that depends on a comparison would be made a branch.
inline std::uint64_t opaque(std::uint64_t x) {
  asm("" : "+r"(x));
  return x;
}

}  // namespace orrery::sim
