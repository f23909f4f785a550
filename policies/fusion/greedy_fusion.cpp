// Greedy fusion under a limit of on-chip memory: each kernel takes the next op while it fits and gains.
//
// Decides: the order of execution is cut into segments (policies/fusion/segments.hpp) from the front. What the first
// segment takes, a later one cannot have: dp_fusion shows what that costs. Linear in ops times `max_ops`.
#include "policies/fusion/segment_params.hpp"

namespace orrery::policies {
namespace {

class GreedyFusion final : public GraphPass {
 public:
  explicit GreedyFusion(const SegmentParams& params) : params_(params) {}

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    const Segments segments(graph, context, limits_of(params_, context, report));
    return fuse_segments(graph, segments, segments.greedy(), context, report);
  }

 private:
  SegmentParams params_;
};

}  // namespace

void add_greedy_fusion(PassRegistry& registry) {
  registry.add<SegmentParams>(
      "greedy_fusion", "Runs of consecutive ops become tiled kernels: each takes the next op while it fits on chip.",
      [](const SegmentParams& params) { return std::make_unique<GreedyFusion>(params); });
}

}  // namespace orrery::policies
