// Pipeline parallelism: the stages of a replica, and the iterations of its lanes that pass them.
//
// A pipelined replica has lanes, each with its own share of the KV cache and its own requests; a lane's iteration is a
// micro-batch. It passes the stages in order; a stage takes iterations first come, first served:
//     begin = max(ready, free[stage]),  free[stage] = end = begin + time of the stage,  ready at the next = end + send
// and the lane decides on its next iteration when the last stage has ended (tokens are sampled there). Iterations enter
// in the order in which they are decided and no stage lets one pass another (a permutation flow shop), so the times are
// exact without any event. With as many lanes as stages a pipeline of equal iterations is always full; where they
// differ, a stage that waits for the one before it is a bubble.
// Left out: the way of a sampled token back to the first stage, and sends that contend.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"

namespace orrery::experiments {

/// Layers [first, last) of a stage.
struct StageLayers {
  std::int32_t first = 0, last = 0;
  bool as_before = false;  ///< its layers are like those of the stage before, and neither stage has an edge
};

class StagePipe {
 public:
  /// `model` prices the layers of a stage and must outlive it; `send_ps` is the time in which the activations of so
  /// many tokens get to the next stage.
  StagePipe(IterationModel& model, std::vector<StageLayers> stages, std::function<std::int64_t(std::int64_t)> send_ps,
            std::int64_t ps_per_tick);

  /// An iteration that is ready for the first stage: when it leaves the last. Calls come in order of time.
  ExactTime pass(ExactTime ready, const BatchShape& shape);
  /// Stage time of the last iteration that passed, over stages.
  std::int64_t last_work_ps() const { return last_work_ps_; }
  /// When each stage had it.
  const std::vector<StageTime>& last_times() const { return last_times_; }
  std::int64_t stages() const { return std::ssize(stages_); }
  /// Nothing is in it any longer.
  void clear(ExactTime now);
  /// Time in which anything was in it, and stage time spent in all of it: what is missing to stages() x occupied is
  /// bubbles.
  __int128 occupied_ps() const { return occupied_ps_; }
  __int128 work_ps() const { return work_ps_; }

 private:
  void price_stages(const BatchShape& shape);

  IterationModel& model_;
  std::vector<StageLayers> stages_;
  std::function<std::int64_t(std::int64_t)> send_ps_;
  std::int64_t ps_per_tick_;
  std::vector<ExactTime> free_;
  std::vector<StageTime> last_times_;
  std::vector<std::int64_t> times_, sends_;  // of the iteration at hand
  BatchShape part_;
  IterationCost cost_;
  ExactTime empty_from_;
  std::int64_t last_work_ps_ = 0;
  __int128 occupied_ps_ = 0, work_ps_ = 0;
};

}  // namespace orrery::experiments
