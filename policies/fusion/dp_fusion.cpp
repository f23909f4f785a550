// DP fusion under a limit of on-chip memory: the partition of the order of execution into kernels that saves most.
//
// Decides: best[end] = max over begin of best[begin] + gain(begin, end), over all segments
// (policies/fusion/segments.hpp) of at most `max_ops` ops that fit. Optimal among partitions into stretches of the
// given order (checked against all partitions of short graphs); nothing is computed twice. O(ops x max_ops) segments.
#include "policies/fusion/segment_params.hpp"

namespace orrery::policies {
namespace {

class DpFusion final : public GraphPass {
 public:
  explicit DpFusion(const SegmentParams& params) : params_(params) {}

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    const Segments segments(graph, context, limits_of(params_, context, report));
    return fuse_segments(graph, segments, segments.best(), context, report);
  }

 private:
  SegmentParams params_;
};

}  // namespace

void add_dp_fusion(PassRegistry& registry) {
  registry.add<SegmentParams>(
      "dp_fusion",
      "Runs of consecutive ops become tiled kernels: the partition that saves most, by dynamic programming.",
      [](const SegmentParams& params) { return std::make_unique<DpFusion>(params); });
}

}  // namespace orrery::policies
