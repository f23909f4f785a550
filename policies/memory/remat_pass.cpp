#include "policies/memory/remat_pass.hpp"

#include <algorithm>

#include "policies/memory/graph_buffers.hpp"
#include "policies/memory/schedule.hpp"

namespace orrery::policies {

models::OpGraph rematerialised(const models::OpGraph& graph, const PassContext& context,
                               std::optional<std::int64_t> budget, double reserve, const std::vector<bool>& may_drop,
                               const DropScore& score, PassReport& report) {
  const models::Storages storages(graph);
  const models::Liveness before = models::liveness(storages, context.typical);
  const std::int64_t all = budget.value_or(context.memory_bytes);
  const std::int64_t arena = std::max<std::int64_t>(0, all - before.persistent);
  const auto limit = arena - static_cast<std::int64_t>(reserve * static_cast<double>(arena));
  report.tell("live_before", static_cast<double>(before.peak));
  RematResult result;
  models::OpGraph next;
  bool kept = false;
  if (all > 0 && before.peak > limit) {
    const std::vector<double> op_s = op_times(graph, context, context.typical);
    result = run_schedule(storages, context.typical, limit, op_s, may_drop, score);
    if (!result.gave_up && result.dropped > 0) {
      next = reordered(graph, result.ops);
      kept = graph_peak(next, context.typical).never_above(graph_peak(graph, context.typical));
    }
  }
  report.tell("live_after", static_cast<double>(kept ? models::liveness(next, context.typical).peak : before.peak));
  report.tell("within_limit", all == 0 || before.peak <= limit || (kept && result.within_limit) ? 1 : 0);
  report.tell("dropped", kept ? static_cast<double>(result.dropped) : 0);
  report.tell("ops_again", kept ? static_cast<double>(result.again) : 0);
  report.tell("again_s", kept ? result.again_s : 0);
  return kept ? next : graph;
}

}  // namespace orrery::policies
