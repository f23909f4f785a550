#include "policies/routing/load_report.hpp"

#include <algorithm>

namespace orrery::policies {

void add_running(const BatchView& view, LoadReport& report) {
  report.running += std::ssize(view.running);
  for (const SeqId id : view.running) report.high += view[id].priority > 0 ? 1 : 0;
}

void add_queue(const BatchView& view, LoadReport& report) {
  report.total_blocks += view.kv.total_blocks();
  report.used_blocks += view.kv.total_blocks() - view.kv.available_blocks();
  report.waiting += std::ssize(view.waiting);
  for (const SeqId id : view.waiting) {
    const Sequence& seq = view[id];
    const std::int64_t blocks = view.kv.blocks_to_admit(seq, seq.prefill_tokens);
    if (id == view.waiting.front()) report.head_blocks += blocks;
    report.waiting_blocks += blocks;
    report.preempted = report.preempted || seq.preemptions > 0;
    report.high_waiting += seq.priority > 0 ? 1 : 0;
  }
}

namespace {

/// Blocks kept for requests of high priority.
std::int64_t headroom(const LoadReport& report, const FreenessParams& params, RoomFor who) {
  if (!params.ideal_blocks) return 0;
  const bool artefact = params.formula == Freeness::artefact;
  const bool holds = report.high > 0 || (artefact && report.high_waiting > 0);
  const bool charged = artefact && who == RoomFor::high ? !holds : holds;
  return charged ? std::max<std::int64_t>(0, report.total_blocks - *params.ideal_blocks) : 0;
}

}  // namespace

Room room(const LoadReport& report, const FreenessParams& params, RoomFor who) {
  const std::int64_t left = report.total_blocks - report.used_blocks - headroom(report, params, who);
  if (params.formula == Freeness::paper) return {left - report.head_blocks, report.running};
  const std::int64_t extra = who == RoomFor::running ? std::min<std::int64_t>(report.waiting, 1) : report.waiting;
  return {left - report.waiting_blocks, report.running + extra};
}

double freeness(const LoadReport& report, const FreenessParams& params, RoomFor who) {
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  if (report.terminating) return -kEndless;
  const Room r = room(report, params, who);
  if (params.formula == Freeness::artefact && r.requests == 0) return kEndless;
  return static_cast<double>(r.blocks) / static_cast<double>(std::max<std::int64_t>(1, r.requests));
}

}  // namespace orrery::policies
