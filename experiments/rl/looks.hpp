// What a policy looks at: by how many of its decisions change when one entry of what it sees is another step's.
#pragma once

#include <string>
#include <vector>

#include "experiments/rl/step_log.hpp"

namespace orrery::experiments::rl {

struct Look {
  std::string entry;
  double changed = 0;  ///< share of decisions that become another one
};
struct Looks {
  double agrees = 0;        ///< share of the steps at which the policy does what was done
  std::vector<Look> looks;  ///< the one that counts most first, of equals in the order of the spec
};

/// Permutation importance (Breiman, Machine Learning 45, 2001) of decisions in place of errors: an entry's numbers are
/// shuffled over the steps of the log (over steps and choices where each choice has it), and the policy is asked again.
/// The first 20,000 steps. Actions in a box count as changed where any number of them is another one.
Looks what_it_looks_at(Learner& policy, const StepLog& log, std::uint64_t seed);

}  // namespace orrery::experiments::rl
