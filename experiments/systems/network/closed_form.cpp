#include "experiments/systems/network/closed_form.hpp"

#include "hw/network/collective_closed_form.hpp"

namespace orrery::experiments::network {
namespace {

/// Ranks past which the check of an algorithm in which all send to all would take longer than anybody waits.
constexpr std::int64_t kMostPairwise = 8192;

template <class P>
hw::CollectiveAlgorithm value_of(const Job& job) {
  sim::Faults none;  // written by write_params
  return sim::parse_params<P>(job.algorithm.params, none);
}

std::optional<hw::CollectiveAlgorithm> algorithm_of(const Job& job) {
  const std::string& name = job.algorithm.name;
  if (name == "ring") return value_of<hw::RingParams>(job);
  if (name == "double_tree") return value_of<hw::DoubleTreeParams>(job);
  if (name == "halving_doubling") return value_of<hw::HalvingDoublingParams>(job);
  if (name == "direct") return value_of<hw::DirectParams>(job);
  if (name == "hierarchical") return value_of<hw::HierarchicalParams>(job);
  if (name == "in_network") return value_of<hw::InNetworkParams>(job);
  return std::nullopt;  // an algorithm of somebody else's
}

bool is_pairwise(const hw::CollectiveAlgorithm& algorithm) {
  if (const auto* levels = std::get_if<hw::HierarchicalParams>(&algorithm))
    return levels->inside == hw::LevelAlgorithm::direct || levels->across == hw::LevelAlgorithm::direct;
  return std::holds_alternative<hw::DirectParams>(algorithm);
}

}  // namespace

std::optional<double> closed_seconds(const Job& job, const hw::Topology& topology, hw::Routing& routing,
                                     double message_overhead_s) {
  const auto algorithm = algorithm_of(job);
  // The formulas hold for messages that follow each other on a connection.
  if (!algorithm || job.params.window != 1) return std::nullopt;
  if (job.ranks() > kMostPairwise && is_pairwise(*algorithm)) return std::nullopt;
  return hw::collective_on(*algorithm, job.spec, job.nodes, topology, routing, message_overhead_s, job.label);
}

}  // namespace orrery::experiments::network
