// The search system: a study's search as an experiment, so that drivers can be compared by claim studies.
//
//   {"system": "search", "study": {"file": "dram_controller_sub.json", "set": ["search.driver.policy=genetic"]},
//    "goal": {"best": 1.16e-7, "within": 0.01}, "run": {"seed": 1, "repeats": 10}}
//
// All of it in memory, one thread; equal configs run once for all repeats. summary.json has the best of the study's
// first objective that each repeat found, as the study states it, and after how many evaluations it was within the
// goal, both as quartiles; a repeat that never was counts as infinite, and `missed` says how many those are.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments::study {

System search_system();

}  // namespace orrery::experiments::study
