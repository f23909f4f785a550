// A schedule refined from the gradient norms G_t of a training before (Defazio et al., arXiv 2310.07831, for SGD):
// w_t = G_t^-2, rate_t = w_t sum_{p > t} w_p / sum_p w_p, over its largest. Equal norms give the linear schedule.
#include <algorithm>

#include "policies/rate/rate.hpp"

namespace orrery::policies {
namespace {

class RefinedRate final : public RateSchedule {
 public:
  std::vector<double> rates(const RateView& view) const override {
    const auto steps = static_cast<std::size_t>(view.steps);
    std::vector<double> weights(steps, 1), rates(steps, 0);
    for (std::size_t t = 0; t < steps && t < view.norms.size(); ++t)
      weights[t] = 1 / std::max(1e-300, view.norms[t] * view.norms[t]);
    // The largest multiple is that of the first step where norms are equal: (T - 1) / T there, as 1 - t/T has it.
    double later = 0, sum = 0, largest = 0;
    for (const double weight : weights) sum += weight;
    for (std::size_t t = steps; t-- > 0; later += weights[t]) rates[t] = weights[t] * later / sum;
    for (const double rate : rates) largest = std::max(largest, rate);
    const double first = 1 - 1 / static_cast<double>(steps);
    for (double& rate : rates) rate = largest > 0 ? first * rate / largest : 0;
    return rates;
  }
  bool wants_norms() const override { return true; }
};

}  // namespace

void add_refined_rate(RateRegistry& registry) {
  registry.add<sim::NoParams>("refined", "Refined from the gradient norms of a training run with the linear schedule.",
                              [](const sim::NoParams&) { return std::make_unique<RefinedRate>(); });
}

}  // namespace orrery::policies
