// The search loop: asks a driver, hands on what it proposes, tells and commits in the order of proposal.
//
// The same trials in the same order for any number of threads and any times that they take: how many points are out
// comes from the options, and results are told in the order of proposal. A search that is started again over what an
// earlier one committed asks the same questions, gets the known answers from `known`, and goes on where it was. What
// was learned elsewhere comes `first`: the driver is told of it before it is asked for anything.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "experiments/base/parallel.hpp"
#include "experiments/search/driver.hpp"

namespace orrery::experiments::search {

/// Where proposals are evaluated. Several are out at a time; results are taken in the order in which they were handed
/// in.
class Evaluations {
 public:
  virtual ~Evaluations() = default;
  virtual void submit(std::span<const Proposal> proposals) = 0;
  /// The result of the oldest that is out; waits for it.
  virtual Evaluation take() = 0;
};

/// Evaluates one proposal; called by several threads at once. Must not throw: what goes wrong is a failed evaluation.
using Evaluate = std::function<Evaluation(const Proposal&)>;

/// Evaluations on threads of their own.
class ThreadEvaluations final : public Evaluations {
 public:
  ThreadEvaluations(Evaluate evaluate, std::size_t jobs) : evaluate_(std::move(evaluate)), pool_(jobs) {}
  void submit(std::span<const Proposal> proposals) override;
  Evaluation take() override;

 private:
  struct Slot {
    Proposal proposal;
    std::optional<Evaluation> result;
  };
  Evaluate evaluate_;
  std::mutex mutex_;  ///< of the results
  std::deque<Slot> out_;
  WorkerPool pool_;  // last: its threads end before what they use goes
};

inline ThreadEvaluations on_threads(Evaluate evaluate, std::size_t jobs) {
  return {std::move(evaluate), jobs};
}

struct SearchOptions {
  std::int64_t budget = 100;      ///< evaluations, beside those that are `free`
  std::size_t batch = 1;          ///< proposals of which the driver hears together
  std::size_t in_flight = 0;      ///< most points that are out at a time; `batch` if that is more
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

/// The points that a driver has out: asked for, and not told of yet. Results may come in any order; the driver hears of
/// them in the order of proposal, and of all of them at once if it cannot be asked before it has them.
class Window {
 public:
  Window(Driver& driver, std::size_t size) : driver_(driver), size_(std::max<std::size_t>(1, size)) {}

  const std::vector<Proposal>& out() const { return out_; }
  std::size_t room() const { return size_ - std::min(size_, out_.size()); }
  bool can_ask() const { return driver_.can_ask(out_); }
  /// New proposals, which are out from now on: the last ones of out(); none may mean that it has some once it has heard
  /// of those that are out. Only if can_ask().
  std::vector<Proposal> ask(std::size_t most);
  /// Points that the driver did not ask for.
  void add(std::vector<Proposal> proposals);
  bool answered(std::size_t place) const { return results_[place].has_value(); }
  /// Of a place in out(); a figure that is no number is made a failure.
  void answer(std::size_t place, Evaluation result);
  /// Tells the driver of the oldest points, which all have their results; gives the trials.
  std::vector<Trial> hear(std::size_t count);

 private:
  Driver& driver_;
  std::size_t size_;
  std::vector<Proposal> out_;
  std::vector<std::optional<Evaluation>> results_;
  std::vector<Trial> untold_;  ///< heard, for a driver that waits for those after them
};

/// Runs to the budget, until nothing is gained, or until the driver has no more to propose; all trials, in order.
std::vector<Trial> run_search(Driver& driver, Evaluations& evaluations, const SearchOptions& options);
std::vector<Trial> run_search(Driver& driver, Evaluations&& evaluations, const SearchOptions& options);

}  // namespace orrery::experiments::search
