// Parameters that greedy_fusion and dp_fusion share, and how both end.
#pragma once

#include <algorithm>
#include <optional>

#include "policies/fusion/finish.hpp"
#include "policies/fusion/segments.hpp"

namespace orrery::policies {

struct SegmentParams {
  std::optional<std::int64_t> scratch;
  std::int64_t tile_rows = 16, panel_columns = 64, max_ops = 16;

  static constexpr auto fields() {
    using S = SegmentParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field(
            "scratch", &S::scratch, Unit::bytes, sim::at_least(0),
            "On-chip memory that a kernel's tiles may fill; null: the device's on-chip memory; 0: nothing is fused."),
        sim::field("tile_rows", &S::tile_rows, Unit::none, sim::at_least(1), "Number of rows in a tile."),
        sim::field("panel_columns", &S::panel_columns, Unit::none, sim::at_least(1),
                   "Number of columns of the right operand that are on chip at once."),
        sim::field("max_ops", &S::max_ops, Unit::none, sim::between(1, 64), "Most ops in a kernel.")};
  }
};

inline SegmentLimits limits_of(const SegmentParams& params, const PassContext& context, PassReport& report) {
  if (!params.scratch && context.scratch_bytes == 0)
    report.notes.emplace_back("the device's on-chip memory is unknown, so nothing fuses: set scratch");
  return {params.scratch.value_or(context.scratch_bytes), params.tile_rows, params.panel_columns, params.max_ops};
}

/// Fuses the segments and tells `gain_s`, `largest_working_set` and what all fusions tell.
inline models::OpGraph fuse_segments(const models::OpGraph& graph, const Segments& segments,
                                     const std::vector<Segment>& chosen, const PassContext& context,
                                     PassReport& report) {
  double gain = 0;
  std::int64_t largest = 0;
  for (const Segment& segment : chosen) {
    gain += segments.gain_s(segment);
    if (segment.end - segment.begin > 1) largest = std::max(largest, segments.working_set(segment));
  }
  report.tell("gain_s", gain);
  report.tell("largest_working_set", static_cast<double>(largest));
  return finish_groups(graph, segments.launches(), groups_of(chosen, segments.size()), context, report);
}

}  // namespace orrery::policies
