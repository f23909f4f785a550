#include "policies/expert_placement/clusters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/random.hpp"
#include "sim/milp.hpp"

namespace orrery::policies {
namespace {

constexpr std::size_t kFewExperts = 32;  ///< up to which more is tried
/// Starts of a search, the packed one included.
int starts(std::size_t experts) {
  return experts <= kFewExperts ? 64 : 12;
}

std::vector<double> cluster_loads(const std::vector<double>& loads, const Clusters& clusters, std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count), 0);
  for (std::size_t e = 0; e < loads.size(); ++e) out[static_cast<std::size_t>(clusters[e])] += loads[e];
  return out;
}

/// One search from one start.
class Descent {
 public:
  Descent(const std::vector<double>& loads, Clusters start, std::int64_t count)
      : loads_(loads), of_(std::move(start)), sums_(cluster_loads(loads, of_, count)), sizes_(sums_.size(), 0) {
    for (const std::int64_t c : of_) ++sizes_[static_cast<std::size_t>(c)];
    mean_ = std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(count);
  }

  Clusters run() {
    while (improve()) {
    }
    return std::move(of_);
  }

 private:
  double error(double load) const { return std::abs(load - mean_); }
  /// What the error changes by where `load` goes from cluster a to b.
  double change(std::size_t a, std::size_t b, double load) const {
    return error(sums_[a] - load) + error(sums_[b] + load) - error(sums_[a]) - error(sums_[b]);
  }
  void move(std::size_t e, std::size_t to) {
    const auto from = static_cast<std::size_t>(of_[e]);
    sums_[from] -= loads_[e];
    sums_[to] += loads_[e];
    --sizes_[from];
    ++sizes_[to];
    of_[e] = static_cast<std::int64_t>(to);
  }

  /// The first move or exchange that helps; says no if none does.
  bool improve() {
    const double enough = -1e-9 * (1 + mean_);
    for (std::size_t e = 0; e < loads_.size(); ++e) {
      const auto from = static_cast<std::size_t>(of_[e]);
      if (sizes_[from] > 1)
        for (std::size_t to = 0; to < sums_.size(); ++to)
          if (to != from && change(from, to, loads_[e]) < enough) return move(e, to), true;
      for (std::size_t f = e + 1; f < loads_.size(); ++f) {
        const auto other = static_cast<std::size_t>(of_[f]);
        if (other == from || change(from, other, loads_[e] - loads_[f]) >= enough) continue;
        move(e, other);
        move(f, from);
        return true;
      }
    }
    return loads_.size() <= kFewExperts && improve_by_two();
  }

  /// The first exchange of one expert for two of another cluster that helps.
  bool improve_by_two() {
    const double enough = -1e-9 * (1 + mean_);
    for (std::size_t e = 0; e < loads_.size(); ++e)
      for (std::size_t f = 0; f < loads_.size(); ++f)
        for (std::size_t g = f + 1; g < loads_.size(); ++g) {
          const auto here = static_cast<std::size_t>(of_[e]), there = static_cast<std::size_t>(of_[f]);
          if (there == here || of_[g] != of_[f] || change(here, there, loads_[e] - loads_[f] - loads_[g]) >= enough)
            continue;
          move(e, there);
          move(f, here);
          move(g, here);
          return true;
        }
    return false;
  }

  const std::vector<double>& loads_;
  Clusters of_;
  std::vector<double> sums_;
  std::vector<std::int64_t> sizes_;
  double mean_ = 0;
};

/// Falling loads, each to the lightest cluster; as many as there are clusters come first, so that none stays empty.
Clusters packed(const std::vector<double>& loads, std::int64_t count) {
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return loads[a] > loads[b]; });
  std::vector<double> sums(static_cast<std::size_t>(count), 0);
  Clusters out(loads.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t to =
        i < sums.size() ? i : static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin());
    out[order[i]] = static_cast<std::int64_t>(to);
    sums[to] += loads[order[i]];
  }
  return out;
}

}  // namespace

double cluster_error(const std::vector<double>& loads, const Clusters& clusters, std::int64_t count) {
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(count);
  double sum = 0;
  for (const double load : cluster_loads(loads, clusters, count)) sum += std::abs(load - mean);
  return sum;
}

Clusters search_clusters(const std::vector<double>& loads, std::int64_t count) {
  Clusters best = Descent(loads, packed(loads, count), count).run();
  double least = cluster_error(loads, best, count);
  sim::RandomStream random(1, "expert_placement/clusters");
  for (int start = 1; start < starts(loads.size()) && least > 0; ++start) {
    Clusters shuffled(loads.size());
    for (std::size_t e = 0; e < shuffled.size(); ++e) shuffled[e] = static_cast<std::int64_t>(e) % count;
    random.shuffle(std::span(shuffled));
    Clusters tried = Descent(loads, std::move(shuffled), count).run();
    const double error = cluster_error(loads, tried, count);
    if (error < least) least = error, best = std::move(tried);
  }
  return best;
}

Clusters solve_clusters(const std::vector<double>& loads, std::int64_t count, double seconds) {
  using sim::Milp;
  Milp program;
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(count);
  std::vector<std::vector<Milp::Variable>> in(loads.size());
  Milp::Terms objective;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    Milp::Terms once;
    for (std::int64_t c = 0; c < count; ++c) {
      in[e].push_back(program.add_variable(fmt::format("expert {} in cluster {}", e, c), Milp::Kind::binary, 0, 1));
      once.emplace_back(in[e].back(), 1.0);
    }
    program.add_constraint(fmt::format("expert {} once", e), once, Milp::Sense::equal, 1);
  }
  for (std::int64_t c = 0; c < count; ++c) {
    const Milp::Variable error = program.add_variable(fmt::format("error of cluster {}", c));
    objective.emplace_back(error, 1.0);
    Milp::Terms above{{error, -1.0}}, below{{error, 1.0}}, members;
    for (std::size_t e = 0; e < loads.size(); ++e) {
      const Milp::Variable member = in[e][static_cast<std::size_t>(c)];
      above.emplace_back(member, loads[e]);
      below.emplace_back(member, loads[e]);
      members.emplace_back(member, 1.0);
    }
    program.add_constraint(fmt::format("cluster {} above the mean", c), above, Milp::Sense::at_most, mean);
    program.add_constraint(fmt::format("cluster {} below the mean", c), below, Milp::Sense::at_least, mean);
    program.add_constraint(fmt::format("cluster {} not empty", c), members, Milp::Sense::at_least, 1);
  }
  program.minimise(objective);
  const Milp::Solution solution = program.solve(seconds);
  if (!solution.solved()) return search_clusters(loads, count);
  Clusters out(loads.size(), 0);
  for (std::size_t e = 0; e < loads.size(); ++e)
    for (std::int64_t c = 0; c < count; ++c)
      if (solution.values[in[e][static_cast<std::size_t>(c)]] > 0.5) out[e] = c;
  return out;
}

std::vector<double> cluster_exchange(const std::vector<double>& transitions, const Clusters& from, const Clusters& to,
                                     std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count * count), 0);
  const std::size_t experts = from.size();
  for (std::size_t a = 0; a < experts; ++a)
    for (std::size_t b = 0; b < experts; ++b)
      out[static_cast<std::size_t>(from[a] * count + to[b])] += transitions[a * experts + b];
  return out;
}

namespace {

/// The largest exchange of two GPUs between a layer and the next.
double largest(const std::vector<double>& exchange, const std::vector<std::int64_t>& from,
               const std::vector<std::int64_t>& to, std::int64_t gpus, std::int64_t node_gpus, double across) {
  const auto count = static_cast<std::size_t>(gpus);
  double most = 0;
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b) {
      if (from[a] == to[b]) continue;  // stays where it is
      const bool same_node = from[a] / node_gpus == to[b] / node_gpus;
      most = std::max(most, exchange[a * count + b] * (same_node ? 1 : across));
    }
  return most;
}

}  // namespace

double exchange_cost(const std::vector<std::vector<double>>& exchanges,
                     const std::vector<std::vector<std::int64_t>>& gpu_of, std::int64_t gpus, std::int64_t node_gpus,
                     double across) {
  double sum = 0;
  for (std::size_t l = 0; l < exchanges.size(); ++l)
    sum += largest(exchanges[l], gpu_of[l], gpu_of[l + 1], gpus, node_gpus, across);
  return sum;
}

namespace {

/// Up to so many GPUs all labellings of a layer are gone through (120).
constexpr std::int64_t kFewGpus = 5;

/// The labellings of least cost, layer after layer: what leads best to each labelling of a layer is kept (Viterbi).
std::vector<std::vector<std::int64_t>> best_labels(const std::vector<std::vector<double>>& exchanges, std::int64_t gpus,
                                                   std::int64_t node_gpus, double across) {
  std::vector<std::vector<std::int64_t>> labels(1, std::vector<std::int64_t>(static_cast<std::size_t>(gpus)));
  std::iota(labels.front().begin(), labels.front().end(), std::int64_t{0});
  while (true) {
    std::vector<std::int64_t> next = labels.back();
    if (!std::ranges::next_permutation(next).found) break;
    labels.push_back(std::move(next));
  }
  std::vector<double> cost(labels.size(), 0);
  std::vector<std::vector<std::size_t>> from;  // by layer but the first, labelling
  for (const std::vector<double>& exchange : exchanges) {
    std::vector<double> next(labels.size(), std::numeric_limits<double>::infinity());
    from.emplace_back(labels.size(), 0);
    for (std::size_t a = 0; a < labels.size(); ++a)
      for (std::size_t b = 0; b < labels.size(); ++b) {
        const double sum = cost[a] + largest(exchange, labels[a], labels[b], gpus, node_gpus, across);
        if (sum < next[b]) next[b] = sum, from.back()[b] = a;
      }
    cost = std::move(next);
  }
  auto at = static_cast<std::size_t>(std::ranges::min_element(cost) - cost.begin());
  std::vector<std::vector<std::int64_t>> out{labels[at]};
  for (std::size_t l = from.size(); l-- > 0;) out.push_back(labels[at = from[l][at]]);
  std::ranges::reverse(out);
  return out;
}

}  // namespace

std::vector<std::vector<std::int64_t>> assign_clusters(const std::vector<std::vector<double>>& exchanges,
                                                       const std::vector<std::vector<std::int64_t>>& sizes,
                                                       std::int64_t gpus, std::int64_t node_gpus, double across) {
  std::vector<std::int64_t> identity(static_cast<std::size_t>(gpus));
  std::iota(identity.begin(), identity.end(), std::int64_t{0});
  std::vector<std::vector<std::int64_t>> gpu_of(sizes.size(), identity);
  if (gpus <= kFewGpus && exchanges.size() + 1 == sizes.size())
    gpu_of = best_labels(exchanges, gpus, node_gpus, across);
  std::vector<std::int64_t> held(identity.size(), 0);
  for (std::size_t l = 0; l < sizes.size(); ++l)
    for (std::size_t c = 0; c < sizes[l].size(); ++c) held[static_cast<std::size_t>(gpu_of[l][c])] += sizes[l][c];
  const auto at = [&](std::size_t l) {
    return largest(exchanges[l], gpu_of[l], gpu_of[l + 1], gpus, node_gpus, across);
  };
  const auto around = [&](std::size_t l) { return (l > 0 ? at(l - 1) : 0) + (l < exchanges.size() ? at(l) : 0); };
  for (bool helped = true; helped;) {
    helped = false;
    for (std::size_t l = 0; l < sizes.size(); ++l)
      for (std::size_t a = 0; a < identity.size(); ++a)
        for (std::size_t b = a + 1; b < identity.size(); ++b) {
          const double before = around(l);
          auto &x = gpu_of[l][a], &y = gpu_of[l][b];
          const auto i = static_cast<std::size_t>(x), j = static_cast<std::size_t>(y);
          std::swap(x, y);
          const double after = around(l);
          const std::int64_t more = sizes[l][b] - sizes[l][a];  // that GPU i gets by the exchange
          const std::int64_t gap = held[i] - held[j];
          const bool evener = std::abs(gap + 2 * more) < std::abs(gap);
          if (after < before * (1 - 1e-12) || (after <= before && evener)) {
            held[i] += more;
            held[j] -= more;
            helped = true;
          } else {
            std::swap(x, y);
          }
        }
  }
  return gpu_of;
}

std::vector<std::vector<std::int64_t>> solve_assignment(const std::vector<std::vector<double>>& exchanges,
                                                        const std::vector<std::vector<std::int64_t>>& sizes,
                                                        std::int64_t gpus, std::int64_t node_gpus, double across,
                                                        double seconds) {
  using sim::Milp;
  const auto searched = assign_clusters(exchanges, sizes, gpus, node_gpus, across);
  const double found = exchange_cost(exchanges, searched, gpus, node_gpus, across);
  const auto count = static_cast<std::size_t>(gpus);
  Milp program;
  std::vector<std::vector<Milp::Variable>> on(sizes.size());  // by layer: cluster c on GPU g, at c * gpus + g
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    for (std::size_t c = 0; c < count; ++c)
      for (std::size_t g = 0; g < count; ++g)
        on[l].push_back(
            program.add_variable(fmt::format("layer {} cluster {} gpu {}", l, c, g), Milp::Kind::binary, 0, 1));
    for (std::size_t i = 0; i < count; ++i) {
      Milp::Terms cluster, gpu;
      for (std::size_t j = 0; j < count; ++j) {
        cluster.emplace_back(on[l][i * count + j], 1.0);
        gpu.emplace_back(on[l][j * count + i], 1.0);
      }
      program.add_constraint(fmt::format("layer {} cluster {} once", l, i), cluster, Milp::Sense::equal, 1);
      program.add_constraint(fmt::format("layer {} gpu {} once", l, i), gpu, Milp::Sense::equal, 1);
    }
  }
  Milp::Terms objective;
  double largest_sum = 0, scale = 1;
  for (std::size_t l = 0; l < exchanges.size(); ++l) {
    const Milp::Variable most = program.add_variable(fmt::format("exchange {}", l));
    objective.emplace_back(most, 1.0);
    largest_sum = std::max(largest_sum, std::ranges::max(exchanges[l]));
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b)
        for (std::size_t g = 0; g < count; ++g)
          for (std::size_t h = 0; h < count; ++h) {
            if (g == h || exchanges[l][a * count + b] == 0) continue;
            const auto same = static_cast<std::int64_t>(g) / node_gpus == static_cast<std::int64_t>(h) / node_gpus;
            const double cost = exchanges[l][a * count + b] * (same ? 1 : across);
            // Both clusters there: the exchange is at least the cost.
            program.add_constraint(fmt::format("layer {} from {} on {} to {} on {}", l, a, g, b, h),
                                   {{most, -1.0}, {on[l][a * count + g], cost}, {on[l + 1][b * count + h], cost}},
                                   Milp::Sense::at_most, cost);
          }
  }
  // Even memory decides among equals only.
  if (largest_sum > 0) scale = 1e-6 * largest_sum;
  const Milp::Variable held = program.add_variable("held");
  objective.emplace_back(held, scale);
  for (std::size_t g = 0; g < count; ++g) {
    Milp::Terms mine{{held, -1.0}};
    for (std::size_t l = 0; l < sizes.size(); ++l)
      for (std::size_t c = 0; c < count; ++c) mine.emplace_back(on[l][c * count + g], static_cast<double>(sizes[l][c]));
    program.add_constraint(fmt::format("held by {}", g), mine, Milp::Sense::at_most, 0);
  }
  program.minimise(objective);
  const Milp::Solution solution = program.solve(seconds);
  if (!solution.solved()) return searched;
  std::vector<std::vector<std::int64_t>> out(sizes.size(), std::vector<std::int64_t>(count, 0));
  for (std::size_t l = 0; l < sizes.size(); ++l)
    for (std::size_t i = 0; i < count * count; ++i)
      if (solution.values[on[l][i]] > 0.5) out[l][i / count] = static_cast<std::int64_t>(i % count);
  return exchange_cost(exchanges, out, gpus, node_gpus, across) <= found ? out : searched;
}

}  // namespace orrery::policies
