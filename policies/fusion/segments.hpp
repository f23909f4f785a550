// Segments: stretches of the order of execution as one tiled kernel each, under a limit of on-chip memory.
//
// A stretch of consecutive units is always convex. As one kernel it saves its launches but one, the writes of what only
// it reads, and the reads of what it made or has read before; FLOPs stay. Its gain is that traffic at the device's
// bandwidth and the launches. It must be connected (by tensors made or read in common), of one phase, target and
// dialect, and of ops that a tiled kernel can hold.
//
// Working set: the kernel walks in tiles of `tile_rows` rows (all sizes but the last; an image for convolutions). At
// each op there are on chip: a tile of every inner tensor that is made and still to be read; a tile of each operand and
// result from outside; of a right operand of a product from outside a panel of `panel_columns` columns. An inner tensor
// that is read across rows (right operand of a product, keys and values of attention, through a view that moves
// elements) must be there whole. The working set is the most over the ops. Double buffering is left out: half the
// device's memory as a limit says the same.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/base/graph_pass.hpp"
#include "policies/fusion/launch_graph.hpp"
#include "policies/fusion/prices.hpp"

namespace orrery::policies {

struct SegmentLimits {
  std::int64_t scratch_bytes = 0;  ///< 0: nothing fits
  std::int64_t tile_rows = 16, panel_columns = 64;
  std::int64_t max_ops = 16;
};

/// A stretch [begin, end) of units.
struct Segment {
  std::size_t begin = 0, end = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

class Segments {
 public:
  Segments(const models::OpGraph& graph, const PassContext& context, const SegmentLimits& limits);

  std::size_t size() const { return launches_.size(); }
  const LaunchGraph& launches() const { return launches_; }
  /// Whether a stretch can be one kernel. One unit always can.
  bool fits(Segment segment) const;
  /// What one kernel saves, s; 0 for one unit.
  double gain_s(Segment segment) const;
  std::int64_t working_set(Segment segment) const;

  /// Grows each segment while the next unit fits and gains.
  std::vector<Segment> greedy() const;
  /// The partition of the largest gain, by dynamic programming over ends; of equals the one with the later cuts.
  std::vector<Segment> best() const;

 private:
  bool tileable(std::size_t unit) const;
  bool connected(Segment segment) const;
  bool inside(std::int32_t unit, Segment segment) const {
    return static_cast<std::size_t>(unit) >= segment.begin && static_cast<std::size_t>(unit) < segment.end;
  }
  /// Whether everything that reads a tensor made by `unit` is in the segment.
  bool kept(std::size_t unit, models::TensorId made, Segment segment) const;
  std::int64_t tile(models::TensorId tensor, bool image) const;
  std::int64_t operand(std::size_t unit, std::size_t slot, Segment segment) const;
  std::int64_t held_whole(std::size_t unit, std::size_t output, Segment segment) const;
  bool reads_across(std::size_t unit, std::size_t slot) const;

  const models::OpGraph& graph_;
  SegmentLimits limits_;
  FusionPrices prices_;
  LaunchGraph launches_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::int64_t> row_bytes_, matrix_bytes_, image_bytes_;
  std::vector<bool> leaves_;    ///< of each tensor: it, or a view of it, is an output of the graph
  std::vector<bool> tileable_;  ///< of each unit
};

/// Segments as groups of units.
UnitGroups groups_of(const std::vector<Segment>& segments, std::size_t units);

}  // namespace orrery::policies
