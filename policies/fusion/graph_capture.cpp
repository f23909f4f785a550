// Graph capture: kernels recorded once and launched by one call, as CUDA graphs are.
//
// Decides: maximal stretches of ops between what cannot be captured (copies to or from the host, communication unless
// `communication`, branches, loops whose trips depend on sizes) become one capture each, marked by attribute `capture`
// (policies/fusion/marks.hpp); `whole`: all or nothing. A captured graph has fixed sizes, so every size that was seen
// needs a capture of its own; what that costs the host is told, not charged: `capture_s` = sizes x kernels x (launch +
// node), `nodes`, `captures`, `sizes`. Work and bytes stay. Source: CUDA Programming Guide, 3.2.8.7 (CUDA Graphs).
#include <algorithm>

#include "policies/base/graph_pass.hpp"
#include "policies/fusion/finish.hpp"
#include "policies/fusion/launch_graph.hpp"
#include "policies/fusion/marks.hpp"

namespace orrery::policies {
namespace {

struct GraphCaptureParams {
  bool whole = false, communication = true;
  std::int64_t min_kernels = 2;
  double node_s = 2e-6;

  static constexpr auto fields() {
    using G = GraphCaptureParams;
    return sim::FieldTable{
        sim::field("whole", &G::whole,
                   "Whether to capture the whole graph or nothing, instead of every stretch that can be captured."),
        sim::field("communication", &G::communication,
                   "Whether communication between devices can be captured (NCCL's can)."),
        sim::field("min_kernels", &G::min_kernels, sim::Unit::none, sim::at_least(1),
                   "Fewest kernels that a capture may have."),
        sim::field("node_time", &G::node_s, sim::Unit::seconds, sim::at_least(0),
                   "Host time to instantiate a node of a captured graph; used only in the report.")};
  }
};

class GraphCapture final : public GraphPass {
 public:
  explicit GraphCapture(const GraphCaptureParams& params) : params_(params) {}

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    const LaunchGraph launches = launch_graph(graph);
    models::OpGraph captured = graph;
    std::vector<std::size_t> stretch;
    std::int64_t captures = 0, nodes = 0;
    const bool all = std::ranges::all_of(launches.ops, [&](models::OpId id) { return can_capture(graph.op(id)); });
    const auto close = [&] {
      if (static_cast<std::int64_t>(stretch.size()) >= params_.min_kernels && (all || !params_.whole)) {
        for (const std::size_t unit : stretch)
          captured.annotate(launches.ops[unit]).set(kCaptureMark, models::SymExpr(captures));
        ++captures;
        nodes += static_cast<std::int64_t>(stretch.size());
      }
      stretch.clear();
    };
    for (std::size_t unit = 0; unit < launches.size(); ++unit) {
      const models::OpNode& op = graph.op(launches.ops[unit]);
      if (!can_capture(op) || (!stretch.empty() && op.target != graph.op(launches.ops[stretch.front()]).target))
        close();
      if (can_capture(op)) stretch.push_back(unit);
    }
    close();
    const double sizes = static_cast<double>(different_sizes(context));
    report.tell("captures", static_cast<double>(captures));
    report.tell("nodes", static_cast<double>(nodes));
    report.tell("sizes", sizes);
    report.tell("capture_s", sizes * static_cast<double>(nodes) * (context.launch_s + params_.node_s));
    tell_gains(graph, captured, context, report);
    return captured;
  }

 private:
  bool can_capture(const models::OpNode& op) const {
    if (op.kind == models::OpKind::to_host || op.kind == models::OpKind::to_device) return false;
    if (op.kind == models::OpKind::branch) return false;
    if (op.kind == models::OpKind::loop) return op.expr("trips", 1).constant().has_value();
    return params_.communication || models::info(op.kind).pattern != models::Pattern::communication;
  }

  static std::size_t different_sizes(const PassContext& context) {
    std::vector<models::Bindings> sizes;
    for (const models::Bindings& seen : context.seen)
      if (std::ranges::find(sizes, seen) == sizes.end()) sizes.push_back(seen);
    return std::max<std::size_t>(1, sizes.size());
  }

  GraphCaptureParams params_;
};

}  // namespace

void add_graph_capture(PassRegistry& registry) {
  registry.add<GraphCaptureParams>(
      "graph_capture", "Runs of consecutive kernels are captured and launched by one call.",
      [](const GraphCaptureParams& params) { return std::make_unique<GraphCapture>(params); });
}

}  // namespace orrery::policies
