// The search loop: asks a driver, evaluates on threads, tells and commits in the order of proposal.
//
// The same trials in the same order for any number of threads: batches come from the options, results are told and
// committed batch by batch. A search that is started again over what an earlier one committed asks the same questions,
// gets the known answers from `known`, and goes on where it was.
#pragma once

#include <functional>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

/// Evaluates one proposal; called by several threads at once. Must not throw: what goes wrong is a failed evaluation.
using Evaluate = std::function<Evaluation(const Proposal&)>;
/// Evaluates a batch: as many results, in its order.
using EvaluateBatch = std::function<std::vector<Evaluation>(std::span<const Proposal>)>;

struct SearchOptions {
  std::int64_t budget = 100;  ///< evaluations
  std::size_t batch = 1;      ///< proposals evaluated before the driver hears of them
  /// The result of an earlier search, if there is one: such a trial is told and counted, but neither run nor committed.
  std::function<std::optional<Evaluation>(const Proposal&)> known;
  std::function<void(const Trial&)> commit;  ///< called in order of proposal, by the calling thread
  std::function<bool()> stop;                ///< asked between batches: true ends the search early
};

/// Runs to the budget or until the driver has no more to propose; all trials, in order.
std::vector<Trial> run_search(Driver& driver, const EvaluateBatch& evaluate, const SearchOptions& options);

/// A batch on `jobs` threads.
EvaluateBatch on_threads(Evaluate evaluate, std::size_t jobs);

}  // namespace orrery::experiments::search
