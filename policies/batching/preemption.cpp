#include "policies/batching/preemption.hpp"

namespace orrery::policies {

std::int64_t make_room_for_decodes(const BatchView& view, BatchDecision& out, Preempt how) {
  std::int64_t need = view.growth_blocks;
  std::int64_t free = view.kv.available_blocks();
  for (std::size_t left = view.running.size(); need > free && left > 0; --left) {
    const SeqId victim = view.running[left - 1];
    if (view[victim].phase == Phase::paused) continue;
    need -= view.growth_of(victim);
    free += view.blocks_of(victim);
    out.preempt.push_back({victim, how});
  }
  return free - need;
}

}  // namespace orrery::policies
