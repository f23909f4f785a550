// Prefix-aware: weighs how much of the prompt a replica has in its cache against how loaded it is, as the routers
// before SGLang, llm-d and Dynamo do. The replica with the greatest
//     prefix_weight x matched tokens / prompt tokens - load_weight x load / (mean load of all)
// is taken; without a match anywhere that is the least loaded.
#include "policies/routing/load.hpp"

namespace orrery::policies {
namespace {

struct PrefixAwareParams {
  double prefix_weight = 1;
  double load_weight = 0.5;
  LoadOf load = LoadOf::tokens;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("prefix_weight", &PrefixAwareParams::prefix_weight, sim::Unit::none, sim::at_least(0),
                   "Weight of the share of the prompt that is in the replica's prefix cache."),
        sim::field("load_weight", &PrefixAwareParams::load_weight, sim::Unit::none, sim::at_least(0),
                   "Weight of the replica's load, in multiples of the mean load of all replicas."),
        sim::field("load", &PrefixAwareParams::load, "What counts as load of a replica.")};
  }
};

class PrefixAware final : public Router {
 public:
  explicit PrefixAware(const PrefixAwareParams& params) : params_(params) {}
  std::size_t route(const RouteView& view) override {
    double sum = 0;
    for (const ReplicaFacts& facts : view.replicas) sum += load_of(facts, params_.load);
    const double mean = sum / static_cast<double>(view.replicas.size());
    const double per_load = mean > 0 ? params_.load_weight / mean : params_.load_weight;
    const bool named = view.request.text != nullptr && !view.request.text->empty();
    const auto prompt = static_cast<double>(std::max<std::int64_t>(1, view.request.prefill_tokens));
    std::size_t best = 0;
    double most = 0;
    for (std::size_t i = 0; i < view.replicas.size(); ++i) {
      const ReplicaFacts& facts = view.replicas[i];
      double score = -per_load * load_of(facts, params_.load);
      if (named) score += params_.prefix_weight * static_cast<double>(facts.match(*view.request.text)) / prompt;
      if (i > 0 && score <= most) continue;
      best = i;
      most = score;
    }
    return best;
  }
  bool reads_live() const override { return is_live(params_.load); }

 private:
  PrefixAwareParams params_;
};

}  // namespace

void add_prefix_aware(RouterRegistry& registry) {
  registry.add<PrefixAwareParams>(
      "prefix_aware", "The replica with most of the prompt in its prefix cache, weighed against its load.",
      [](const PrefixAwareParams& params, sim::RandomStream) { return std::make_unique<PrefixAware>(params); });
}

}  // namespace orrery::policies
