// Experts of a layer in clusters whose loads are even, and clusters on GPUs that exchange little: MoETuner's two
// assignments (arXiv 2502.06643).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery::policies {

/// The cluster of each expert of a layer.
using Clusters = std::vector<std::int64_t>;

/// Sum over clusters of |load - mean|: what the first assignment minimises.
double cluster_error(const std::vector<double>& loads, const Clusters& clusters, std::int64_t count);

/// No cluster is empty. By search: from the packed start and some shuffled ones, an expert moves, two change places, or
/// (up to 32 experts) one and two do, as long as the error falls. Deterministic.
Clusters search_clusters(const std::vector<double>& loads, std::int64_t count);
/// By a mixed-integer program that CBC solves; the best found where `seconds` end first. Throws sim::ConfigError where
/// there is no CBC.
Clusters solve_clusters(const std::vector<double>& loads, std::int64_t count, double seconds);

/// Rows that go from each cluster of a layer to each of the next (count x count), from those of experts (E x E).
std::vector<double> cluster_exchange(const std::vector<double>& transitions, const Clusters& from, const Clusters& to,
                                     std::int64_t count);

/// What the second assignment minimises: sum over layers of the largest exchange of two GPUs, times `across` where they
/// stand in different nodes. `gpu_of[l][c]`: the GPU of cluster c of layer l.
double exchange_cost(const std::vector<std::vector<double>>& exchanges,
                     const std::vector<std::vector<std::int64_t>>& gpu_of, std::int64_t gpus, std::int64_t node_gpus,
                     double across);

/// Clusters on GPUs, one of each layer a GPU. Up to 5 GPUs the cost is the least there is, by dynamic programming over
/// a layer's labellings; of more, two clusters of a layer change places as long as it falls. Of equal cost they do as
/// long as GPUs hold more equally many experts over all layers (`sizes[l][c]`). Deterministic.
std::vector<std::vector<std::int64_t>> assign_clusters(const std::vector<std::vector<double>>& exchanges,
                                                       const std::vector<std::vector<std::int64_t>>& sizes,
                                                       std::int64_t gpus, std::int64_t node_gpus, double across);

/// The same by a mixed-integer program that CBC solves, the best of all: least exchange_cost(), of equal cost
/// the fewest experts on the GPU that has most over all layers. What a search finds where `seconds` end first and that
/// is no worse. Grows with layers x gpus^4: for a few GPUs. Throws sim::ConfigError where there is no CBC.
std::vector<std::vector<std::int64_t>> solve_assignment(const std::vector<std::vector<double>>& exchanges,
                                                        const std::vector<std::vector<std::int64_t>>& sizes,
                                                        std::int64_t gpus, std::int64_t node_gpus, double across,
                                                        double seconds);

}  // namespace orrery::policies
