#include "policies/expert_placement/expert_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace orrery::policies {

std::string placement_obstacle(const ExpertPlacementView& view) {
  const std::int64_t experts = view.experts();
  if (view.gpus < 1 || view.nodes < 1 || view.gpus % view.nodes != 0)
    return fmt::format("{} GPUs do not share out over {} nodes", view.gpus, view.nodes);
  if (view.slots < experts) return fmt::format("an expert nobody holds: {} slots for {} experts", view.slots, experts);
  if (view.slots % view.gpus != 0) return fmt::format("{} slots do not share out over {} GPUs", view.slots, view.gpus);
  if (view.groups < 1 || experts % view.groups != 0)
    return fmt::format("{} experts do not share out over {} groups", experts, view.groups);
  return {};
}

std::vector<double> gpu_loads(const LayerPlacement& placement, const std::vector<double>& loads, std::int64_t gpus) {
  std::vector<double> replicas(loads.size(), 0);
  for (const std::int64_t e : placement.expert) ++replicas[static_cast<std::size_t>(e)];
  std::vector<double> out(static_cast<std::size_t>(gpus), 0);
  for (std::size_t slot = 0; slot < placement.expert.size(); ++slot) {
    const auto e = static_cast<std::size_t>(placement.expert[slot]);
    out[static_cast<std::size_t>(placement.gpu[slot])] += loads[e] / replicas[e];
  }
  return out;
}

LayerPlacement even_slots(std::vector<std::int64_t> experts, std::int64_t gpus) {
  const std::int64_t each = static_cast<std::int64_t>(experts.size()) / gpus;
  LayerPlacement out{std::move(experts), {}};
  for (std::size_t slot = 0; slot < out.expert.size(); ++slot)
    out.gpu.push_back(static_cast<std::int64_t>(slot) / each);
  return out;
}

Packed pack_evenly(const std::vector<double>& weights, std::int64_t packs) {
  const std::size_t items = weights.size(), count = static_cast<std::size_t>(packs), room = items / count;
  Packed out{std::vector<std::int64_t>(items), std::vector<std::int64_t>(items, 0)};
  std::vector<std::size_t> order(items);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (room > 1) std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  std::vector<double> load(count, 0);
  std::vector<std::size_t> filled(count, 0);
  for (std::size_t i = 0; i < items; ++i) {
    // Packs of one item each take them as they come: there is nothing to even out.
    std::size_t best = room > 1 ? count : i;
    for (std::size_t p = 0; p < count && room > 1; ++p)
      if (filled[p] < room && (best == count || load[p] < load[best])) best = p;
    out.pack[order[i]] = static_cast<std::int64_t>(best);
    out.place[order[i]] = static_cast<std::int64_t>(filled[best]++);
    load[best] += weights[order[i]];
  }
  return out;
}

}  // namespace orrery::policies
