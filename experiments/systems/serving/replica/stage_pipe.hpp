// Pipeline parallelism: the stages of a replica, and the iterations of its lanes that pass them.
//
// A pipelined replica has lanes, each with one iteration (a micro-batch) in flight at most. It passes the stages in
// order; a stage takes iterations first come, first served:
//     begin = max(ready, free[stage]),  free[stage] = end = begin + time of the stage,  ready at the next = end + send
// and the lane decides on its next iteration when the last stage has ended (tokens are sampled there). Iterations enter
// in the order in which they are decided and no stage lets one pass another (a permutation flow shop), so the times are
// exact without any event. With as many lanes as stages a pipeline of equal iterations is always full; where they
// differ, a stage that waits for the one before it is a bubble. A replica of several layouts has stages by mode
// (BatchShape::mode), and changes its mode while nothing is in flight.
// Each stage launches what it runs, for all lanes: it takes no shorter than that (pricing/host_time.hpp).
// Where stages send over a network that others use too, iterations pass in events instead (WiredStages).
// Left out: the way of a sampled token back to the first stage, and sends that contend (without such a network).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "experiments/systems/serving/replica/wired_stages.hpp"

namespace orrery::experiments {

/// Layers [first, last) of a stage.
struct StageLayers {
  std::int32_t first = 0, last = 0;
  bool as_before = false;  ///< its layers are like those of the stage before, and neither stage has an edge
};

class StagePipe final : private WiredStages::Books {
 public:
  /// Time in ps in which the activations of so many tokens get to the next stage, in a mode.
  using SendTime = std::function<std::int64_t(std::int64_t tokens, std::int32_t mode)>;
  /// `model` prices the layers of a stage and must outlive it; stages of each mode.
  StagePipe(IterationModel& model, std::vector<std::vector<StageLayers>> modes, SendTime send_ps,
            std::int64_t ps_per_tick);

  /// From now on stages send over these wires; a token's activations have so many bytes on a device.
  void wire(std::vector<std::vector<StageWires>> modes, std::int64_t token_bytes);
  /// Whether iterations pass in events. If not, what pass() says comes to pass.
  bool wired() const { return wired_ != nullptr; }
  /// An iteration that is ready for the first stage: when it leaves the last; of wired stages, when it would if it met
  /// nobody. Calls come in order of time. `host` may be null: launching takes no time.
  ExactTime pass(ExactTime ready, const BatchShape& shape, const HostTime* host = nullptr);
  /// What the hosts and devices of all stages had to do for the last iteration that passed; the scheduler is not in it.
  const HostShare& last_host() const { return last_host_; }
  /// Stage time of the last iteration that passed, over stages; and the mean of these.
  std::int64_t last_work_ps() const { return last_work_ps_; }
  std::int64_t last_mean_ps() const { return last_work_ps_ / std::ssize(last_times_); }
  /// That iteration enters wired stages; `listener` hears when it has left the last.
  void enter(Wire::Listener& listener) { wired_->enter(last_ready_, last_mode_, work_, listener); }
  /// Of the last iteration that left wired stages: by how much its transfers took longer than alone.
  std::int64_t last_waited_ps() const { return last_waited_ps_; }
  /// When each stage had it.
  const std::vector<StageTime>& last_times() const { return last_times_; }
  /// Stages in a mode, and the most that a mode has.
  std::int64_t stages(std::int32_t mode) const { return std::ssize(modes_[static_cast<std::size_t>(mode)]); }
  std::int64_t most_stages() const { return std::ssize(free_); }
  std::int64_t modes() const { return std::ssize(modes_); }
  /// Nothing is in it any longer.
  void clear(ExactTime now);
  /// Time in which anything was in it, and stage time spent in all of it: what is missing to most_stages() x occupied
  /// is bubbles. A mode of fewer stages has more devices in each, and its stage time counts as many times more.
  __int128 occupied_ps() const { return occupied_ps_; }
  __int128 work_ps() const { return work_ps_; }

 private:
  void left(const Passage& passage) override;
  void book(const ExactTime& entered, const ExactTime& left);
  void price_stages(const BatchShape& shape, const std::vector<StageLayers>& stages, const HostTime* host);
  std::int64_t launched(const HostTime& host, HostShare& share) const;

  IterationModel& model_;
  std::vector<std::vector<StageLayers>> modes_;
  SendTime send_ps_;
  std::int64_t ps_per_tick_;
  std::vector<ExactTime> free_;
  std::vector<StageTime> last_times_;
  std::vector<StageWork> work_;  // of the iteration at hand
  std::unique_ptr<WiredStages> wired_;
  std::int64_t token_bytes_ = 0;
  ExactTime last_ready_;
  std::int32_t last_mode_ = 0;
  std::int64_t last_waited_ps_ = 0;
  std::vector<HostShare> hosts_;
  HostShare last_host_;
  BatchShape part_;
  IterationCost cost_;
  ExactTime empty_from_;
  std::int64_t last_work_ps_ = 0;
  __int128 occupied_ps_ = 0, work_ps_ = 0;
};

}  // namespace orrery::experiments
