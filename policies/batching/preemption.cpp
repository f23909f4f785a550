#include "policies/batching/preemption.hpp"

#include <algorithm>
#include <utility>

namespace orrery::policies {

DecodeRoom decode_room(const BatchView& view) {
  return {.free = view.kv.available_blocks(), .growth = view.growth_blocks};
}

void preempt_for_decodes(const BatchView& view, std::span<const SeqId> line, Preempt how, MayGo may_go,
                         DecodeRoom& room, BatchDecision& out) {
  for (std::size_t left = line.size(); room.lacks() && left > 0; --left) {
    const SeqId victim = line[left - 1];
    const Phase phase = view[victim].phase;
    if (may_go == MayGo::decoding ? phase != Phase::decode : phase == Phase::paused) continue;
    room.growth -= blocks_grown(view, victim);
    room.free += blocks_freed(view, victim);
    out.preempt.push_back({victim, how});
  }
}

std::int64_t make_room_for_decodes(const BatchView& view, BatchDecision& out, Preempt how, bool by_priority) {
  DecodeRoom room = decode_room(view);
  if (!by_priority || !room.lacks()) {
    preempt_for_decodes(view, view.running, how, MayGo::running, room, out);
    return room.left();
  }
  std::vector<SeqId> line(view.running.begin(), view.running.end());
  std::sort(line.begin(), line.end(), [&](SeqId a, SeqId b) {
    return std::pair(-view[a].priority, view[a].order) < std::pair(-view[b].priority, view[b].order);
  });
  preempt_for_decodes(view, line, how, MayGo::running, room, out);
  return room.left();
}

}  // namespace orrery::policies
