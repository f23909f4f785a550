// What earlier stores tell a search before it begins: `orrery search STUDY --from STORE`.
//
// A store of the same measurement (base, parameters, constraints, measures, objectives, limits, seeds, fidelity; not
// the driver or its budget) gives all its points with their runs: they are rows of the new store, cost nothing, and the
// driver is told of them. So a search goes on with more points, or with another driver, and a search begins at a sweep.
// A store of another measurement gives its best points where they are points of this space: first guesses, which are
// run anew.
#pragma once

#include <map>

#include "experiments/search/driver.hpp"
#include "experiments/study/store.hpp"
#include "experiments/study/study.hpp"

namespace orrery::experiments::study {

struct Earlier {
  std::vector<search::Proposal> known;    ///< evaluated before, in the order of the stores
  std::vector<search::Proposal> guesses;  ///< best points of other measurements, by turns
  std::map<std::string, RunResult> runs;  ///< of `known`, by key
  std::string fact;                       ///< what the new store says of them; empty: nothing
};

/// Reads stores, at most `search.batch` guesses of each. Throws sim::ConfigError for a file that is no store, one of
/// another build (unless `any_build`), and one that has nothing for this study.
Earlier read_earlier(const Study& study, std::span<const std::filesystem::path> files, bool any_build);

}  // namespace orrery::experiments::study
