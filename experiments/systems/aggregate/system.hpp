// The aggregate system: the sparse product of a graph neural network (each node sums its neighbours' features) on UPMEM
// with its host, divided and tuned as PyGim does, and on the host's CPU alone.
//
//   {"system": "aggregate", "machine": {"part": "pygim-upmem"},
//    "workload": {"nodes": 232965, "edges": 114600000, "features": 256, "degree_cv": 1.6},
//    "policies": {"format": "csr", "over_dpus": "nnz", "tasklets": 16}}
//
// summary.json has the time of a product and its phases, the parts that the tuner chose, what the busiest DPU has over
// the mean, and the CPU's time. Parts that do not fit a DPU are infeasible. Model: hw/pim/pygim_spmm.hpp.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System aggregate_system();

}  // namespace orrery::experiments
