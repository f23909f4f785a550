// Making room for decodes when the cache runs out: shared by the policies that allocate blocks on demand.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "policies/batching/batching.hpp"
#include "sim/base/params.hpp"

namespace orrery::policies {

/// Blocks that admitting `id` with room for `tokens` takes beside what `out` preempts. What a preempted sequence alone
/// holds is counted as free once it goes, so that nobody who comes in its place may count it as shared. (What it leaves
/// in a cache of prefixes may shorten their prompts; the replica cuts their items to what is left then.)
inline std::int64_t blocks_to_admit_beside(const BatchView& view, const BatchDecision& out, SeqId id,
                                           std::int64_t tokens) {
  return out.preempt.empty() ? view.kv.blocks_to_admit(view[id], tokens) : view.kv.blocks_of(view[id], tokens);
}

/// Blocks that are free, and those that decodes take in the coming step.
struct DecodeRoom {
  std::int64_t free = 0, growth = 0;
  bool lacks() const { return growth > free; }
  std::int64_t left() const { return free - growth; }
};
/// The room that a view shows.
DecodeRoom decode_room(const BatchView& view);

/// Who may be made to go.
enum class MayGo : std::uint8_t {
  running,  ///< whoever is not paused
  decoding
};

/// Preempts those of `line` who may go, its last first, until the decodes that remain can grow by a token; appends them
/// to `out.preempt` and brings `room` up to date. O(1) if nobody has to go.
void preempt_for_decodes(const BatchView& view, std::span<const SeqId> line, Preempt how, MayGo may_go,
                         DecodeRoom& room, BatchDecision& out);

/// Preempts latest-admitted running sequences, one by one, until every remaining decode can grow by a token; appends
/// them to `out.preempt`. O(1) if all can stay. Returns the blocks that are free once preemption and growth are
/// done. Source: the v0 scheduler of vLLM (preemption by recompute, SOSP 2023, section 4.5).
/// `by_priority`: of the lowest priority first, the latest arrival of these.
std::int64_t make_room_for_decodes(const BatchView& view, BatchDecision& out, Preempt how = Preempt::recompute,
                                   bool by_priority = false);

}  // namespace orrery::policies
