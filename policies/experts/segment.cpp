// Segment cache (SCH of "Not All Models Suit Expert Offloading", arXiv 2505.16056): who is asked for least often by the
// next `tokens` tokens makes room. It knows the trace: a bound on what caches that follow a segment's habits reach.
#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {
namespace {

struct SegmentParams {
  std::int64_t tokens = 16;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("tokens", &SegmentParams::tokens, sim::Unit::tokens, sim::at_least(1),
                                      "Number of tokens after the present ones that count.")};
  }
};

class Segment final : public RankedExpertCache {
 public:
  Segment(const SegmentParams& params, const ExpertCacheSetup& setup)
      : RankedExpertCache(setup), future_(setup.future), top_k_(setup.top_k), tokens_(params.tokens) {}
  void ask(const ExpertRequest& request) override {
    // The window is that behind the token (of several, the last) that asks.
    const std::int64_t last = request.first + static_cast<std::int64_t>(request.experts.size()) - 1;
    const std::int64_t begin = (last / top_k_ + 1) * top_k_, end = begin + tokens_ * top_k_;
    for (; end_ < end && end_ < static_cast<std::int64_t>(future_.size()); ++end_) ++worth_[expert(end_)];
    for (; begin_ < begin; ++begin_) --worth_[expert(begin_)];
  }

 private:
  std::uint16_t expert(std::int64_t request) const { return future_[static_cast<std::size_t>(request)]; }
  std::span<const std::uint16_t> future_;
  std::int64_t top_k_, tokens_;
  std::int64_t begin_ = 0, end_ = 0;  // requests that worth_ counts
};

}  // namespace

void add_segment_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<SegmentParams>("segment",
                              "SCH: the expert that the next few tokens use least is evicted. Knows the trace.",
                              [](const SegmentParams& params, const ExpertCacheSetup& setup) {
                                need_future(setup, "segment");
                                return std::make_unique<Segment>(params, setup);
                              });
}

}  // namespace orrery::policies
