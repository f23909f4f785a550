// The rl system: a learner trained in an environment, from several seeds.
//
// Sections: "env" and "learner" are policy blocks (a name, and its parameters under it), "train" says how long and how
// it is judged, "run" holds the seeds. Files: curve.csv (a row an evaluation and seed), seed-N.ckpt (the state of each
// training at its end), summary.json. `run.state` names a folder in which trainings keep themselves while they run, and
// from which they go on when they are started again; `run.jobs` trains several seeds at once. Neither changes a byte.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

System rl_system();

}  // namespace orrery::experiments
