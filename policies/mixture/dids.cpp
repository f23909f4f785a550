// DIDS: impact of a domain on each task in the output's distribution, by the Fisher information, times what the task
// has gained and may still gain, over the domain's present share (github.com/shiweijiezero/DIDS, mixture_DIDS.py).
//
// A small divergence 1/2 sum F (g_d - g_j)^2 is a large impact. `kernel` is what the shipped code has in its place,
// 1/2 sum F g_d g_j, of which a small value is a large impact too: it points away from the task.
#include <algorithm>

#include "policies/mixture/mixture.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {
namespace {

enum class Impact : std::uint8_t { divergence, kernel };
constexpr auto enum_names(Impact) {
  using enum Impact;
  return sim::names<Impact>({{"divergence", divergence}, {"kernel", kernel}});
}

struct DidsParams {
  Impact impact = Impact::divergence;
  bool diminishing = true;
  double kept = 0.2;
  std::int64_t potential_rounds = 5;
  static constexpr auto fields() {
    using sim::Unit;
    using D = DidsParams;
    return sim::FieldTable{
        sim::field("impact", &D::impact,
                   "Measure of how near a domain's gradient is to a task's: their divergence under the Fisher "
                   "information, or the published code's kernel."),
        sim::field("diminishing", &D::diminishing, "Whether the worth of a domain is divided by its present share."),
        sim::field("kept", &D::kept, Unit::ratio, sim::between(0, 1),
                   "Weight of the previous round's shares in the new ones."),
        sim::field("potential_rounds", &D::potential_rounds, Unit::count, sim::between(1, 1000),
                   "Number of rounds ahead to which a task's loss is extrapolated; extrapolation starts after as many "
                   "rounds.")};
  }
};

class DidsMixture final : public Mixture {
 public:
  explicit DidsMixture(const DidsParams& params) : params_(params) {}

  std::vector<double> shares(const MixtureView& view) override {
    const std::size_t domains = view.domains.size();
    std::vector<double> worth(domains, 0);
    for (std::size_t j = 0; j < view.tasks.size(); ++j) {
      const double gain = view.task_losses[j].size() < 2 ? 1 : gain_of(view.task_losses[j]);
      const std::vector<double> impact = impacts(view, j);
      for (std::size_t d = 0; d < domains; ++d) worth[d] += impact[d] * gain / static_cast<double>(view.tasks.size());
    }
    if (view.task_losses.empty() || view.task_losses.front().size() < 2) return normalised(std::move(worth));
    for (std::size_t d = 0; d < domains; ++d) {
      if (params_.diminishing) worth[d] /= std::max(view.shares[d], 1e-9);
      worth[d] = std::max(worth[d], 1e-7);
    }
    worth = normalised(std::move(worth));
    for (std::size_t d = 0; d < domains; ++d) worth[d] = params_.kept * view.shares[d] + (1 - params_.kept) * worth[d];
    return worth;
  }

 private:
  /// Last improvement, and what is left to come by the fit.
  double gain_of(const std::vector<double>& losses) const {
    const double last = losses[losses.size() - 2] - losses.back();
    if (std::ssize(losses) < params_.potential_rounds) return last + 1;
    const auto ahead = static_cast<double>(std::ssize(losses) - 1 + params_.potential_rounds);
    return last + losses.back() - fitted_decay(losses, ahead);
  }

  std::vector<double> impacts(const MixtureView& view, std::size_t task) const {
    std::vector<double> scores;
    for (const std::vector<double>& domain : view.domains) {
      double score = 0;
      for (std::size_t i = 0; i < domain.size(); ++i) {
        const double other = view.tasks[task][i];
        score += view.fisher[i] *
                 (params_.impact == Impact::divergence ? (domain[i] - other) * (domain[i] - other) : domain[i] * other);
      }
      scores.push_back(score / 2);
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    for (double& score : scores) score = most - score;
    return normalised(std::move(scores));
  }

  DidsParams params_;
};

}  // namespace

void add_dids_mixture(MixtureRegistry& registry) {
  registry.add<DidsParams>(
      "dids", "Shares follow a domain's impact on tasks, what the tasks may still gain, and its present share (DIDS).",
      [](const DidsParams& params) { return std::make_unique<DidsMixture>(params); });
}

}  // namespace orrery::policies
