#include "policies/batching/preemption.hpp"

#include <algorithm>
#include <utility>

namespace orrery::policies {

std::int64_t make_room_for_decodes(const BatchView& view, BatchDecision& out, Preempt how, bool by_priority) {
  std::int64_t need = view.growth_blocks;
  std::int64_t free = view.kv.available_blocks();
  std::vector<SeqId> line;  // the last goes first
  if (by_priority && need > free) {
    line.assign(view.running.begin(), view.running.end());
    std::sort(line.begin(), line.end(), [&](SeqId a, SeqId b) {
      return std::pair(-view[a].priority, view[a].order) < std::pair(-view[b].priority, view[b].order);
    });
  }
  for (std::size_t left = view.running.size(); need > free && left > 0; --left) {
    const SeqId victim = by_priority ? line[left - 1] : view.running[left - 1];
    if (view[victim].phase == Phase::paused) continue;
    need -= view.growth_of(victim);
    free += view.blocks_of(victim);
    out.preempt.push_back({victim, how});
  }
  return free - need;
}

}  // namespace orrery::policies
