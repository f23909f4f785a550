// Workload-balanced dispatch of Hexgen-Flow: of engines of unequal speed the one with the greatest
//     alpha x t_base / t_e - (1 - alpha) x W_e / W_base,
// where t_e is the time that the request takes at engine e with nobody beside it (its output as long as predicted) and
// W_e the sum of t_e over all that was given to e, divided by its weight. `base` is one engine; it gets the first
// request, and whatever comes while its W is 0. alpha weighs speed against balance.
//
// In the authors' code W_e is never reduced: work is balanced over the whole run. With `outstanding` a request counts
// until it has left the engine. Source: Hexgen-Flow (arXiv 2505.05286) and its public simulator.
#include <unordered_map>

#include "policies/routing/routing.hpp"

namespace orrery::policies {
namespace {

struct HexgenParams {
  double alpha = 0.3;
  bool outstanding = false;
  std::int64_t base = 0;
  std::int64_t output_tokens = 128;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("alpha", &HexgenParams::alpha, sim::Unit::ratio, sim::between(0, 1),
                   "Weight of a replica's speed for this request; the rest, up to 1, is the weight of balanced work."),
        sim::field("outstanding", &HexgenParams::outstanding,
                   "Whether only work that has not left a replica counts, in place of all that it was ever given."),
        sim::field("base", &HexgenParams::base, sim::Unit::none, sim::at_least(0),
                   "Number of the replica that others are compared with; if it cannot take the request, the first one "
                   "that can."),
        sim::field("output_tokens", &HexgenParams::output_tokens, sim::Unit::tokens, sim::at_least(1),
                   "Output tokens assumed for a request without a prediction.")};
  }
};

class HexgenRouter final : public Router {
 public:
  explicit HexgenRouter(const HexgenParams& params) : params_(params) {}

  std::size_t route(const RouteView& view) override {
    std::size_t base = 0;
    times_.clear();
    for (std::size_t i = 0; i < view.replicas.size(); ++i) {
      const ReplicaFacts& facts = view.replicas[i];
      if (facts.replica == params_.base) base = i;
      if (static_cast<std::size_t>(facts.replica) >= work_.size())
        work_.resize(static_cast<std::size_t>(facts.replica) + 1, 0);
      times_.push_back(time_at(facts, view.request));
    }
    const std::size_t best = work_at(view.replicas[base]) > 0 ? highest(view, base) : base;
    last_ = best;
    book(view, best, 1);
    return best;
  }
  void sent_elsewhere(const RouteView& view, std::size_t place) override {
    book(view, last_, -1);
    book(view, place, 1);
  }
  void left(std::int64_t request) override {
    const auto found = placed_.find(request);
    if (found == placed_.end()) return;
    work_[static_cast<std::size_t>(found->second.replica)] -= found->second.time_ps;
    placed_.erase(found);
  }

 private:
  struct Placed {
    std::int32_t replica;
    std::int64_t time_ps;
  };

  /// Adds the request's work to that of a place's replica, or takes it away again.
  void book(const RouteView& view, std::size_t place, int sign) {
    const std::int32_t replica = view.replicas[place].replica;
    work_[static_cast<std::size_t>(replica)] += sign * times_[place];
    if (params_.outstanding) placed_[view.request.id] = {replica, times_[place]};
  }

  /// Without a price all engines are alike but for their weights.
  std::int64_t time_at(const ReplicaFacts& facts, const RouteRequest& request) const {
    const std::int64_t output = request.predicted_tokens > 0 ? request.predicted_tokens : params_.output_tokens;
    if (facts.pricer == nullptr) return request.prefill_tokens + output;
    return std::max<std::int64_t>(1, alone_ps(*facts.pricer, request.prefill_tokens, request.ready_tokens, output));
  }
  double work_at(const ReplicaFacts& facts) const {
    return static_cast<double>(work_[static_cast<std::size_t>(facts.replica)]) / facts.weight;
  }
  std::size_t highest(const RouteView& view, std::size_t base) const {
    std::size_t best = 0;
    double most = 0;
    for (std::size_t i = 0; i < view.replicas.size(); ++i) {
      const double score = params_.alpha * static_cast<double>(times_[base]) / static_cast<double>(times_[i]) -
                           (1 - params_.alpha) * work_at(view.replicas[i]) / work_at(view.replicas[base]);
      if (i > 0 && score <= most) continue;
      most = score;
      best = i;
    }
    return best;
  }

  HexgenParams params_;
  std::vector<__int128> work_;                       // ps, by number of the replica
  std::vector<std::int64_t> times_;                  // of the request at hand, by place
  std::size_t last_ = 0;                             // where it was sent
  std::unordered_map<std::int64_t, Placed> placed_;  // by request; never walked
};

}  // namespace

void add_hexgen(RouterRegistry& registry) {
  registry.add<HexgenParams>(
      "hexgen", "Weighs the speed for the request against balanced work over unequal replicas (Hexgen-Flow).",
      [](const HexgenParams& params, sim::RandomStream) { return std::make_unique<HexgenRouter>(params); });
}

}  // namespace orrery::policies
