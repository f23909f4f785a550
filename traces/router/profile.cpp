#include "traces/router/profile.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/math.hpp"

namespace orrery::traces {
namespace {

double d(std::int64_t value) {
  return static_cast<double>(value);
}

}  // namespace

double reuse(const RouterTrace& trace, std::size_t layer, std::int64_t lag) {
  std::vector<std::int64_t> last(static_cast<std::size_t>(trace.experts), -1);
  std::int64_t again = 0;
  const std::int64_t tokens = trace.tokens();
  // Marks each expert with the token that chose it `lag` before: a ring of tokens is not needed, since marks are set
  // in the order of tokens, just before they are looked at.
  for (std::int64_t t = 0; t + lag < tokens; ++t) {
    for (const ExpertId e : trace.choices(layer, t, t + 1)) last[e] = t;
    for (const ExpertId e : trace.choices(layer, t + lag, t + lag + 1)) again += last[e] == t ? 1 : 0;
  }
  return tokens > lag ? d(again) / d((tokens - lag) * trace.top_k) : 0;
}

std::vector<std::int64_t> expert_loads(const RouterTrace& trace, std::size_t layer, std::int64_t first,
                                       std::int64_t last) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(trace.experts), 0);
  for (const ExpertId e : trace.choices(layer, first, last)) ++loads[e];
  return loads;
}

double reuse_by_chance(const RouterTrace& trace, std::size_t layer) {
  double squares = 0, sum = 0;
  for (const std::int64_t n : expert_loads(trace, layer, 0, trace.tokens())) {
    const double p = d(n) / d(trace.tokens());
    squares += p * p;
    sum += p;
  }
  return squares / sum;
}

double segment_predictability(const RouterTrace& trace, std::size_t layer, std::int64_t m) {
  // windows[f]: pairs of an expert and a window that chooses it f times.
  std::vector<std::int64_t> windows(static_cast<std::size_t>(m + 1), 0);
  std::vector<std::int64_t> times(static_cast<std::size_t>(trace.experts));
  for (std::int64_t t = 0; t < trace.tokens(); ++t) {
    for (const ExpertId e : trace.choices(layer, t, t + 1)) ++times[e];
    if (t >= m)
      for (const ExpertId e : trace.choices(layer, t - m, t - m + 1)) --times[e];
    if (t + 1 < m) continue;
    for (const std::int64_t f : times) ++windows[static_cast<std::size_t>(f)];
  }
  double hits = 0, false_hits = 0, all = 0, best = 0;
  for (std::int64_t f = 1; f <= m; ++f) all += d(f) * d(windows[static_cast<std::size_t>(f)]);
  for (std::int64_t threshold = m; threshold >= 0; --threshold) {
    const double count = d(windows[static_cast<std::size_t>(threshold)]);
    hits += d(threshold) * count;
    false_hits += d(m - threshold) * count;
    if (hits > 0) best = std::max(best, 2 * hits / (2 * hits + false_hits + (all - hits)));
  }
  return best;
}

std::int64_t experts_for_share(const std::vector<std::int64_t>& loads, double share) {
  std::vector<std::int64_t> sorted = loads;
  std::ranges::sort(sorted, std::greater{});
  const std::int64_t all = std::accumulate(sorted.begin(), sorted.end(), std::int64_t{0});
  std::int64_t sum = 0, count = 0;
  for (const std::int64_t n : sorted) {
    if (d(sum) >= share * d(all)) break;
    sum += n;
    ++count;
  }
  return count;
}

double union_of_consecutive(const RouterTrace& trace, std::size_t layer, std::int64_t tokens) {
  std::vector<std::int64_t> seen(static_cast<std::size_t>(trace.experts), -1);
  std::int64_t found = 0, pieces = 0;
  for (std::int64_t first = 0; first + tokens <= trace.tokens(); first += tokens, ++pieces)
    for (const ExpertId e : trace.choices(layer, first, first + tokens))
      if (seen[e] != pieces) seen[e] = pieces, ++found;
  return pieces > 0 ? d(found) / d(pieces * trace.experts) : 0;
}

double union_of_random(const RouterTrace& trace, std::size_t layer, std::int64_t tokens) {
  const std::int64_t all = trace.tokens();
  if (tokens > all) return 0;
  double sum = 0;
  for (const std::int64_t n : expert_loads(trace, layer, 0, all)) {
    double missed = 1;
    for (std::int64_t i = 0; i < tokens && missed > 0; ++i) missed *= std::max(0.0, d(all - n - i)) / d(all - i);
    sum += 1 - missed;
  }
  return sum / d(trace.experts);
}

double imbalance(const std::vector<double>& loads) {
  if (loads.empty()) return 0;
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size());
  return mean > 0 ? (std::ranges::max(loads) - mean) / mean : 0;
}

RouterProfile profile_router(const RouterTrace& trace, std::size_t layer) {
  RouterProfile out;
  out.layer = trace.layers[layer].layer;
  const std::vector<std::int64_t> loads = expert_loads(trace, layer, 0, trace.tokens());
  out.reuse_1 = reuse(trace, layer, 1);
  out.reuse_4 = reuse(trace, layer, 4);
  out.reuse_8 = reuse(trace, layer, 8);
  out.reuse_32 = reuse(trace, layer, 32);
  out.by_chance = reuse_by_chance(trace, layer);
  out.srp_4 = segment_predictability(trace, layer, 4);
  out.srp_16 = segment_predictability(trace, layer, 16);
  out.srp_64 = segment_predictability(trace, layer, 64);
  out.union_8 = union_of_consecutive(trace, layer, 8);
  out.union_32 = union_of_consecutive(trace, layer, 32);
  out.union_128 = union_of_consecutive(trace, layer, 128);
  out.random_8 = union_of_random(trace, layer, 8);
  out.random_32 = union_of_random(trace, layer, 32);
  out.random_128 = union_of_random(trace, layer, 128);
  out.busiest = d(std::ranges::max(loads)) * d(trace.experts) / d(trace.tokens() * trace.top_k);
  out.for_95 = experts_for_share(loads, 0.95);
  out.for_99 = experts_for_share(loads, 0.99);
  return out;
}

}  // namespace orrery::traces
