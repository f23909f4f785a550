// The store of a sweep as a problem for drivers: every point of a real space with what the simulator says of it.
#pragma once

#include <map>
#include <memory>

#include "experiments/search/problems.hpp"
#include "experiments/study/trials.hpp"

namespace orrery::experiments::search::test {

/// Of studies with one objective; a point that the sweep lacks is infeasible.
inline Problem swept_problem(const std::filesystem::path& file) {
  study::StoreReader store(file);
  const study::StoredTrials stored = study::read_trials(store, {});
  Problem problem{.name = stored.study, .space = stored.space, .objectives = stored.goals.size()};
  const auto all = std::make_shared<std::map<std::string, Evaluation>>();
  double best = std::numeric_limits<double>::infinity();
  for (const Trial& trial : stored.trials) {
    problem.limits = std::max(problem.limits, trial.result.margins.size());
    if (trial.result.feasible()) best = std::min(best, trial.result.objectives[0]);
    all->emplace(problem.space.key(trial.proposal.point), trial.result);
  }
  problem.optimum = best;
  problem.evaluate = [space = problem.space, all](const Proposal& proposal) {
    const auto found = all->find(space.key(proposal.point));
    return found == all->end() ? Evaluation{.status = TrialStatus::infeasible} : found->second;
  };
  return problem;
}

}  // namespace orrery::experiments::search::test
