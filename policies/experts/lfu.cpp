// Least frequently used: who was asked for least often makes room, of equals the lowest number. Requests count for
// good, of experts that were evicted too; the present one counts before anybody makes room.
#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {
namespace {

struct LfuParams {
  static constexpr auto fields() { return sim::FieldTable<LfuParams, 0>(); }
};

class Lfu final : public RankedExpertCache {
 public:
  using RankedExpertCache::RankedExpertCache;
  void ask(const ExpertRequest& request) override {
    for (const std::uint16_t e : request.experts) ++worth_[e];
  }
};

}  // namespace

void add_lfu_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<LfuParams>("lfu", "Least frequently used: the expert that was asked for least often is evicted.",
                          [](const LfuParams&, const ExpertCacheSetup& setup) { return std::make_unique<Lfu>(setup); });
}

}  // namespace orrery::policies
