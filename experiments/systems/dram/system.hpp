// The dram system: made-up traffic through a memory controller whose every choice is a parameter.
//
//   {"system": "dram", "machine": {"memory": "ddr4-3200", "controller": {"page_policy": "closed"}},
//    "workload": {"sequential": 0.6, "threads": 4}, "run": {"seed": 1}}
//
// summary.json has latency, bandwidth, power and energy: what the space of ArchGym's DRAM controller is searched for.
// One channel (pseudo-channel) is simulated. Model: hw/memory/dram_design.hpp.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System dram_system();

}  // namespace orrery::experiments
