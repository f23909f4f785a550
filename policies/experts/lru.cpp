// Least recently used: who was asked for longest ago makes room. Of experts that were last asked for together, the
// lowest number.
#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {
namespace {

struct LruParams {
  static constexpr auto fields() { return sim::FieldTable<LruParams, 0>(); }
};

class Lru final : public RankedExpertCache {
 public:
  using RankedExpertCache::RankedExpertCache;
  void ask(const ExpertRequest& request) override {
    now_ = static_cast<double>(request.first + 1);
    for (const std::uint16_t e : request.experts) worth_[e] = now_;
  }
  /// What is loaded ahead of its use counts as used.
  void loaded(std::uint16_t expert) override { worth_[expert] = now_; }

 private:
  double now_ = 0;
};

}  // namespace

void add_lru_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<LruParams>("lru", "Least recently used: the expert that was asked for longest ago is evicted.",
                          [](const LruParams&, const ExpertCacheSetup& setup) { return std::make_unique<Lru>(setup); });
}

}  // namespace orrery::policies
