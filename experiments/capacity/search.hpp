// The highest rate that meets something, by doubling or halving to a bracket and then bisection.
//
// What is assumed: if a rate meets it, every lower one does. The answer is a bracket: the highest rate tried that
// meets, the lowest that does not; which rates lie between them nobody has looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace orrery::experiments::capacity {

struct SearchBounds {
  double start = 1;     ///< first rate tried; is moved between the bounds
  double least = 1e-3;  ///< rates > 0
  double most = 1e3;
  double tolerance = 0.02;  ///< the bracket's ends differ by this share of the lower one at most
};

struct Bracket {
  std::optional<double> meets;  ///< none: not even the least rate does
  std::optional<double> fails;  ///< none: even the greatest rate meets it
};

/// Calls `meets(rate)` for rates in [least, most], each at most once; about log2(start / answer) + log2(1 / tolerance)
/// calls. Throws std::invalid_argument for bounds out of order.
Bracket highest_rate(const SearchBounds& bounds, const std::function<bool(double)>& meets);

}  // namespace orrery::experiments::capacity
