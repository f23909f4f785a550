// Discrete distributions that are set up once and drawn from many times.
//
// Construction throws std::invalid_argument that names the parameter and its range.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/random.hpp"

namespace orrery::sim {

/// Zipf's law: P(k) proportional to k^-exponent on 1 … n, in constant time and memory by rejection-inversion (Hörmann
/// and Derflinger 1996). Sums over k are exact to some 1e-15; single probabilities beyond k = 1e10 to 1 %.
class Zipf {
 public:
  /// 1 <= n <= 1e12, exponent in [0, 100] (0: uniform).
  Zipf(std::int64_t n, double exponent);
  std::int64_t operator()(RandomStream& random) const;

 private:
  double integral(double x) const;
  double inverse(double y) const;
  double density(double x) const;

  double n_, exponent_;
  double from_, to_;  ///< of the integral: where draws fall
  double sure_;       ///< a draw this close below its integer is accepted without a look
};

/// An index with probability proportional to its weight, in constant time (alias table: Walker 1977, built as by Vose
/// 1991).
class Discrete {
 public:
  /// At least one weight; all finite and >= 0, at least one > 0. Linear time.
  explicit Discrete(std::span<const double> weights);
  std::size_t operator()(RandomStream& random) const;
  std::size_t size() const { return columns_.size(); }

 private:
  struct Column {
    double own = 1;  ///< probability of the column's own index; else the alias
    std::size_t alias = 0;
  };
  std::vector<Column> columns_;
};

}  // namespace orrery::sim
