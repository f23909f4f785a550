// MoETuner (arXiv 2502.06643): experts of each layer in clusters of even load, then clusters on GPUs so that the
// largest exchange of two GPUs between two layers is small, one cluster of a layer a GPU. Clusters may be unlike large.
// The paper's two integer programs are Gurobi's; here both are CBC's, or searched.
#include <fmt/format.h>

#include "policies/expert_placement/clusters.hpp"
#include "policies/expert_placement/expert_placement.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {
namespace {

enum class ClusterSolver : std::uint8_t { search, milp };
constexpr auto enum_names(ClusterSolver) {
  using enum ClusterSolver;
  return sim::names<ClusterSolver>({{"search", search}, {"milp", milp}});
}

struct MoeTunerParams {
  ClusterSolver solver = ClusterSolver::search;
  double seconds = 10, across = 9;
  static constexpr auto fields() {
    using P = MoeTunerParams;
    return sim::FieldTable{
        sim::field("solver", &P::solver,
                   "Solver of both assignments: a search, or, for a few GPUs, mixed-integer programs (CBC)."),
        sim::field("seconds", &P::seconds, sim::Unit::seconds, sim::between(0.1, 86400),
                   "Time limit for each program; there is one for each layer, and one for all layers."),
        sim::field("across", &P::across, sim::Unit::ratio, sim::between(1, 1e6),
                   "Cost of sending a row between nodes, relative to one inside a node.")};
  }
};

/// The second program has as many constraints as layers times the fourth power of GPUs.
constexpr std::int64_t kMostSolved = 8;

class MoeTuner final : public ExpertPlacement {
 public:
  explicit MoeTuner(const MoeTunerParams& params) : p_(params) {}

  std::vector<LayerPlacement> place(const ExpertPlacementView& view) const override {
    std::vector<Clusters> clusters;
    std::vector<std::vector<std::int64_t>> sizes;
    for (const std::vector<double>& loads : view.loads) {
      clusters.push_back(p_.solver == ClusterSolver::milp ? solve_clusters(loads, view.gpus, p_.seconds)
                                                          : search_clusters(loads, view.gpus));
      sizes.emplace_back(static_cast<std::size_t>(view.gpus), 0);
      for (const std::int64_t c : clusters.back()) ++sizes.back()[static_cast<std::size_t>(c)];
    }
    std::vector<std::vector<double>> exchanges;
    for (std::size_t l = 0; l < view.transitions.size(); ++l)
      exchanges.push_back(cluster_exchange(view.transitions[l], clusters[l], clusters[l + 1], view.gpus));
    const std::int64_t node = view.gpus / view.nodes;
    const auto gpu_of = p_.solver == ClusterSolver::milp
                            ? solve_assignment(exchanges, sizes, view.gpus, node, p_.across, p_.seconds)
                            : assign_clusters(exchanges, sizes, view.gpus, node, p_.across);
    std::vector<LayerPlacement> out;
    for (std::size_t l = 0; l < clusters.size(); ++l) {
      LayerPlacement layer;
      for (std::int64_t gpu = 0; gpu < view.gpus; ++gpu)
        for (std::size_t e = 0; e < clusters[l].size(); ++e)
          if (gpu_of[l][static_cast<std::size_t>(clusters[l][e])] == gpu) {
            layer.expert.push_back(static_cast<std::int64_t>(e));
            layer.gpu.push_back(gpu);
          }
      out.push_back(std::move(layer));
    }
    return out;
  }
  std::string obstacle(const ExpertPlacementView& view) const override {
    if (p_.solver == ClusterSolver::milp && view.gpus > kMostSolved)
      return fmt::format("moetuner.solver milp takes at most {} GPUs, got {}: take search", kMostSolved, view.gpus);
    return view.slots > view.experts() ? "moetuner keeps each expert once: no slots beyond one each" : std::string();
  }

 private:
  MoeTunerParams p_;
};

}  // namespace

void add_moetuner_expert_placement(ExpertPlacementRegistry& registry) {
  registry.add<MoeTunerParams>(
      "moetuner", "MoETuner: groups experts into clusters of even load, placed so that GPUs exchange little.",
      [](const MoeTunerParams& params) { return std::make_unique<MoeTuner>(params); });
}

}  // namespace orrery::policies
