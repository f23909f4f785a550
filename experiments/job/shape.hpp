// What a training job is made of: its step, its grid of copies and stages, which of them each node has ranks of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/job/config.hpp"

namespace orrery::experiments::job {

/// A copy's stage, by its place in the grid.
struct Cell {
  std::int64_t copy = 0, stage = 0;
  friend auto operator<=>(const Cell&, const Cell&) = default;
};

struct JobShape {
  std::string obstacle;  ///< why there is no such step; the rest is then empty
  std::int64_t nodes = 1, node_devices = 8, ranks = 8, copies = 1, micro_batches = 1;
  double step_s = 0, tokens = 0;           ///< tokens of a step; 0: not known
  double state_bytes = 0, node_bytes = 0;  ///< of a checkpoint; of a node's share of all copies' states
  std::vector<policies::RecoveryStage> stages;
  std::vector<std::vector<Cell>> cells;  ///< of each node
  /// RecoveryView's.
  std::function<double(std::span<const double> slower, std::span<const std::int64_t> layers)> step_with;
};

/// Runs the training step of the config, or takes the one that is stated.
JobShape job_shape(const JobConfig& config);

}  // namespace orrery::experiments::job
