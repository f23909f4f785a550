// The hls system: a kernel under pragmas on an FPGA, in closed form (hw/fpga/hls.hpp).
//
//   {"system": "hls", "machine": {"fpga": "alveo-u280"}, "workload": {"kernel": "gemm"},
//    "design": {"parallel": [1, 8, 1], "pipeline": ["off", "off", "fine"], "cache": true, "tiles": 4}}
//
// summary.json has cycles, time, resources as shares of what the part has, and where the cycles go: memory, and each
// loop's own iterations, as shares of their sum.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System hls_system();

}  // namespace orrery::experiments
