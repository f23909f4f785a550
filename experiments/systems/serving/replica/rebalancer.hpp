// Experts that move between the ranks of a replica while it serves, because other ones have become popular.
//
// After every `interval` iterations the placement policy is asked anew, with what the tokens of the last `window` of
// them chose (vLLM's EPLB: step_interval and window_size). A rank that lacks an expert of the new placement copies its
// weights from a rank that has them, of its own node if there is one, and of these from the one that has sent least of
// this layer. Layers move one after the other; each takes as long as the rank that sends or receives most:
//   time = sum over layers of max over ranks (experts in node) bytes / node bandwidth + the same between nodes
// Iterations of all lanes wait for it; with `overlap` they go on, and tokens find the new places once all is there. An
// interval that ends while copies are under way places nothing. Left out: memory to receive into, energy of the copies,
// copies that slow collectives down.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/pricing/rebalance.hpp"
#include "experiments/systems/serving/pricing/router_replay.hpp"
#include "policies/expert_placement/expert_placement.hpp"

namespace orrery::experiments {

/// How experts travel between ranks.
struct ExpertLinks {
  std::int64_t rank_devices = 1;             ///< that share the experts of a rank, and copy side by side
  std::int64_t node_ranks = 1;               ///< of a node; ranks follow each other node by node
  double node_bandwidth = 0, bandwidth = 0;  ///< of a device, bytes/s a direction: within a node, between nodes
  std::vector<std::int64_t> bytes;           ///< of an expert on one device, by layer of the trace, …
  std::vector<std::int64_t> layers;          ///< … and how many of the model it stands for
};

/// What it takes to get from a placement to another.
struct ExpertMoves {
  std::int64_t experts = 0, bytes = 0, ps = 0;
};
ExpertMoves moves_between(const std::vector<policies::LayerPlacement>& from,
                          const std::vector<policies::LayerPlacement>& to, std::int64_t ranks,
                          const ExpertLinks& links);

class Rebalancer {
 public:
  /// `view`: the machine that placements are made for; `first`: where experts are when the run begins. `replay` must
  /// outlive it.
  Rebalancer(RouterReplay& replay, const RebalanceParams& params,
             std::shared_ptr<const policies::ExpertPlacement> policy, policies::ExpertPlacementView view,
             std::vector<policies::LayerPlacement> first, ExpertLinks links);

  /// The placement that tokens find now.
  std::int32_t placement() const { return placement_; }
  /// Iterations of a lane are over.
  void ran(std::size_t lane, const BatchShape& shape, std::int64_t steps);
  /// Before an iteration of a lane that would begin at `now`: moves experts if it is time to. What the iteration waits
  /// for in ps, and what moved (`moved` is added to); its tokens find placement().
  std::int64_t before_iteration(std::size_t lane, const ExactTime& now, std::int64_t ps_per_tick, RoutedTotals& moved);

 private:
  void move(const ExactTime& now, std::int64_t ps_per_tick, RoutedTotals& moved);
  void place_anew();
  void drop_unused();

  RouterReplay& replay_;
  RebalanceParams params_;
  std::shared_ptr<const policies::ExpertPlacement> policy_;
  policies::ExpertPlacementView view_;
  std::vector<policies::LayerPlacement> experts_;  // where they are, or are on their way to
  ExpertLinks links_;
  std::int32_t placement_ = 0;
  std::optional<std::int32_t> coming_;  // a placement that copies are on their way for while iterations go on
  ExactTime there_;                     // when all copies of the last placement are there
  std::vector<std::int32_t> added_;     // placements of this replica that `replay_` still has
  std::vector<std::int32_t> found_;     // by lane: the placement that its last iteration found
  std::vector<std::int64_t> steps_of_;  // by lane, since the last placement
  std::vector<std::int64_t> seen_;      // by token of the trace: how many more of it than of the token before
  std::vector<RouterReplay::Stretch> stretches_;
};

}  // namespace orrery::experiments
