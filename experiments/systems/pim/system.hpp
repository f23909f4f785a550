// The pim system: one decode step of a dense model on a GPU or NPU with attention in memory beside it.
//
//   {"system": "pim", "machine": {"device": {"part": "a100-sxm4-80gb"}, "pim": {"part": "attacc-bank"}},
//    "model": {"config": "catalog:llama-2-7b"}, "workload": {"batch": 64, "context": 2048},
//    "policies": {"schedule": "split", "share": 0.5}}
//
// summary.json has the step's time, tokens a second, how busy both sides are, what the step takes without the device,
// and the bytes of weights and keys. What does not fit is infeasible: the device holds the keys and values of the
// sequences that it attends to (and the weights, where it is the host's own memory), the host the rest.
// Model: hw/pim/decode_overlap.hpp.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System pim_system();

}  // namespace orrery::experiments
