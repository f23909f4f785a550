// Named random streams and distributions that give the same draws on every platform.
//
// A stream is derived from the run's seed and a name ("arrivals", "lengths/prompt"), so adding a component never shifts
// the draws of another. Bits come from PCG64; the distributions are our own because the standard library's differ
// between implementations, and use the deterministic functions of sim/base/math.hpp.
#pragma once

#include <cstdint>
#include <pcg_random.hpp>
#include <string_view>

namespace orrery::sim {

class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);

  std::uint64_t bits() { return generator_(); }
  /// Uniform on [0, 1), 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  /// Uniform on 0 … n-1 without bias; n >= 1.
  std::uint64_t below(std::uint64_t n);
  /// Exponential with the given mean (> 0).
  double exponential(double mean);
  /// Normal with mean 0 and variance 1 (polar method).
  double normal();
  /// Gamma with shape > 0 and scale > 0; mean shape * scale (Marsaglia and Tsang 2000).
  double gamma(double shape, double scale);
  /// exp of a normal with the given mean and deviation of the logarithm.
  double log_normal(double log_mean, double log_sigma);

 private:
  pcg64 generator_;
};

}  // namespace orrery::sim
