// The closed loop of a deployment, simulated: clients that send a request when their last one is answered, a replica
// with the engine's batching, and steps that last as DeploymentModel says.
//
// One group of attention data parallelism stands for all, which do alike. Decodes are tabulated as in every run; of
// steps with prompts, tokens and decodes are rounded to kStepKnots an octave, since rows have millions of them.
#pragma once

#include "experiments/fidelity/deployment.hpp"
#include "policies/batching/batching.hpp"

namespace orrery::experiments {

/// Means over all requests of the loop, as DeploymentModel::closed_loop has them in closed form. Lengths are drawn from
/// a fixed seed. No answer (`requests` below 1) where weights and one request do not fit.
LoopLatency simulate_loop(const DeploymentModel& model, const ClosedLoop& loop,
                          const policies::BatchingRegistry::Choice& batching);

}  // namespace orrery::experiments
