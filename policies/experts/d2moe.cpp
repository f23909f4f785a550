// D2MoE's memory budget (card 19 of shared/systems/serving.md, algorithm 2): before a layer, what the layer before it
// used makes room, its high bits first, then its low ones; then what the layer before that used. Layers come in turn,
// so what was used last is needed last.
#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {
namespace {

class D2Moe final : public ExpertCache {
 public:
  explicit D2Moe(const ExpertCacheSetup& setup)
      : levels_(static_cast<std::size_t>(setup.levels)),
        a_layer_(static_cast<std::size_t>(setup.layer_experts > 0 ? setup.layer_experts : setup.experts)),
        asked_(static_cast<std::size_t>(setup.experts) / a_layer_ + 1, 0) {}

  void ask(const ExpertRequest& request) override {
    if (!request.experts.empty()) asked_[request.experts.front() / a_layer_] = ++requests_;
  }

  std::uint16_t evict(std::span<const std::uint16_t> experts) override {
    std::uint16_t gone = experts.front();
    for (const std::uint16_t e : experts)
      if (sooner(e, gone)) gone = e;
    return gone;
  }

 private:
  /// Whether one goes before another: of a layer that was asked later, of it more bits, of equals the lower number.
  bool sooner(std::uint16_t a, std::uint16_t b) const {
    const auto of_a = asked_[a / a_layer_], of_b = asked_[b / a_layer_];
    if (of_a != of_b) return of_a > of_b;
    return a % levels_ != b % levels_ ? a % levels_ > b % levels_ : a < b;
  }

  std::size_t levels_, a_layer_;
  std::vector<std::int64_t> asked_;  ///< by layer: the last request
  std::int64_t requests_ = 0;
};

}  // namespace

void add_d2moe_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<sim::NoParams>(
      "d2moe", "D2MoE: evicts from the layer that was used last, its high bits first, then its low bits.",
      [](const sim::NoParams&, const ExpertCacheSetup& setup) { return std::make_unique<D2Moe>(setup); });
}

}  // namespace orrery::policies
