// Sobol's low-discrepancy sequence in any number of dimensions, with Owen's scrambling.
//
// The first 2^k points hold one point in each of 2^k equal parts of every dimension, and pairs of good dimensions in
// each elementary rectangle. Direction numbers of the first 32 dimensions are Joe and Kuo's (2008,
// new-joe-kuo-6.21201); further dimensions take the next primitive polynomials over GF(2) with drawn odd starting
// numbers, which keeps the property of every single dimension. Scrambling flips each bit by a hash of the bits above it
// (nested uniform scrambling, Owen 1995), which keeps all of these properties and makes errors over seeds honest.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace orrery::experiments::search {

/// Whether x^degree + (bits of `inner`: x^(degree-1) … x) + 1 is primitive over GF(2); degree <= 16.
bool primitive_polynomial(unsigned degree, std::uint32_t inner);

class SobolSequence {
 public:
  /// `seed` of the scrambling; without it the plain sequence.
  SobolSequence(std::size_t dimensions, bool scrambled, std::uint64_t seed);
  /// The next point, each coordinate in [0, 1).
  std::vector<double> next();

 private:
  static constexpr unsigned kBits = 32;
  std::vector<std::array<std::uint32_t, kBits>> directions_;
  std::vector<std::uint32_t> state_;
  std::uint32_t index_ = 0;
  bool scrambled_;
  std::uint64_t seed_;
};

}  // namespace orrery::experiments::search
