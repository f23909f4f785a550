#include "policies/batching/preemption.hpp"

namespace orrery::policies {

std::int64_t make_room_for_decodes(const BatchView& view, BatchDecision& out) {
  std::int64_t need = 0;
  const auto growth = [&](SeqId id) -> std::int64_t {
    const Sequence& seq = view[id];
    return seq.phase == Phase::decode ? view.kv.blocks_to_grow(id, seq.kv_tokens + 1) : 0;
  };
  for (const SeqId id : view.running) need += growth(id);
  std::int64_t free = view.kv.free_blocks();
  for (std::size_t left = view.running.size(); need > free && left > 0; --left) {
    const SeqId victim = view.running[left - 1];
    need -= growth(victim);
    free += view.kv.held_blocks(victim);
    out.preempt.push_back(victim);
  }
  return free - need;
}

}  // namespace orrery::policies
