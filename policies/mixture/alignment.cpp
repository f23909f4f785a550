// DGA, dynamic gradient alignment (Fan et al., 2024): shares grow with how far a domain's gradient points the way of
// the tasks' mean gradient, by the cosine between them.
#include <cmath>

#include "policies/mixture/mixture.hpp"

namespace orrery::policies {
namespace {

struct AlignmentParams {
  double rate = 0.5, floor = 1e-3;
  static constexpr auto fields() {
    using sim::Unit;
    using A = AlignmentParams;
    return sim::FieldTable{sim::field("rate", &A::rate, Unit::none, sim::between(0, 1e6),
                                      "Step size of the exponentiated update of the shares."),
                           sim::field("floor", &A::floor, Unit::ratio, sim::between(0, 1),
                                      "Weight of the even shares that are mixed in.")};
  }
};

class AlignmentMixture final : public Mixture {
 public:
  explicit AlignmentMixture(const AlignmentParams& params) : params_(params) {}
  std::vector<double> shares(const MixtureView& view) override {
    std::vector<double> wanted(view.fisher.size(), 0), scores;
    for (const std::vector<double>& task : view.tasks)
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += task[i] / static_cast<double>(view.tasks.size());
    for (const std::vector<double>& domain : view.domains) {
      const double lengths = std::sqrt(dot(wanted, wanted) * dot(domain, domain));
      scores.push_back(lengths > 0 ? dot(domain, wanted) / lengths : 0);
    }
    return exponentiated(view.shares, scores, params_.rate, params_.floor);
  }

 private:
  AlignmentParams params_;
};

}  // namespace

void add_alignment_mixture(MixtureRegistry& registry) {
  registry.add<AlignmentParams>(
      "alignment", "Shares grow with the alignment of a domain's gradient with that of the tasks (DGA).",
      [](const AlignmentParams& params) { return std::make_unique<AlignmentMixture>(params); });
}

}  // namespace orrery::policies
