// SLO-aware: predicts the time to first token at every replica from what is queued there and from the rate at which it
// prefilled lately,
//     predicted = (time waited so far) + (queued tokens + tokens of the request) / rate,
// and takes, of those within `headroom` x the target, the one with the fewest requests (their tokens come sooner);
// where none is within it, the one with the least prediction. A replica that has not been measured yet counts with the
// mean rate of the others.
#include "policies/routing/load.hpp"

namespace orrery::policies {
namespace {

struct SloAwareParams {
  std::optional<double> ttft_s;
  double headroom = 0.8;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("ttft", &SloAwareParams::ttft_s, sim::Unit::seconds, sim::positive(),
                                      "Target for the time to first token (TTFT); null: slo.ttft, or none without it."),
                           sim::field("headroom", &SloAwareParams::headroom, sim::Unit::ratio, sim::between(0.01, 10),
                                      "Most that a predicted TTFT may be, as a share of the target.")};
  }
};

class SloAware final : public Router {
 public:
  explicit SloAware(const SloAwareParams& params) : params_(params) {}
  std::size_t route(const RouteView& view) override {
    double rates = 0;
    std::int64_t measured = 0;
    for (const ReplicaFacts& facts : view.replicas) {
      if (facts.prefill_tokens_per_s <= 0) continue;
      rates += facts.prefill_tokens_per_s;
      ++measured;
    }
    // Without any measurement all are compared by tokens alone.
    const double mean = measured > 0 ? rates / static_cast<double>(measured) : 1e30;
    double target = -1;
    if (view.ttft_ps) target = static_cast<double>(*view.ttft_ps) * 1e-12;
    if (params_.ttft_s) target = *params_.ttft_s;
    const double waited =
        static_cast<double>((view.now - view.request.arrived).ticks) * static_cast<double>(view.ps_per_tick) * 1e-12;
    std::size_t best = 0;
    bool best_within = false;
    double best_key = 0;
    for (std::size_t i = 0; i < view.replicas.size(); ++i) {
      const ReplicaFacts& facts = view.replicas[i];
      const double rate = facts.prefill_tokens_per_s > 0 ? facts.prefill_tokens_per_s : mean;
      const std::int64_t tokens = facts.queued_tokens + view.request.prefill_tokens -
                                  std::min(view.request.ready_tokens, view.request.prefill_tokens);
      const double predicted = waited + static_cast<double>(tokens) / rate;
      const bool within = target > 0 && predicted <= params_.headroom * target;
      const double key = within ? load_of(facts, LoadOf::requests) : predicted;
      if (i > 0 && (within < best_within || (within == best_within && key >= best_key))) continue;
      best = i;
      best_within = within;
      best_key = key;
    }
    return best;
  }

 private:
  SloAwareParams params_;
};

}  // namespace

void add_slo_aware(RouterRegistry& registry) {
  registry.add<SloAwareParams>(
      "slo_aware", "A replica where the first token is predicted to come within its target.",
      [](const SloAwareParams& params, sim::RandomStream) { return std::make_unique<SloAware>(params); });
}

}  // namespace orrery::policies
