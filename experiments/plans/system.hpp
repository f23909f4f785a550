// The plans system: every way to serve a workload that a few lists span, each one simulated.
//
// Its config is a serving config with a section `plans`: parts, numbers of devices, tensor, pipeline, attention-data
// and expert parallelism, batching policies, number formats, clocks. Devices that a replica does not need become
// further replicas. Beside equal replicas come those divided between prefill and decode, and mixes that the config
// names. A plan that does not fit, or that a part cannot run, is a row with its reason. Rows carry latency, throughput,
// energy and cost per token and SLO attainment; those that no other row beats in every objective are the Pareto front.
// Source of the question: APEX+ (arXiv 2411.17651), which enumerates likewise.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System plans_system();

}  // namespace orrery::experiments
