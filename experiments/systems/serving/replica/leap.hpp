// Iterations of one batch that follow each other without a decision between them, and where they stand in time.
#pragma once

#include <cstdint>

#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"

namespace orrery::experiments {

struct Leap {
  ExactTime start;
  std::int64_t ps_per_tick = 1;
  std::int64_t planned = 0, done = 0;
  std::int64_t grown = 0;     ///< iterations that have taken their blocks
  bool decodes = false;       ///< steady decodes take part
  IterationPrice price;       ///< as the devices take it
  std::int64_t extra_ps = 0;  ///< that the host and transfers add to each
  std::int64_t work_ps = 0;   ///< of a pipelined replica: stage time an iteration, over stages
  bool open = false;          ///< its one iteration ends when somebody says so
  std::int64_t measured = 0;  ///< steady tokens a step that count in latencies

  /// Length of the first `n` in ps.
  std::int64_t elapsed(std::int64_t n) const {
    return static_cast<std::int64_t>(static_cast<__int128>(price.time_ps + extra_ps) * n +
                                     static_cast<__int128>(price.step_ps) * n * (n - 1) / 2);
  }
  /// End of the n-th; time_of(0) is the start.
  ExactTime time_of(std::int64_t n) const { return start.plus(elapsed(n), ps_per_tick); }
  /// Dynamic energy of iteration i (from 0).
  std::int64_t energy_pj(std::int64_t i) const { return price.energy_pj + i * price.step_energy_pj; }
  /// How many are over at `now`.
  std::int64_t over_at(const ExactTime& now) const;
  /// Cuts it to what 63 bits of picoseconds tell. Throws std::overflow_error where it ends past the reach of the tick.
  void fit_in_time(const sim::TickScale& scale);
};

}  // namespace orrery::experiments
