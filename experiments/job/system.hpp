// Systems `training_job` (the weeks of a training job) and `goodput` (which checkpoint interval is best for it).
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System training_job_system();
System goodput_system();

}  // namespace orrery::experiments
