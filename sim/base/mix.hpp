// Well-spread 64-bit numbers from counters and indices: hashes of small keys, seeds of streams.
#pragma once

#include <cstdint>

namespace orrery::sim {

/// First output of splitmix64 seeded with `x`: every bit of the input moves every bit of the output (Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace orrery::sim
