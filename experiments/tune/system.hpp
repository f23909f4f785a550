// The tune system: a search on a table of measured points, to see how many evaluations it takes.
//
// A row of the table is a point of a grid, a column its value to maximise; 0 means that the point ran out of memory.
// The search sees a point's value only when it asks. Source of searches: policies/placement/slapo_tune.hpp.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System tune_system();

}  // namespace orrery::experiments
