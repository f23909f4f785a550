// What decides a claim: a study names parameters that no source gives (`sensitivity`), with values that are as good;
// every claim is judged at each of them, and those whose verdict changes rest on the choice.
//
// A value is assigned to the base, so that variants and axes that set the same path keep theirs, or to the variants
// that the parameter names, over what they set. Runs that are equal are run once, whichever value they belong to.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/verdict.hpp"

namespace orrery::experiments::claims {

/// One claim over the values of one parameter.
struct SensitiveClaim {
  std::string claim;
  std::vector<Verdict> verdicts;  ///< one a value
  bool decided() const;           ///< whether it holds at some values and not at others
};

/// One parameter of one study.
struct Sensitivity {
  std::string study, parameter;
  std::vector<std::string> values;
  std::vector<SensitiveClaim> claims;
};

/// All parameters of all studies that name some. Throws sim::ConfigError with the faults of all, Stopped.
std::vector<Sensitivity> sensitivities(const Systems& systems, const std::vector<ClaimStudy>& studies,
                                       const RunOptions& options);

/// A paragraph a parameter: which claims it decides, and where they hold.
std::string sensitivity_text(const std::vector<Sensitivity>& all);
/// {"sensitivity": [{study, parameter, values, claims: [{claim, simulated, holds, decided}]}]}
sim::Node sensitivity_json(const std::vector<Sensitivity>& all);

}  // namespace orrery::experiments::claims
