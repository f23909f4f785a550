// Iterations event by event: calls and moves of weights as tasks on devices, one iteration after the other.
#pragma once

#include <string>
#include <vector>

#include "experiments/feedback/layouts.hpp"

namespace orrery::experiments::feedback {

/// A call, or a move of weights to it, of one iteration.
struct CallRun {
  std::int64_t iteration = 0;
  std::size_t call = 0;
  bool move = false;
  double begin_s = 0, end_s = 0;
  bool critical = false;  ///< of the chain that ends last
};

struct FeedbackRun {
  std::vector<CallRun> runs;    ///< in order of begin
  double iteration_s = 0;       ///< between the ends of iterations; with a lag, once it is reached
  double first_s = 0;           ///< the first iteration
  std::int64_t iterations = 0;  ///< in `runs`
  std::vector<CallWork> calls;  ///< by call, of an iteration, with the loads before them
  std::vector<double> loads_s;  ///< by call: weights on their way from the host's memory
  double moves_s = 0;           ///< of an iteration, all moves
  double busy = 0;              ///< share of devices' time with a call, over the whole run
  /// Of answers: trainings that their weights are behind when they are trained on; the mean is of the second half.
  double mean_lag = 0, most_lag = 0;
  std::uint64_t events = 0;
};

/// A call of a model that is trained waits for the training of the iteration before (a generation: of as many more
/// before as `lag` says), and for the weights from there.
FeedbackRun play(const FeedbackConfig& config, CallPricer& pricer, const CallPlan& plan);

}  // namespace orrery::experiments::feedback
