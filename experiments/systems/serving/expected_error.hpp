// How far off the simulator was in measured runs like a config's: what stands beside a run's answer.
//
// experiments/measured/serving.json has the errors by part, engine and kind of model (experiments/fidelity/
// served_errors.hpp). Of the config's part those runs are taken that are the most alike: of the same engine (the
// batching policy that stands for it) and kind of model; else of that kind; else of that engine; else any. What differs
// is said. Errors of another part are no guide and are not told.
#pragma once

#include <string>

#include "sim/base/document.hpp"

namespace orrery::experiments {

/// What of a config decides which runs are like it.
struct ServedKind {
  std::string part;      ///< of the catalog; empty: several
  std::string batching;  ///< policy
  bool experts = false;  ///< of the model
};

/// "TTFT 12 % off (mean -5 %), TPOT 7 % off (mean +1 %) in 34 measurements of vLLM 0.9 …", or that nothing like it was
/// measured. `measured`: what the file holds.
std::string expected_error(const ServedKind& kind, const sim::Node& measured);
/// Of what ships; empty where the file is not there.
std::string expected_error(const ServedKind& kind);

}  // namespace orrery::experiments
