// Forward passes of every model at every batch on every platform, and where the CPU stops being the bound.
//
// Crossovers, three readings of the same transition:
//   balance   the smallest batch, of all up to the largest, at which the device is busy for longer than the dispatching
//             thread (figures of the closed form, searched by bisection)
//   tklqt, il the knee of that curve over the batches of the config: where it leaves its level at the smallest batch.
//             A knee lies where the curve crosses `level * 2` (TKLQT: queueing as long as launching; IL: twice the
//             time of a pass that only dispatches), interpolated between batches on logarithmic axes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "experiments/experiment.hpp"
#include "experiments/launch/config.hpp"
#include "hw/coupling/launch_figures.hpp"

namespace orrery::experiments::launch {

/// One model at one batch on one platform.
struct Point {
  std::int64_t batch = 0;
  hw::LaunchFigures stream, graph, fused;
  double capture_s = 0;
};

/// Batches at which a pass turns from CPU-bound to GPU-bound; none: not within the batches of the config.
struct Crossover {
  std::optional<std::int64_t> balance;
  std::optional<double> tklqt, il;
};

/// One model on one platform.
struct Series {
  std::size_t platform = 0, model = 0;
  std::vector<Point> points;
  Crossover crossover;
};

/// What a point looked like in detail, for the timeline.
struct PointTrace {
  std::vector<hw::LaunchedKernel> kernels;
  std::vector<hw::Command> program;
  std::vector<hw::CommandTiming> timings;
};

struct LaunchResult {
  std::vector<Series> series;      ///< platform by platform, models in order
  std::vector<PointTrace> traces;  ///< of each platform, of the batch that the timeline shows
  std::uint64_t events = 0;
};

LaunchResult run_launch(const LaunchConfig& config, const std::function<void(const Progress&)>& progress = {});

}  // namespace orrery::experiments::launch
