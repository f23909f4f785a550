#include "experiments/search/ranking.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace orrery::experiments::search {
namespace {

std::vector<std::size_t> indices(std::size_t n) {
  std::vector<std::size_t> all(n);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::size_t objectives_of(std::span<const Evaluation* const> all) {
  for (const Evaluation* evaluation : all)
    if (evaluation->ok()) return evaluation->objectives.size();
  return 1;
}

std::vector<std::size_t> ranks_of_one_objective(std::span<const Evaluation* const> all) {
  std::vector<std::size_t> order = indices(all.size()), ranks(all.size(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return better(*all[a], *all[b]); });
  for (std::size_t k = 1; k < order.size(); ++k)
    ranks[order[k]] = ranks[order[k - 1]] + (dominates(*all[order[k - 1]], *all[order[k]]) ? 1 : 0);
  return ranks;
}

std::vector<double> crowding(std::span<const Evaluation* const> all, const std::vector<std::size_t>& ranks) {
  std::vector<double> distance(all.size(), 0);
  for (std::size_t m = 0; m < objectives_of(all); ++m) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i]->ok()) order.push_back(i);
    const auto value = [&](std::size_t i) { return all[i]->objectives[m]; };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return ranks[a] != ranks[b] ? ranks[a] < ranks[b] : value(a) < value(b);
    });
    for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
      while (end < order.size() && ranks[order[end]] == ranks[order[first]]) ++end;
      const std::span tier(order.data() + first, end - first);
      const double range = value(tier.back()) - value(tier.front());
      distance[tier.front()] = distance[tier.back()] = std::numeric_limits<double>::infinity();
      for (std::size_t k = 1; k + 1 < tier.size(); ++k)
        distance[tier[k]] += range > 0 ? (value(tier[k + 1]) - value(tier[k - 1])) / range : 0;
    }
  }
  return distance;
}

}  // namespace

std::vector<std::vector<std::size_t>> domination_fronts(std::span<const Evaluation* const> all) {
  std::vector<std::vector<std::size_t>> beats(all.size()), fronts(1);
  std::vector<std::size_t> beaten_by(all.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const bool first = dominates(*all[i], *all[j]);
      if (!first && !dominates(*all[j], *all[i])) continue;
      beats[first ? i : j].push_back(first ? j : i);
      ++beaten_by[first ? j : i];
    }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (beaten_by[i] == 0) fronts[0].push_back(i);
  while (!fronts.back().empty()) {
    std::vector<std::size_t> next;
    for (const std::size_t i : fronts.back())
      for (const std::size_t j : beats[i])
        if (--beaten_by[j] == 0) next.push_back(j);
    fronts.push_back(std::move(next));
  }
  fronts.pop_back();
  return fronts;
}

std::vector<std::size_t> domination_ranks(std::span<const Evaluation* const> all) {
  if (objectives_of(all) == 1) return ranks_of_one_objective(all);
  std::vector<std::size_t> ranks(all.size(), 0);
  std::size_t rank = 0;
  for (const auto& front : domination_fronts(all)) {
    for (const std::size_t i : front) ranks[i] = rank;
    ++rank;
  }
  return ranks;
}

std::vector<std::size_t> best_first(std::span<const Evaluation* const> all) {
  const std::vector<std::size_t> ranks = domination_ranks(all);
  const std::vector<double> distance =
      objectives_of(all) > 1 ? crowding(all, ranks) : std::vector<double>(all.size(), 0);
  std::vector<std::size_t> order = indices(all.size());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ranks[a] != ranks[b] ? ranks[a] < ranks[b] : distance[a] > distance[b];
  });
  return order;
}

}  // namespace orrery::experiments::search
