#include "experiments/experts/placement_trial.hpp"

#include <algorithm>
#include <numeric>

#include "traces/router/profile.hpp"

namespace orrery::experiments {
namespace {

std::vector<double> loads(const traces::RouterTrace& trace, std::size_t layer, std::int64_t first, std::int64_t last) {
  const std::vector<std::int64_t> counts = traces::expert_loads(trace, layer, first, last);
  return {counts.begin(), counts.end()};
}

}  // namespace

double PlacementJudgement::mean() const {
  return layers.empty() ? 0 : std::accumulate(layers.begin(), layers.end(), 0.0) / static_cast<double>(layers.size());
}

double PlacementJudgement::worst() const {
  return layers.empty() ? 0 : std::ranges::max(layers);
}

policies::ExpertPlacementView placement_view(const traces::RouterTrace& trace, TokenRange range) {
  policies::ExpertPlacementView view;
  for (std::size_t layer = 0; layer < trace.layers.size(); ++layer)
    view.loads.push_back(loads(trace, layer, range.first, range.last));
  return view;
}

PlacementJudgement judge_placement(const traces::RouterTrace& trace, TokenRange range, std::int64_t batch,
                                   const std::vector<policies::LayerPlacement>& placement, std::int64_t gpus) {
  PlacementJudgement out;
  const std::int64_t step = batch > 0 ? std::min(batch, range.last - range.first) : range.last - range.first;
  for (std::size_t layer = 0; layer < trace.layers.size(); ++layer) {
    double sum = 0, batches = 0;
    for (std::int64_t first = range.first; step > 0 && first + step <= range.last; first += step, ++batches)
      sum += traces::imbalance(policies::gpu_loads(placement[layer], loads(trace, layer, first, first + step), gpus));
    out.layers.push_back(batches > 0 ? sum / batches : 0);
  }
  return out;
}

}  // namespace orrery::experiments
