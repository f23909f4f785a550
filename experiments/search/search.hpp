// The search loop: asks a driver, evaluates on threads, tells and commits in the order of proposal.
//
// The same trials in the same order for any number of threads: batches come from the options, results are told and
// committed batch by batch. A search that is started again over what an earlier one committed asks the same questions,
// gets the known answers from `known`, and goes on where it was. What was learned elsewhere comes `first`: the driver
// is told of it before it is asked for anything.
#pragma once

#include <functional>
#include <optional>

#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

/// Evaluates one proposal; called by several threads at once. Must not throw: what goes wrong is a failed evaluation.
using Evaluate = std::function<Evaluation(const Proposal&)>;
/// Evaluates a batch: as many results, in its order.
using EvaluateBatch = std::function<std::vector<Evaluation>(std::span<const Proposal>)>;

struct SearchOptions {
  std::int64_t budget = 100;      ///< evaluations, beside those that are `free`
  std::size_t batch = 1;          ///< proposals evaluated before the driver hears of them
  std::vector<Proposal> first{};  ///< looked at before the driver is asked, and told to it
  std::size_t free = 0;           ///< how many of these, from the front, cost nothing of the budget
  bool keep = true;               ///< whether all trials are given back; else none, for searches of millions
  std::int64_t patience = 0;      ///< full evaluations without gain that end the search; 0: none do
  double gain = 0;                ///< share of the best value that counts as gain (of several objectives: Gains)
  /// The result of an earlier search, if there is one: such a trial is told and counted, but neither run nor committed.
  std::function<std::optional<Evaluation>(const Proposal&)> known;
  std::function<void(const Trial&)> commit;  ///< called in order of proposal, by the calling thread
  std::function<bool()> stop;                ///< asked between batches: true ends the search early
};

/// Whether a search still gains: of one objective, a best value better by a share of the one before; of several, a
/// point that no earlier one dominates, nor would if it were worse by that share of each objective's range so far.
class Gains {
 public:
  explicit Gains(double share) : share_(share) {}
  void hear(const Trial& trial);
  /// Full evaluations since the last gain, or since begin().
  std::int64_t since() const { return since_; }
  void begin() { since_ = 0; }

 private:
  bool gains(const Evaluation& result);

  double share_;
  std::optional<Evaluation> best_;          ///< of one objective
  std::vector<std::vector<double>> front_;  ///< of several, those that meet the limits
  std::vector<double> least_, most_;        ///< of each objective so far
  std::int64_t since_ = 0;
};

/// Runs to the budget, until nothing is gained, or until the driver has no more to propose; all trials, in order.
std::vector<Trial> run_search(Driver& driver, const EvaluateBatch& evaluate, const SearchOptions& options);

/// A batch on `jobs` threads.
EvaluateBatch on_threads(Evaluate evaluate, std::size_t jobs);

}  // namespace orrery::experiments::search
