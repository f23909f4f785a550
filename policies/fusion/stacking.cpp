// Stacking: kernels that stay apart but go to the device in one launch.
//
// Decides: consecutive kernels (fused ones too) become leaves of one stacked launch, marked by attribute `stack`
// (policies/fusion/marks.hpp). `sequence`: leaves may depend on each other, one runs after another, their data goes
// through memory; `parallel`: only leaves that do not depend on each other, which run on cores of their own. Launches
// are saved, bytes and work stay. A leaf is what DVM knows: passes, reductions and products;
// whatever is opaque, communicates or has control flow ends a stack. Source: DVM (arXiv 2603.24239),
// tutorial of its code, section 4. Left out: the overlap of parallel leaves in time; a leaf costs what its kernel
// costs.
#include <algorithm>

#include "policies/base/graph_pass.hpp"
#include "policies/fusion/finish.hpp"
#include "policies/fusion/launch_graph.hpp"
#include "policies/fusion/marks.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {
namespace {

enum class StackForm : std::uint8_t { parallel, sequence };
constexpr auto enum_names(StackForm) {
  using enum StackForm;
  return sim::names<StackForm>({{"parallel", parallel}, {"sequence", sequence}});
}

struct StackingParams {
  StackForm form = StackForm::sequence;
  std::int64_t max_leaves = 16;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field(
            "form", &StackingParams::form,
            "Which kernels may share a launch: consecutive ones (sequence), or only independent ones (parallel)."),
        sim::field("max_leaves", &StackingParams::max_leaves, sim::Unit::none, sim::at_least(1),
                   "Most kernels in a launch.")};
  }
};

bool is_leaf(const models::OpNode& op) {
  if (op.kind == models::OpKind::fused) return true;
  const models::Pattern pattern = models::info(op.kind).pattern;
  return pattern == models::Pattern::elementwise || pattern == models::Pattern::injective ||
         pattern == models::Pattern::reduction || pattern == models::Pattern::matrix;
}

class Stacking final : public GraphPass {
 public:
  explicit Stacking(const StackingParams& params) : params_(params) {}

  models::OpGraph run(const models::OpGraph& graph, const PassContext& context, PassReport& report) const override {
    const LaunchGraph launches = launch_graph(graph);
    models::OpGraph stacked = graph;
    std::int64_t stacks = 0, parallel = 0;
    std::int32_t first = 0;
    bool dependent = false;
    const auto close = [&](std::int32_t end) {
      if (end - first > 1) {
        for (std::int32_t unit = first; unit < end; ++unit) {
          models::OpNode& op = stacked.annotate(launches.ops[static_cast<std::size_t>(unit)]);
          op.set(kStackMark, models::SymExpr(stacks));
          op.set("stack_form", std::string(dependent ? "sequence" : "parallel"));
        }
        ++stacks;
        parallel += dependent ? 0 : 1;
      }
      first = end;
      dependent = false;
    };
    for (std::int32_t unit = 0; unit < static_cast<std::int32_t>(launches.size()); ++unit) {
      const models::OpNode& op = graph.op(launches.ops[static_cast<std::size_t>(unit)]);
      const bool reads = std::ranges::any_of(launches.in(static_cast<std::size_t>(unit)),
                                             [&](const LaunchEdge& edge) { return edge.from >= first; });
      const bool full = unit - first >= params_.max_leaves;
      const bool other = unit > first && op.target != graph.op(launches.ops[static_cast<std::size_t>(first)]).target;
      if (!is_leaf(op) || full || other || (reads && params_.form == StackForm::parallel)) {
        close(unit);
        if (!is_leaf(op)) first = unit + 1;
      } else {
        dependent |= reads;
      }
    }
    close(static_cast<std::int32_t>(launches.size()));
    report.tell("stacks", static_cast<double>(stacks));
    report.tell("parallel", static_cast<double>(parallel));
    tell_gains(graph, stacked, context, report);
    return stacked;
  }

 private:
  StackingParams params_;
};

}  // namespace

void add_stacking(PassRegistry& registry) {
  registry.add<StackingParams>("stacking",
                               "Consecutive kernels share a launch, with their data passing through memory (DVM).",
                               [](const StackingParams& params) { return std::make_unique<Stacking>(params); });
}

}  // namespace orrery::policies
