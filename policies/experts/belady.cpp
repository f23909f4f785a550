// Belady's rule: whose next request is farthest makes room; no policy that keeps what it loads misses less (Belady
// 1966). With `bypass` that may be the expert that was just asked for, and no policy at all misses less. It knows the
// trace. With `ahead` it knows so many tokens only, as a router that runs before the layers does
// (Read-ME, arXiv 2410.19123: the queue of tokens is routed before it is computed): of experts that these do not ask
// for the least recently used makes room. Of experts that are never asked for again the lowest number does.
#include <algorithm>
#include <tuple>

#include "policies/experts/expert_cache.hpp"

namespace orrery::policies {
namespace {

struct BeladyParams {
  std::int64_t ahead = 0;
  bool bypass = false;
  static constexpr auto fields() {
    using P = BeladyParams;
    return sim::FieldTable{
        sim::field("ahead", &P::ahead, sim::Unit::tokens, sim::at_least(0),
                   "Number of tokens after the present ones whose experts are known in advance; 0: all."),
        sim::field("bypass", &P::bypass, "Whether an expert may be used without being kept in fast memory.")};
  }
};

class Belady final : public ExpertCache {
 public:
  Belady(const BeladyParams& params, const ExpertCacheSetup& setup)
      : next_(next_requests(setup.future, setup.experts)),
        view_(params.ahead > 0 ? params.ahead * setup.top_k : kNever),
        top_k_(setup.top_k),
        bypass_(params.bypass),
        due_(static_cast<std::size_t>(setup.experts), kNever),
        last_(static_cast<std::size_t>(setup.experts), -1) {}
  bool bypasses() const override { return bypass_; }
  void ask(const ExpertRequest& request) override {
    const auto first = static_cast<std::size_t>(request.first);
    for (std::size_t i = 0; i < request.experts.size(); ++i) {
      due_[request.experts[i]] = next_[first + i];
      if (view_ < kNever) last_[request.experts[i]] = request.first + static_cast<std::int64_t>(i);
    }
    now_ = request.first + static_cast<std::int64_t>(request.experts.size()) - 1;
  }
  std::uint16_t evict(std::span<const std::uint16_t> experts) override {
    // Requests of tokens up to `ahead` after the present one's are known.
    const std::int64_t known = view_ < kNever ? (now_ / top_k_ + 1) * top_k_ + view_ : kNever;
    const auto key = [&](std::uint16_t e) {
      const bool seen = due_[e] < known;
      return std::tuple(seen ? due_[e] : kNever, seen ? 0 : -last_[e], -static_cast<std::int64_t>(e));
    };
    return *std::ranges::max_element(experts, {}, key);
  }

 private:
  std::vector<std::int64_t> next_;  // by request
  std::int64_t view_, top_k_;
  bool bypass_;
  std::vector<std::int64_t> due_, last_;  // by expert: its next request; its last one, where the view is limited
  std::int64_t now_ = -1;
};

}  // namespace

void add_belady_expert_cache(ExpertCacheRegistry& registry) {
  registry.add<BeladyParams>(
      "belady", "Belady's rule: the expert whose next request is farthest away is evicted. Knows the trace.",
      [](const BeladyParams& params, const ExpertCacheSetup& setup) {
        need_future(setup, "belady");
        return std::make_unique<Belady>(params, setup);
      });
}

}  // namespace orrery::policies
