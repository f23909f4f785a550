// DoReMi (Xie et al., NeurIPS 2023): shares grow with a domain's loss above that of a reference model trained on even
// shares. It knows nothing of tasks.
#include <algorithm>

#include "policies/mixture/mixture.hpp"

namespace orrery::policies {
namespace {

struct DoremiParams {
  double rate = 1, floor = 1e-3;
  static constexpr auto fields() {
    using sim::Unit;
    using D = DoremiParams;
    return sim::FieldTable{sim::field("rate", &D::rate, Unit::none, sim::between(0, 1e6),
                                      "Step size of the exponentiated update of the shares."),
                           sim::field("floor", &D::floor, Unit::ratio, sim::between(0, 1),
                                      "Weight of the even shares that are mixed in.")};
  }
};

class DoremiMixture final : public Mixture {
 public:
  explicit DoremiMixture(const DoremiParams& params) : params_(params) {}
  std::vector<double> shares(const MixtureView& view) override {
    std::vector<double> excess;
    for (std::size_t d = 0; d < view.domain_losses.size(); ++d)
      excess.push_back(std::max(0.0, view.domain_losses[d] - view.reference_losses[d]));
    return exponentiated(view.shares, excess, params_.rate, params_.floor);
  }
  bool wants_gradients() const override { return false; }

 private:
  DoremiParams params_;
};

}  // namespace

void add_doremi_mixture(MixtureRegistry& registry) {
  registry.add<DoremiParams>("doremi", "Shares grow with a domain's loss above that of a reference model (DoReMi).",
                             [](const DoremiParams& params) { return std::make_unique<DoremiMixture>(params); });
}

}  // namespace orrery::policies
