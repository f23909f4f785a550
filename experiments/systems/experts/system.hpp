// The experts system: mixture-of-experts inference with experts in several memories.
//
//   {"system": "experts",
//    "machine": {"part": "rtx-4090", "host": {"part": "xeon-8480plus", "sockets": 2}, "link": "pcie4-x16"},
//    "model": {"config": "catalog:qwen3-30b-a3b", "weight_format": "int4"},
//    "workload": {"router": {"generator": {"tokens": 512}}, "context": 1024},
//    "policies": {"cache": {"policy": "lru"}, "schedule": {"policy": "hybrimoe"}, "share": 0.25}}
//
// summary.json has tokens/s, what a step consists of, hits, where experts were computed, and the memory that it takes.
// What does not fit is infeasible.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System experts_system();

}  // namespace orrery::experiments
