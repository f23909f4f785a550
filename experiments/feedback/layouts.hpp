// Layouts of calls, and an iteration's plan: a layout for each call.
//
// The estimate of a plan is that of ReaLHF's search: calls in the order in which they become ready, each on all its
// devices at once, weights moved from where they are trained to where they are used.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/feedback/pricing.hpp"

namespace orrery::experiments::feedback {

/// Devices [first, first + shape.devices()) and how they share a call.
struct Layout {
  std::int64_t first = 0;
  Shape shape;
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

/// A layout for each call.
using CallPlan = std::vector<Layout>;

/// Every layout of a call that can run: within a node, devices that a power of two of them begins; else whole nodes
/// that follow one another, any number to 16, powers of two beyond, and all. Fastest first, at most `most`. Layouts
/// that alone need more memory than a device has are left out.
std::vector<Layout> layouts(CallPricer& pricer, const FeedbackConfig& config, const Call& call, std::size_t most);

/// Where weights of a model go within an iteration: from its training to another of its calls.
struct Move {
  std::size_t from = 0, to = 0;  ///< calls
  double time_s = 0;
};

/// Seconds to bring the weights of a model from one layout to another: each rank needs its share of each layer; what a
/// device holds already stays. A device receives over its link, a node what none of its devices holds over its
/// adapters, and sends each share once to a node that wants it. The slowest decides.
double move_s(const training::TrainingMachine& machine, double weight_bytes, const Layout& from, const Layout& to);

/// What a plan does to a device, and how long an iteration takes by list scheduling.
class PlanEstimator {
 public:
  PlanEstimator(const FeedbackConfig& config, CallPricer& pricer) : config_(config), pricer_(pricer) {}
  /// Seconds of an iteration. Without a lag: the first, on idle devices, by list scheduling. With one: what no overlap
  /// of iterations can be below, the busiest device's time and the longest chain from weights to their training over
  /// the iterations that it may span.
  double time_s(const CallPlan& plan);
  /// Of the fullest device: what stays, and the most that a call needs beside it.
  double memory_bytes(const CallPlan& plan);
  /// What the devices of the fullest node keep in its host's memory.
  double host_bytes(const CallPlan& plan);
  /// Moves of weights, in the order of the calls they are for.
  std::vector<Move> moves(const CallPlan& plan);

 private:
  /// A call, with the weights that it waits for from the host.
  double call_s(const CallPlan& plan, std::size_t call);
  double first_s(const CallPlan& plan);
  double overlapped_s(const CallPlan& plan);

  const FeedbackConfig& config_;
  CallPricer& pricer_;
  std::map<std::tuple<std::size_t, Layout, Layout>, double> moved_;  ///< by kind of model
};

/// A plan that was chosen.
struct ChosenPlan {
  std::string obstacle;  ///< why there is none; the rest is then empty
  CallPlan plan;
  double estimate_s = 0, memory_bytes = 0;
  double options = 0;      ///< plans that there are
  std::int64_t looks = 0;  ///< plans that were looked at
};

ChosenPlan choose_plan(const FeedbackConfig& config, CallPricer& pricer);

}  // namespace orrery::experiments::feedback
