// Forward passes of every model at every batch on every platform, and where the CPU stops being the bound.
//
// Crossovers, three readings of one transition; each is the first batch past it:
//   balance   of all batches up to the largest: the device is busy for longer than the dispatching thread (the closed
//             form, by bisection)
//   tklqt     of the config's batches: TKLQT rose the most steeply, on logarithmic axes, from the batch before; past
//             the crossover it grows as the batch, at it by more (at least as its 1.5th power)
//   il        of the config's batches: IL is more than 5 % above that of the smallest
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/launch/config.hpp"
#include "hw/coupling/launch_energy.hpp"
#include "hw/coupling/launch_figures.hpp"

namespace orrery::experiments::launch {

/// A pass with the chains of one length fused.
struct ProximityPoint {
  std::int64_t length = 0, chains = 0, launches = 0;
  double il_s = 0;
};

/// One model at one batch on one platform.
struct Point {
  std::int64_t batch = 0;
  hw::LaunchFigures stream, graph, fused;
  std::vector<ProximityPoint> proximity;  ///< by length
  double capture_s = 0;
  double idle_j = 0, compute_j = 0, memory_j = 0;  ///< of the device, launched operator by operator
};

/// Batches at which a pass turns from CPU-bound to GPU-bound; none: not within the batches of the config.
struct Crossover {
  std::optional<std::int64_t> balance, tklqt, il;
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
  sim::EnergyLedger energy;
};

struct LaunchResult {
  std::vector<Series> series;      ///< platform by platform, models in order
  std::vector<PointTrace> traces;  ///< of each platform, of the batch that the timeline shows
  std::uint64_t events = 0;
};

LaunchResult run_launch(const LaunchConfig& config, const std::function<void(const Progress&)>& progress = {});

}  // namespace orrery::experiments::launch
