// Which parts of a graph go to an accelerator: regions of operators as a partition problem, free of graphs and devices.
//
// A unit is what moves as a whole (an op, or a composite pattern). A region is a set of units of one target that runs
// as one external function: called once, it takes its inputs from the host and gives its outputs back to it, also where
// the next region is of the same target, so a region's price stands by itself:
//   t(region) = call + sum of its units' target_s + sum over tensors in and out of (latency + bytes / bandwidth)
// and latency(partition) = sum of host_s of the units left on the host + sum of t(region); everything runs one after
// the other. A partition is sound if no path leaves a region and comes back (each region can then be called as a
// whole). Source: BYOC (Chen et al., 2021) and the merging of composite functions in apache/tvm; the cost test is an
// extension. Left out: overlap of host, accelerator and copies; tensors that stay on the accelerator between two calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery::policies::byoc {

struct Unit {
  std::int32_t target = -1;  ///< that can run it; -1: none
  double host_s = 0;         ///< on the host, launches included, s
  double target_s = 0;       ///< on the target, inside a call, s
};

/// A tensor that may have to be copied.
struct Value {
  std::int32_t maker = -1;  ///< unit; -1: there before the run
  std::vector<std::int32_t> readers;
  bool result = false;  ///< the graph gives it
  std::int64_t bytes = 0;
};

struct Target {
  double call_s = 0;  ///< of a region, s
  double copy_latency_s = 0, copy_bandwidth = 1;
  double copy_s(std::int64_t bytes) const { return copy_latency_s + static_cast<double>(bytes) / copy_bandwidth; }
};

/// Units stand in an order of execution.
struct Problem {
  std::vector<Unit> units;
  std::vector<Value> values;
  std::vector<Target> targets;
};

/// Region of each unit; -1: the host.
using Regions = std::vector<std::int32_t>;

struct Price {
  double latency_s = 0;
  std::int64_t transfers = 0, bytes = 0, regions = 0;
};
/// Linear in units and uses.
Price price(const Problem& problem, const Regions& regions);
/// The price of one region and of its units on the host, s.
struct RegionPrice {
  double target_s = 0, host_s = 0;
};
RegionPrice region_price(const Problem& problem, const Regions& regions, std::int32_t region);

/// True if no path leaves a region and comes back, through other regions too.
bool is_sound(const Problem& problem, const Regions& regions);

/// Every unit that a target can run is a region of its own: the baseline.
Regions offload_each(const Problem& problem);
/// Regions of one target that a tensor joins become one where the partition stays sound; tensors in the order of their
/// makers, readers in order. Quadratic at worst (a check of the whole graph a merge that is tried).
Regions merge_adjacent(const Problem& problem, Regions regions);
/// Leaves a region only where it is faster than its units on the host. Before that a region gives units back to the
/// host one by one while that makes it cheaper and keeps the partition sound (`trim`). Never slower than the host
/// alone.
Regions accept_by_cost(const Problem& problem, Regions regions, bool trim);

}  // namespace orrery::policies::byoc
