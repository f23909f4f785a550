// Proximity-score fusion as a pass: chains of kernels that always follow each other share a launch.
//
// Decides: kernels are numbered by kind and sizes in the order of launches, cut at copies to the host; the chains that
// policies/fusion/proximity.hpp recommends are marked as one launch each (attribute `stack`), which is what the score
// promises: launches are saved, work and bytes stay. Tells `chains`, `chains_fused`, and `ideal_launches`.
// Source: SKIP (arXiv 2504.11750).
#include "policies/fusion/proximity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "policies/base/graph_pass.hpp"
#include "policies/fusion/finish.hpp"
#include "policies/fusion/launch_graph.hpp"
#include "policies/fusion/marks.hpp"

namespace orrery::policies {
namespace {

struct ProximityParams {
  std::int64_t length = 8;
  double threshold = 1.0;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("length", &ProximityParams::length, sim::Unit::none, sim::at_least(2),
                                      "Number of kernels in a chain."),
                           sim::field("threshold", &ProximityParams::threshold, sim::Unit::ratio,
                                      sim::Range{.min = 0, .max = 1, .open_min = true},
                                      "Least proximity score of a chain: the share of its first kernel's launches that "
                                      "the rest of the chain follows.")};
  }
};

/// What two launches of one kernel have in common: kind, types and sizes; of a fused kernel those of all its ops and
/// who reads whose result. Names of tensors say nothing: each layer has its own.
std::string kernel_name(const models::OpGraph& graph, const models::OpNode& op) {
  std::string name(to_string(op.kind));
  for (const models::TensorId id : op.inputs) name += ' ' + models::shape_string(graph.tensor(id));
  for (const models::TensorId id : op.outputs) name += ' ' + models::shape_string(graph.tensor(id));
  if (op.kind != models::OpKind::fused) return name;
  const models::OpGraph& region = *op.regions.front();
  for (const models::OpId id : region.ops()) {
    const models::OpNode& inner = region.op(id);
    name += '(' + kernel_name(region, inner);
    for (const models::TensorId read : inner.inputs) name += fmt::format(" {}", static_cast<std::int32_t>(read));
    for (const models::TensorId made : inner.outputs) name += fmt::format(" {}", static_cast<std::int32_t>(made));
    name += ')';
  }
  return name;
}

class ProximityPass final : public GraphPass {
 public:
  explicit ProximityPass(const ProximityParams& params) : params_(params) {}

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    const LaunchGraph launches = launch_graph(graph);
    std::vector<std::string> names;
    std::vector<std::size_t> cuts;
    for (std::size_t unit = 0; unit < launches.size(); ++unit) {
      const models::OpNode& op = graph.op(launches.ops[unit]);
      names.push_back(kernel_name(graph, op));
      const bool syncs = op.kind == models::OpKind::to_host;
      if (syncs && unit + 1 < launches.size()) cuts.push_back(unit + 1);
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    const std::vector<std::uint32_t> kernels = number_kernels(views);
    const ProximityFusion found = proximity_fusion({kernels, cuts}, params_.length, params_.threshold);
    models::OpGraph marked = graph;
    for (std::size_t chain = 0; chain < found.fused.size(); ++chain)
      for (std::size_t i = 0; i < static_cast<std::size_t>(params_.length); ++i)
        marked.annotate(launches.ops[found.fused[chain] + i])
            .set(kStackMark, models::SymExpr(static_cast<std::int64_t>(chain)));
    report.tell("chains", static_cast<double>(found.chains.size()));
    report.tell("chains_fused", static_cast<double>(found.fused.size()));
    report.tell("ideal_launches", static_cast<double>(found.launches));
    tell_gains(graph, marked, context, report);
    return marked;
  }

 private:
  ProximityParams params_;
};

}  // namespace

void add_proximity_fusion(PassRegistry& registry) {
  registry.add<ProximityParams>("proximity_fusion",
                                "Chains of kernels that always follow each other share a launch (SKIP).",
                                [](const ProximityParams& params) { return std::make_unique<ProximityPass>(params); });
}

}  // namespace orrery::policies
