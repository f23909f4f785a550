// Step fusion: several steps of a simulator in one launch, state on chip in between.
//
// Decides: ops of scopes "<prefix>.0", "<prefix>.1", … are steps; `steps` consecutive ones become one kernel. A thread
// takes an environment, so what it carries from a step to the next must fit what a thread has: `thread_bytes` of
// registers, or its share of on-chip memory where few threads are left (`lanes` on each of the device's `scratch_bytes`
// would be less than a warp's worth of work, so the share is scratch / lanes). State that does not fit stays in memory:
// then no steps are joined. A launch of K steps reads and writes the state once and costs one launch, so both fall by
// K; results that a step hands out (`collect`) are written as before. Source: Gleeson et al., arXiv 2207.07736 (card
// 25). Left out: registers of temporaries within a step, the latency of a thread's dependent steps (few environments).
#include <algorithm>
#include <charconv>
#include <map>

#include "policies/base/graph_pass.hpp"
#include "policies/fusion/finish.hpp"

namespace orrery::policies {
namespace {

using models::OpGraph;
using models::OpId;
using models::TensorId;

struct StepFusionParams {
  std::int64_t steps = 8, thread_bytes = 1020, lanes = 0;
  std::string prefix = "step";

  static constexpr auto fields() {
    using S = StepFusionParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("steps", &S::steps, Unit::count, sim::between(1, 1 << 14), "Number of steps in a launch."),
        sim::field(
            "thread_bytes", &S::thread_bytes, Unit::count, sim::at_least(0),
            "Register bytes of a thread: 255 registers of 4 bytes from Kepler to Blackwell (CUDA programming guide)."),
        sim::field("lanes", &S::lanes, Unit::count, sim::at_least(0),
                   "Number of threads that share the on-chip memory for state that does not fit registers; 0: only "
                   "registers are used."),
        sim::field("prefix", &S::prefix, Unit::text, sim::any_value(), "Prefix of the scopes of steps."),
    };
  }
};

/// Number of the step that a scope says; -1 for ops that belong to none.
std::int64_t step_of(std::string_view scope, std::string_view prefix) {
  if (!scope.starts_with(prefix) || scope.size() <= prefix.size() || scope[prefix.size()] != '.') return -1;
  scope.remove_prefix(prefix.size() + 1);
  std::int64_t step = -1;
  const auto end = std::from_chars(scope.data(), scope.data() + scope.size(), step);
  return end.ec == std::errc() ? step : -1;
}

/// Bytes that an element of the first axis takes of what steps hand on: the most over all cuts between steps.
std::int64_t carried_bytes(const OpGraph& graph, const std::vector<std::int64_t>& step, const models::Bindings& sizes) {
  std::map<std::int64_t, std::int64_t> change;  // at a cut before step k
  std::vector<std::int64_t> last(graph.tensor_count(), -1);
  for (const OpId id : graph.ops())
    for (const TensorId input : graph.op(id).inputs) {
      std::int64_t& reader = last[index(models::storage_of(graph, input))];
      reader = std::max(reader, step[index(id)]);
    }
  for (const TensorId id : graph.tensors()) {
    const auto maker = graph.producer(id);
    if (!maker || models::launches_nothing(graph.op(*maker))) continue;
    const std::int64_t made = step[index(*maker)], read = last[index(id)];
    if (made < 0 || read <= made) continue;
    const std::vector<std::int64_t> dims = models::sizes(graph, id, sizes);
    const std::int64_t elements = dims.empty() ? 1 : std::max<std::int64_t>(1, dims.front());
    const std::int64_t bytes = (models::bytes_of(graph, id, sizes) + elements - 1) / elements;
    change[made + 1] += bytes;
    change[read + 1] -= bytes;
  }
  std::int64_t now = 0, most = 0;
  for (const auto& [cut, bytes] : change) most = std::max(most, now += bytes);
  return most;
}

class StepFusion final : public GraphPass {
 public:
  explicit StepFusion(const StepFusionParams& params) : params_(params) {}

  OpGraph run(const OpGraph& graph, const PassContext& context, PassReport& report) const override {
    std::vector<std::int64_t> step;
    std::int64_t steps = 0;
    for (const OpId id : graph.ops()) {
      step.push_back(step_of(graph.op(id).scope, params_.prefix));
      steps = std::max(steps, step.back() + 1);
    }
    const std::int64_t carried = carried_bytes(graph, step, context.typical);
    const std::int64_t room =
        std::max(params_.thread_bytes, params_.lanes > 0 ? context.scratch_bytes / params_.lanes : 0);
    const std::int64_t joined = carried <= room ? params_.steps : 1;
    models::Grouping groups;
    for (const std::int64_t own : step) groups.push_back(own < 0 ? -1 : static_cast<std::int32_t>(own / joined));
    OpGraph fused = models::fuse_groups(graph, groups);
    report.tell("steps", static_cast<double>(steps));
    report.tell("steps_a_launch", static_cast<double>(std::min(joined, std::max<std::int64_t>(1, steps))));
    report.tell("carried_bytes", static_cast<double>(carried));
    report.tell("room_bytes", static_cast<double>(room));
    if (joined < params_.steps)
      report.notes.push_back("state of " + std::to_string(carried) + " bytes an element does not fit " +
                             std::to_string(room) + " bytes on chip: steps stay apart");
    tell_gains(graph, fused, context, report);
    return fused;
  }

 private:
  StepFusionParams params_;
};

}  // namespace

void add_step_fusion(PassRegistry& registry) {
  registry.add<StepFusionParams>("step_fusion",
                                 "Several steps of a simulator run in one launch, with their state on chip.",
                                 [](const StepFusionParams& params) { return std::make_unique<StepFusion>(params); });
}

}  // namespace orrery::policies
