// The function system: a test function (search/problems.hpp) at one point, as an experiment, so that sweeps and
// searches can be tried without a simulation.
//
// Its parameters stand by name under workload.point; summary.json gives objectives f1, f2 …, by how much each limit is
// broken (limits.g1 …; 0: met) and, where the function has one, a breakdown.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments::search {

System function_system();

}  // namespace orrery::experiments::search
