// Named random streams and distributions that give the same draws on every platform.
//
// A stream is derived from the run's seed and a name ("arrivals", "lengths/prompt"), so adding a component never shifts
// the draws of another. A stream has children by index or name (replica 7 of a fleet), which depend on the parent's
// name and not on how much it has drawn. Bits come from PCG64. The distributions are our own, because the standard
// library's differ between implementations; they use the deterministic functions of sim/base/math.hpp.
//
// A parameter outside its range, NaN or infinite throws std::invalid_argument that names distribution and parameter.
// Distributions with tables (Zipf, weights) stand in sim/base/distributions.hpp.
#pragma once

#include <cstdint>
#include <pcg_random.hpp>
#include <span>
#include <string_view>
#include <utility>

namespace orrery::sim {

class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);
  /// The stream of that index or name below this one. The same however much either has drawn.
  RandomStream child(std::uint64_t index) const;
  RandomStream child(std::string_view name) const;

  std::uint64_t bits() { return generator_(); }
  /// Uniform on [0, 1), 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  /// Uniform on [low, high); low <= high.
  double uniform(double low, double high);
  /// Uniform on 0 … n-1 without bias; n >= 1.
  std::uint64_t below(std::uint64_t n);
  /// Uniform on low … high, both included, without bias; low <= high, any 64-bit range.
  std::int64_t integer(std::int64_t low, std::int64_t high);
  /// True with probability p in [0, 1].
  bool bernoulli(double p);
  /// Every order of the elements alike (Fisher and Yates).
  template <class T>
  void shuffle(std::span<T> elements) {
    for (std::size_t i = elements.size(); i > 1; --i) std::swap(elements[i - 1], elements[below(i)]);
  }

  /// Exponential with the given mean (> 0).
  double exponential(double mean);
  /// Mixture of two exponentials with the given mean (> 0) and coefficient of variation (>= 1), each carrying half of
  /// the mean ("balanced means"): burstier than Poisson arrivals.
  double hyper_exponential(double mean, double variation);
  /// Normal with mean 0 and variance 1 (polar method).
  double normal();
  /// Normal with the given mean and deviation (>= 0).
  double normal(double mean, double deviation);
  /// The same (deviation > 0), given that it falls in [low, high]; constant expected time for any interval, tails
  /// included (Robert 1995).
  double truncated_normal(double mean, double deviation, double low, double high);
  /// exp of a normal with the given mean and deviation of the logarithm.
  double log_normal(double log_mean, double log_sigma);
  /// Gamma with shape > 0 and scale > 0; mean shape * scale (Marsaglia and Tsang 2000).
  double gamma(double shape, double scale);
  /// Weibull: P(X > x) = exp(-(x / scale)^shape); both > 0.
  double weibull(double shape, double scale);
  /// Pareto: P(X > x) = (minimum / x)^shape for x >= minimum; both > 0. The mean is infinite for shape <= 1.
  double pareto(double minimum, double shape);
  /// Lomax (Pareto from 0): P(X > x) = (1 + x / scale)^-shape; both > 0.
  double lomax(double scale, double shape);
  /// Triangular density on [low, high] with its peak at mode; low <= mode <= high.
  double triangular(double low, double mode, double high);

  /// Poisson with mean in [0, 2^50]: inversion below 10, from there transformed rejection in constant time (Hörmann
  /// 1993, algorithm PTRS).
  std::int64_t poisson(double mean);
  /// Trials up to and including the first success of probability p in [1e-15, 1]: P(k) = (1-p)^(k-1) p, k >= 1; mean
  /// 1/p.
  std::int64_t geometric(double p);

 private:
  RandomStream(std::uint64_t seed, std::uint64_t key, int);

  pcg64 generator_;
  std::uint64_t seed_, key_;  // what children derive from
};

}  // namespace orrery::sim
