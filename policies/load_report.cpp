#include "policies/load_report.hpp"

#include <algorithm>

namespace orrery::policies {

void add_load(const BatchView& view, LoadReport& report) {
  report.total_blocks += view.kv.total_blocks();
  report.used_blocks += view.kv.total_blocks() - view.kv.available_blocks();
  report.running += std::ssize(view.running);
  report.waiting += std::ssize(view.waiting);
  for (const SeqId id : view.waiting) {
    const Sequence& seq = view[id];
    const std::int64_t blocks = view.kv.blocks_to_admit(seq, seq.prefill_tokens);
    if (id == view.waiting.front()) report.head_blocks += blocks;
    report.waiting_blocks += blocks;
    report.preempted = report.preempted || seq.preemptions > 0;
  }
  for (const SeqId id : view.running) report.high += view[id].priority > 0 ? 1 : 0;
}

double freeness(const LoadReport& report, const FreenessParams& params, bool dispatch) {
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  if (report.terminating) return -kEndless;
  const std::int64_t kept = report.high > 0 ? params.headroom_blocks : 0;
  if (params.formula == Freeness::paper) {
    const std::int64_t usage = report.used_blocks + report.head_blocks + kept;
    return static_cast<double>(report.total_blocks - usage) /
           static_cast<double>(std::max<std::int64_t>(1, report.running));
  }
  if (report.running + report.waiting == 0) return kEndless;
  const std::int64_t extra = dispatch ? report.waiting : std::min<std::int64_t>(report.waiting, 1);
  return static_cast<double>(report.total_blocks - report.used_blocks - report.waiting_blocks - kept) /
         static_cast<double>(report.running + extra);
}

}  // namespace orrery::policies
