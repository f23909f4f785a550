// What `orrery reproduce` prints: claims and what came out, as text and as JSON; every point of the grids as CSV.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "experiments/claims/verdict.hpp"

namespace orrery::experiments::claims {

/// {"claims": [{study, system, claim, source, expected: [low, high], basis, simulated, holds, note}]}; open ends and
/// values that were not judged are null.
sim::Node claims_json(const std::vector<JudgedStudy>& studies);

/// A heading a study, a paragraph a claim, how many hold: of those that a published figure ties from both sides, of the
/// others, of all.
std::string claims_text(const std::vector<JudgedStudy>& studies);

/// study,variant,point,x,measure,value: figures by variant and point, and for claim number i of the study what its
/// formula reduces, as measure `claim:i` of no variant. Values that are not there have no line.
void write_points(const std::vector<JudgedStudy>& studies, std::ostream& out);

}  // namespace orrery::experiments::claims
