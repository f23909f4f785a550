// Slapo's search for the best point of a grid of schedules: randomised coordinate descent, and trying everything.
//
// A point is an index an axis; evaluating it gives a value to maximise, or nothing where it runs out of memory. Descent
// starts at the corner `start`, takes the axes in a random order, walks along each in both directions while the value
// does not fall, and ends when a round over all axes moved nothing. With `error_stop` a point without a value ends a
// walk, and whatever demands more memory than a point that failed is never tried: `demand[axis]` says which direction
// that is (+1: larger indices need more). A point is evaluated once, however often it is asked for.
// Source: Slapo (ASPLOS 2024), auto-tuner; its walk is not specified further, so start and ties are parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/base/random.hpp"

namespace orrery::policies::slapo {

using GridPoint = std::vector<std::int64_t>;
using Evaluate = std::function<std::optional<double>(const GridPoint&)>;

struct TuneSpace {
  std::vector<std::int64_t> sizes;   ///< points an axis
  std::vector<std::int64_t> demand;  ///< +1, -1: direction in which memory grows; 0: neither
};

struct TuneOptions {
  bool error_stop = true;
  double tolerance = 0;       ///< a value that is lower by no more than this share does not end a walk
  std::int64_t restarts = 1;  ///< descents; all but the first from random points
};

struct TuneResult {
  GridPoint best;
  std::optional<double> value;           ///< none: no point had one
  std::int64_t evaluations = 0;          ///< distinct points that were tried
  std::int64_t evaluations_to_best = 0;  ///< when the best was found
  std::int64_t failures = 0;             ///< of these, out of memory
};

TuneResult coordinate_descent(const TuneSpace& space, const Evaluate& evaluate, const TuneOptions& options,
                              sim::RandomStream random);
/// Every point in order; with `error_stop` without those that demand more than one that failed.
TuneResult exhaustive(const TuneSpace& space, const Evaluate& evaluate, bool error_stop);

}  // namespace orrery::policies::slapo
