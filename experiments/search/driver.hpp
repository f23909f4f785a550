// Drivers: which points of a space to look at next, given what is known of those before.
//
// A driver is asked for a batch of points and told the results in the order in which it proposed: whole batch by whole
// batch, or, if it says that it can be asked while points are out, some of them at a time. It is a pure function of its
// setup and of what it was told: it sees no clock, no random numbers but its stream's, and not how many threads
// evaluate. So a search resumes by asking a fresh driver again and telling it the results of the store.
//
// Contract: points are canonical, and allowed if the space has any that are. At most `most` proposals; fewer (but not
// none) where the driver's own step is smaller; none if it has nothing more to propose. Drivers need not remember what
// they proposed before: unique.hpp sees to it that no point is evaluated twice. So what a driver is told may lack
// trials that it asked for, and may hold another point than the one asked for at that place. Before it is first asked
// it may be told trials that nobody asked it for (of an earlier search, first guesses): it makes of them what it can.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/search/space.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/registry.hpp"

namespace orrery::experiments::search {

enum class TrialStatus : std::uint8_t {
  ok,
  infeasible,  ///< the design does not fit, or is not allowed: a result
  failed       ///< no result: the run broke, or a figure is missing or NaN
};
constexpr auto enum_names(TrialStatus) {
  using enum TrialStatus;
  return sim::names<TrialStatus>({{"ok", ok}, {"infeasible", infeasible}, {"failed", failed}});
}

/// A point to look at. `fidelity` in (0, 1] is the share of a full run (of a trace's length) that is asked for.
struct Proposal {
  Point point;
  double fidelity = 1;
};

/// What came of it.
struct Evaluation {
  TrialStatus status = TrialStatus::ok;
  std::vector<double> objectives;  ///< all to be minimised; empty unless ok
  /// Of the limits on figures: by how much each is broken; at or below 0 it is met, with so much room. Empty unless ok,
  /// or infeasible for a limit that was certain to be broken when the run ended.
  std::vector<double> margins;
  std::vector<std::pair<std::string, double>> breakdown;  ///< where the time went, for drivers that ask why
  std::string reason;                                     ///< why it is not ok

  bool ok() const { return status == TrialStatus::ok; }
  /// Whether limits were looked at.
  bool judged() const { return ok() || !margins.empty(); }
  /// Sum of what limits are broken by; infinite unless judged.
  double violation() const;
  /// Whether it is ok and meets every limit.
  bool feasible() const { return ok() && violation() == 0; }
};

struct Trial {
  Proposal proposal;
  Evaluation result;
};

/// Whether `a` is better than `b` for one objective: feasible before violating (less before more), then the objective;
/// equals are not better.
bool better(const Evaluation& a, const Evaluation& b, std::size_t objective = 0);
/// Constraint domination (Deb 2002): feasible before violating (less before more); among feasible ones no worse in
/// every objective and better in one.
bool dominates(const Evaluation& a, const Evaluation& b);

class Driver {
 public:
  virtual ~Driver() = default;
  virtual std::vector<Proposal> ask(std::size_t most) = 0;
  /// Whether it is told only when all that it asked for has its results, and asked only then.
  virtual bool whole_batches() const { return true; }
  /// Whether it can be asked while these points are out, their results still to come: they may be other drivers' too.
  /// ask() takes them as it was told last.
  virtual bool can_ask(std::span<const Proposal> out) { return out.empty(); }
  virtual void tell(std::span<const Trial> trials) = 0;
  /// Figures of its own progress, for people: acceptance, step sizes, restarts. None decides anything.
  virtual std::vector<std::pair<std::string, double>> statistics() const { return {}; }
};

/// A driver that can be told of some of its points, and asked for more, while others are out.
class StreamDriver : public Driver {
 public:
  bool whole_batches() const final { return false; }
  bool can_ask(std::span<const Proposal> /*out*/) override { return true; }
};

/// What a driver may know beside its own parameters. The space outlives the driver.
struct DriverSetup {
  const Space* space = nullptr;
  std::size_t objectives = 1;
  std::size_t limits = 0;   ///< margins in an Evaluation
  std::int64_t budget = 0;  ///< evaluations in all; what schedules (temperatures, rungs) are laid over
  sim::RandomStream random{1, "driver"};
  /// Names in breakdowns, and the parameters worth moving when that is where the time goes.
  std::vector<std::pair<std::string, std::vector<std::size_t>>> remedies;
};

using DriverRegistry = sim::Registry<Driver, DriverSetup>;

/// Adds every driver of drivers/ (register.cpp: one line a driver).
void register_drivers(DriverRegistry& registry);

}  // namespace orrery::experiments::search
