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

/// How often tokens chose expert a in a layer and b in the next.
std::vector<double> transitions(const traces::RouterTrace& trace, std::size_t layer, std::span<const double> times) {
  const auto experts = static_cast<std::size_t>(trace.experts);
  std::vector<double> out(experts * experts, 0);
  for (std::size_t token = 0; token < times.size(); ++token) {
    if (times[token] == 0) continue;
    const auto t = static_cast<std::int64_t>(token);
    for (const traces::ExpertId a : trace.choices(layer, t, t + 1))
      for (const traces::ExpertId b : trace.choices(layer + 1, t, t + 1)) out[a * experts + b] += times[token];
  }
  return out;
}

/// Once for each token of a range.
std::vector<double> once(const traces::RouterTrace& trace, TokenRange range) {
  std::vector<double> times(static_cast<std::size_t>(trace.tokens()), 0);
  std::fill(times.begin() + range.first, times.begin() + range.last, 1.0);
  return times;
}

/// Rows from each GPU to each between two layers, replicas sharing alike.
std::vector<double> exchanged(const std::vector<double>& transitions, const policies::LayerPlacement& from,
                              const policies::LayerPlacement& to, std::size_t experts, std::size_t gpus) {
  const auto shares = [&](const policies::LayerPlacement& placed) {
    std::vector<double> replicas(experts, 0), out(experts * gpus, 0);
    for (const std::int64_t e : placed.expert) ++replicas[static_cast<std::size_t>(e)];
    for (std::size_t s = 0; s < placed.expert.size(); ++s) {
      const auto e = static_cast<std::size_t>(placed.expert[s]);
      out[e * gpus + static_cast<std::size_t>(placed.gpu[s])] += 1 / replicas[e];
    }
    return out;
  };
  const std::vector<double> here = shares(from), there = shares(to);
  std::vector<double> out(gpus * gpus, 0);
  for (std::size_t a = 0; a < experts; ++a) {
    // What the experts of the next layer get of expert a, by the GPU that has them.
    std::vector<double> goes(gpus, 0);
    for (std::size_t b = 0; b < experts; ++b)
      for (std::size_t h = 0; h < gpus; ++h) goes[h] += transitions[a * experts + b] * there[b * gpus + h];
    for (std::size_t g = 0; g < gpus; ++g)
      for (std::size_t h = 0; h < gpus; ++h) out[g * gpus + h] += here[a * gpus + g] * goes[h];
  }
  return out;
}

}  // namespace

double PlacementJudgement::mean() const {
  return layers.empty() ? 0 : std::accumulate(layers.begin(), layers.end(), 0.0) / static_cast<double>(layers.size());
}

double PlacementJudgement::worst() const {
  return layers.empty() ? 0 : std::ranges::max(layers);
}

policies::ExpertPlacementView placement_view(const traces::RouterTrace& trace, TokenRange range) {
  return placement_view(trace, once(trace, range));
}

policies::ExpertPlacementView placement_view(const traces::RouterTrace& trace, std::span<const double> times) {
  policies::ExpertPlacementView view;
  for (std::size_t layer = 0; layer < trace.layers.size(); ++layer) {
    std::vector<double>& loads = view.loads.emplace_back(static_cast<std::size_t>(trace.experts), 0.0);
    for (std::size_t token = 0; token < times.size(); ++token) {
      if (times[token] == 0) continue;
      const auto t = static_cast<std::int64_t>(token);
      for (const traces::ExpertId expert : trace.choices(layer, t, t + 1)) loads[expert] += times[token];
    }
  }
  for (std::size_t layer = 0; layer + 1 < trace.layers.size(); ++layer)
    view.transitions.push_back(transitions(trace, layer, times));
  return view;
}

std::vector<double> layer_imbalances(const traces::RouterTrace& trace, TokenRange range, std::int64_t batch,
                                     const std::vector<policies::LayerPlacement>& placement, std::int64_t gpus) {
  std::vector<double> out;
  const std::int64_t step = batch > 0 ? std::min(batch, range.last - range.first) : range.last - range.first;
  for (std::size_t layer = 0; layer < trace.layers.size(); ++layer) {
    double sum = 0, batches = 0;
    for (std::int64_t first = range.first; step > 0 && first + step <= range.last; first += step, ++batches)
      sum += traces::imbalance(policies::gpu_loads(placement[layer], loads(trace, layer, first, first + step), gpus));
    out.push_back(batches > 0 ? sum / batches : 0);
  }
  return out;
}

PlacementJudgement judge_placement(const traces::RouterTrace& trace, TokenRange range, std::int64_t batch,
                                   const std::vector<policies::LayerPlacement>& placement, std::int64_t gpus) {
  PlacementJudgement out{.layers = layer_imbalances(trace, range, batch, placement, gpus)};
  const auto count = static_cast<std::size_t>(gpus);
  for (std::size_t layer = 0; gpus > 1 && layer + 1 < trace.layers.size(); ++layer) {
    const std::vector<double> rows = exchanged(transitions(trace, layer, once(trace, range)), placement[layer],
                                               placement[layer + 1], static_cast<std::size_t>(trace.experts), count);
    double most = 0, all = 0;
    for (std::size_t g = 0; g < count; ++g)
      for (std::size_t h = 0; h < count; ++h) {
        all += rows[g * count + h];
        if (g != h) most = std::max(most, rows[g * count + h]);
      }
    const double pair = all / static_cast<double>(count * count);
    out.exchange += pair > 0 ? most / pair / static_cast<double>(trace.layers.size() - 1) : 0;
  }
  return out;
}

}  // namespace orrery::experiments
