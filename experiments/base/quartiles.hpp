// Figures over seeds: median and quartiles, linear between the values.
#pragma once

#include <vector>

#include "sim/base/document.hpp"

namespace orrery::experiments {

/// `{count, min, p25, p50, p75, max}`; NaN is left out of all of them, and null stands where nothing is left. Infinite
/// values (never reached) count as the largest, and are null where a figure is one.
sim::Node quartile_figures(std::vector<double> values);

}  // namespace orrery::experiments
