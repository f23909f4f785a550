// A fixed set: the experts that are most frequent in a profile stay, the others pass through. The profile is the first
// tokens of the run itself.
#include <algorithm>
#include <stdexcept>

#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {
namespace {

struct StaticParams {
  std::int64_t profile = 1600;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("profile", &StaticParams::profile, sim::Unit::tokens, sim::at_least(1),
                                      "Tokens of the run whose most frequent experts stay.")};
  }
};

class Static final : public ExpertCache {
 public:
  Static(const StaticParams& params, const ExpertCacheSetup& setup)
      : set_(by_frequency(
            setup.future.first(std::min(setup.future.size(), static_cast<std::size_t>(params.profile * setup.top_k))),
            setup.experts)) {
    set_.resize(static_cast<std::size_t>(setup.slots));
  }
  void ask(const ExpertRequest&) override {}
  std::uint16_t evict(std::span<const std::uint16_t>) override {
    throw std::logic_error("a fixed set of experts evicts nobody");
  }
  std::vector<std::uint16_t> initial() const override { return set_; }
  bool admits(std::uint16_t) const override { return false; }

 private:
  std::vector<std::uint16_t> set_;
};

}  // namespace

void add_static_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<StaticParams>("static", "A fixed set: the most frequent experts of the first tokens stay.",
                             [](const StaticParams& params, const ExpertCacheSetup& setup) {
                               need_future(setup, "static");
                               return std::make_unique<Static>(params, setup);
                             });
}

}  // namespace orrery::policies
