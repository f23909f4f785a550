// What `orrery evolve` says: generations, the best expression, and what it gains over the baselines.
#pragma once

#include <string>

#include "experiments/evolve/evolution.hpp"

namespace orrery::experiments::evolve {

std::string result_text(const EvolveStudy& study, const EvolveResult& result);
sim::Node result_node(const EvolveStudy& study, const EvolveResult& result);
/// A line a candidate, in the order of their evaluation: generation,nodes,figure,expression,why.
std::string candidates_csv(const EvolveStudy& study, const EvolveResult& result);

}  // namespace orrery::experiments::evolve
