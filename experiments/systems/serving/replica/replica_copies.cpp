#include "experiments/systems/serving/replica/replica_internal.hpp"

namespace orrery::experiments {

/// Devices wait for a copy.
void Replica::stall(std::int64_t ps) {
  stall_ps_ += ps;
  counts_.swap_stall_ps += ps;
}

/// What a tier is told happens at `time`.
void Replica::tell_time(const ExactTime& time) {
  if (hands_on_) parts_.tier->at(static_cast<policies::Picoseconds>(time.ticks) * ps_per_tick_ + time.ps);
}

/// A copy off the device begins: the next iteration waits for it, or whoever writes to its blocks does.
void Replica::copy_out(SeqId id, std::int64_t blocks, std::int64_t ps) {
  if (!parts_.tier->overlaps()) return stall(ps);
  out_free_ = std::max(out_free_, at_).plus(ps, ps_per_tick_);
  outbound_.push_back({id, blocks, out_free_});
}

/// The next turn of a conversation whose KV waits here comes with that.
void Replica::claim_turn(SeqId id) {
  Sequence& seq = sequence(id);
  const Request& request = *account(id).request;
  if (request.session < 0 || seq.text == nullptr || seq.branches != 1 || seq.ready_tokens > 0) return;
  seq.ready_tokens = parts_.tier->claim_turn(request.id, request.session, *seq.text, seq.prefill_tokens - 1);
  account(id).stored = seq.ready_tokens > 0;
}

/// The KV of a turn that ends, and is no steady decode any more, waits for the next one.
void Replica::keep_turn(SeqId id) {
  const Sequence& seq = sequence(id);
  const Request& request = *account(id).request;
  if (request.session < 0 || seq.text == nullptr || seq.branches != 1) return;
  const std::int64_t blocks = parts_.kv->held_blocks(id);
  const auto ps =
      parts_.tier->keep_turn(request.id, request.session, *seq.text, seq.kv_then, blocks, parts_.kv->pieces(id));
  if (ps) copy_out(SeqId{~0U}, blocks, *ps);
}

/// Copies to the device what a tier has of an admitted sequence, its own KV and blocks of its prefix, behind the
/// `cached` tokens that were found: the next iteration waits for it, or the sequence for the copy.
void Replica::load(SeqId id, std::int64_t cached, bool first) {
  Sequence& seq = sequence(id);
  Account& own = account(id);
  std::int64_t ps = 0, blocks = 0;
  if (hands_on_) {
    if (const std::span<const std::uint64_t> hashes = parts_.kv->to_load(id); !hashes.empty()) {
      blocks += std::ssize(hashes);
      ps += parts_.tier->load_blocks(hashes, growth_tokens_, first);
      if (first) counts_.device_tokens -= std::ssize(hashes) * growth_tokens_;
    }
  }
  if (own.stored && seq.ready_tokens > cached) {
    const std::int64_t more = parts_.kv->blocks_for(seq.ready_tokens - cached);
    blocks += more;
    ps += parts_.tier->swap_in(own.request->id, seq.ready_tokens - cached, more, std::min(more, parts_.kv->pieces(id)));
  }
  if (blocks == 0) return;
  if (!parts_.tier->overlaps()) {
    if (hands_on_) parts_.kv->computed(id, seq, seq.prefilled);
    return stall(ps);
  }
  // Into blocks that others are still being read from it goes when these are through.
  ExactTime start = std::max({in_free_, at_, outbound_until(parts_.kv->available_blocks())});
  for (const Copy& copy : outbound_)
    if (copy.seq == id || (own.stored && copy.seq == SeqId{~0U})) start = std::max(start, copy.until);
  in_free_ = start.plus(ps, ps_per_tick_);
  erase_prefilling(id);
  seq.phase = Phase::paused;
  if (watched_) tell(*own.request, RequestPhase::loading, parts_.engine->now());
  std::erase_if(decision_.items, [&](const Item& item) { return item.seq == id; });
  loading_.push_back({id, blocks, in_free_});
}

/// Sequences whose copy back is through go on: in decode where they were in decode.
void Replica::finish_loads() {
  while (!loading_.empty() && loading_.front().until <= at_) {
    const SeqId id = loading_.front().seq;
    loading_.pop_front();
    Sequence& seq = sequence(id);
    if (hands_on_) parts_.kv->computed(id, seq, seq.prefilled);
    if (seq.generated_then > 0 && seq.prefill_left() == 1) seq.prefilled = seq.prefill_tokens;
    resume(id);
  }
}

/// Waits for the first copy back.
void Replica::await_load() {
  const ExactTime until = loading_.front().until;
  if (at_ < until) {
    counts_.swap_stall_ps += until.minus(at_, ps_per_tick_);
    at_ = until;
  }
}

/// When so many copies off the device are through that `unused` blocks hold the rest.
ExactTime Replica::outbound_until(std::int64_t unused) {
  while (!outbound_.empty() && outbound_.front().until <= at_) outbound_.pop_front();
  std::int64_t under_way = 0;
  for (const Copy& copy : outbound_) under_way += copy.blocks;
  ExactTime until = at_;
  for (const Copy& copy : outbound_) {
    if (under_way <= unused) break;
    under_way -= copy.blocks;
    until = copy.until;
  }
  return until;
}

}  // namespace orrery::experiments
