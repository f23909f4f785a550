// The slo_sweep system: how attainment falls as the rate grows, and rises as targets are relaxed.
//
// Its config is a serving config with targets in `slo` and a section `slo_sweep`. Every rate is run with the targets of
// `slo` times every scale, replication by replication with the same requests. Policies that read a target see the
// config's own: the scale is what users would put up with, not what the system aims at.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System slo_sweep_system();

}  // namespace orrery::experiments
