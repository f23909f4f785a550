// A search driver on a table of measured points.
#pragma once

#include "experiments/search/driver.hpp"
#include "policies/placement/slapo_tune.hpp"

namespace orrery::experiments::tune {

/// Lets a driver search the grid until it has seen a value of `best` (or all points). Axes are ordinals of `levels`;
/// `shuffled`: each in a random order.
policies::slapo::TuneResult search_with_driver(const search::DriverRegistry::Choice& driver,
                                               const std::vector<std::vector<double>>& levels,
                                               const policies::slapo::Evaluate& evaluate, double best, bool shuffled,
                                               const sim::RandomStream& random);

}  // namespace orrery::experiments::tune
