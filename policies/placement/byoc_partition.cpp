#include "policies/placement/byoc_partition.hpp"

#include <algorithm>
#include <numeric>

#include "policies/fusion/place.hpp"

namespace orrery::policies::byoc {
namespace {

std::int32_t region_of(const Regions& regions, std::int32_t unit) {
  return unit < 0 ? -1 : regions[at(unit)];
}

/// Distinct regions that read `value`, without the one that makes it; the host counts as -1.
std::vector<std::int32_t> foreign_readers(const Value& value, const Regions& regions) {
  const std::int32_t home = region_of(regions, value.maker);
  std::vector<std::int32_t> readers;
  for (const std::int32_t reader : value.readers) {
    const std::int32_t region = regions[at(reader)];
    if (region == home && home >= 0) continue;
    if (std::find(readers.begin(), readers.end(), region) == readers.end()) readers.push_back(region);
  }
  return readers;
}

/// Calls `copy(region, bytes)` for every tensor that enters or leaves a region.
template <class Copy>
void each_copy(const Problem& problem, const Regions& regions, Copy copy) {
  for (const Value& value : problem.values) {
    const std::vector<std::int32_t> readers = foreign_readers(value, regions);
    const std::int32_t home = region_of(regions, value.maker);
    if (home >= 0 && (value.result || !readers.empty())) copy(home, value.bytes);
    for (const std::int32_t region : readers)
      if (region >= 0) copy(region, value.bytes);
  }
}

/// Target of each region, by its number; regions are numbered below the count of units.
std::vector<std::int32_t> targets_of(const Problem& problem, const Regions& regions) {
  std::vector<std::int32_t> targets(problem.units.size(), -1);
  for (std::size_t i = 0; i < regions.size(); ++i)
    if (regions[i] >= 0) targets[at(regions[i])] = problem.units[i].target;
  return targets;
}

}  // namespace

Price price(const Problem& problem, const Regions& regions) {
  Price sum;
  const std::vector<std::int32_t> targets = targets_of(problem, regions);
  for (std::size_t i = 0; i < regions.size(); ++i)
    sum.latency_s += regions[i] < 0 ? problem.units[i].host_s : problem.units[i].target_s;
  for (const std::int32_t target : targets) {
    if (target < 0) continue;
    ++sum.regions;
    sum.latency_s += problem.targets[at(target)].call_s;
  }
  each_copy(problem, regions, [&](std::int32_t region, std::int64_t bytes) {
    ++sum.transfers;
    sum.bytes += bytes;
    sum.latency_s += problem.targets[at(targets[at(region)])].copy_s(bytes);
  });
  return sum;
}

RegionPrice region_price(const Problem& problem, const Regions& regions, std::int32_t region) {
  RegionPrice sum;
  std::int32_t target = -1;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (regions[i] != region) continue;
    target = problem.units[i].target;
    sum.host_s += problem.units[i].host_s;
    sum.target_s += problem.units[i].target_s;
  }
  if (target < 0) return sum;
  sum.target_s += problem.targets[at(target)].call_s;
  each_copy(problem, regions, [&](std::int32_t of, std::int64_t bytes) {
    if (of == region) sum.target_s += problem.targets[at(target)].copy_s(bytes);
  });
  return sum;
}

bool is_sound(const Problem& problem, const Regions& regions) {
  // Nodes: regions below the count of units, then units of the host. Kahn's count finds a cycle.
  const std::size_t n = problem.units.size();
  const auto node = [&](std::int32_t unit) { return regions[at(unit)] >= 0 ? at(regions[at(unit)]) : n + at(unit); };
  std::vector<std::vector<std::size_t>> next(2 * n);
  std::vector<std::int32_t> waits(2 * n, 0);
  for (const Value& value : problem.values) {
    if (value.maker < 0) continue;
    const std::size_t from = node(value.maker);
    for (const std::int32_t reader : value.readers) {
      const std::size_t to = node(reader);
      if (from == to) continue;
      next[from].push_back(to);
      ++waits[to];
    }
  }
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < 2 * n; ++i)
    if (waits[i] == 0) ready.push_back(i);
  std::size_t done = 0;
  for (; done < ready.size(); ++done) {
    const std::size_t now = ready[done];  // `ready` grows while it is read
    for (const std::size_t to : next[now])
      if (--waits[to] == 0) ready.push_back(to);
  }
  return done == 2 * n;
}

Regions offload_each(const Problem& problem) {
  Regions regions(problem.units.size(), -1);
  for (std::size_t i = 0; i < regions.size(); ++i)
    if (problem.units[i].target >= 0) regions[i] = static_cast<std::int32_t>(i);
  return regions;
}

Regions merge_adjacent(const Problem& problem, Regions regions) {
  for (const Value& value : problem.values) {
    if (value.maker < 0) continue;
    for (const std::int32_t reader : value.readers) {
      const std::int32_t from = regions[at(value.maker)], to = regions[at(reader)];
      if (from < 0 || to < 0 || from == to) continue;
      if (problem.units[at(value.maker)].target != problem.units[at(reader)].target) continue;
      Regions merged = regions;
      std::replace(merged.begin(), merged.end(), to, from);
      if (is_sound(problem, merged)) regions = std::move(merged);
    }
  }
  return regions;
}

Regions accept_by_cost(const Problem& problem, Regions regions, bool trim) {
  std::vector<std::int32_t> numbers(regions);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  for (const std::int32_t region : numbers) {
    if (region < 0) continue;
    // What the region costs beside leaving it to the host altogether.
    const auto excess = [&](const Regions& r) {
      const RegionPrice own = region_price(problem, r, region);
      return own.target_s - own.host_s;
    };
    double now = excess(regions);
    for (bool changed = trim; changed;) {
      changed = false;
      for (std::size_t i = 0; i < regions.size(); ++i) {
        if (regions[i] != region) continue;
        regions[i] = -1;
        const double without = excess(regions);
        if (without < now && is_sound(problem, regions)) {
          now = without;
          changed = true;
        } else {
          regions[i] = region;
        }
      }
    }
    if (now >= 0) std::replace(regions.begin(), regions.end(), region, -1);
  }
  return regions;
}

}  // namespace orrery::policies::byoc
