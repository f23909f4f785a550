// Ring buffer: who was loaded first makes room (SE-MoE, Shen et al. 2022, keeps experts in a ring of slots).
#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {
namespace {

struct RingParams {
  static constexpr auto fields() { return sim::FieldTable<RingParams, 0>(); }
};

class Ring final : public RankedExpertCache {
 public:
  using RankedExpertCache::RankedExpertCache;
  void ask(const ExpertRequest&) override {}
  void loaded(std::uint16_t expert) override { worth_[expert] = ++loads_; }

 private:
  double loads_ = 0;
};

}  // namespace

void add_ring_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<RingParams>(
      "ring", "Ring buffer: the expert that was loaded first is evicted.",
      [](const RingParams&, const ExpertCacheSetup& setup) { return std::make_unique<Ring>(setup); });
}

}  // namespace orrery::policies
