#include "experiments/systems/serving/replica/tier_copies.hpp"

#include <algorithm>

namespace orrery::experiments {

using policies::SeqId;
using policies::Sequence;

namespace {

constexpr SeqId kTurnThatEnded{~0U};  // whose copy is under way

}  // namespace

TierCopies::TierCopies(SequenceTable& sequences, Books& books, DeviceTime& time, const ReplicaParts& parts)
    : sequences_(sequences),
      books_(books),
      time_(time),
      kv_(*parts.kv),
      tier_(parts.tier),
      links_(parts.links != nullptr ? parts.links : std::make_shared<TierLinks>()) {
  hands_on_ = tier_ != nullptr && tier_->takes_prefixes() && kv_.hand_on_to(*tier_);
}

/// Devices wait for a copy.
void TierCopies::stall(std::int64_t ps) {
  time_.stall_ps += ps;
  books_.counts().swap_stall_ps += ps;
}

void TierCopies::move_on(ExactTime now) {
  stall(-std::min(time_.stall_ps, time_.until(now)));
  time_.at = now;
}

/// A copy off the device begins: the next iteration waits for it, or whoever writes to its blocks does.
void TierCopies::copy_out(SeqId id, std::int64_t blocks, std::int64_t ps) {
  if (!tier_->overlaps()) return stall(ps);
  links_->out_free = std::max(links_->out_free, time_.at).plus(ps, time_.ps_per_tick);
  links_->outbound.push_back({id, blocks, links_->out_free});
}

void TierCopies::claim_turn(SeqId id) {
  if (tier_ == nullptr || !tier_->keeps_turns()) return;
  Sequence& seq = sequences_[id];
  const Request& request = sequences_.request(id);
  if (request.session < 0 || seq.text == nullptr || seq.branches != 1 || seq.ready_tokens > 0) return;
  seq.ready_tokens = tier_->claim_turn(request.id, request.session, *seq.text, seq.prefill_tokens - 1);
  sequences_.account(id).stored = seq.ready_tokens > 0;
}

void TierCopies::keep_turn(SeqId id) {
  if (tier_ == nullptr || !tier_->keeps_turns()) return;
  const Sequence& seq = sequences_[id];
  const Request& request = sequences_.request(id);
  if (request.session < 0 || seq.text == nullptr || seq.branches != 1) return;
  const std::int64_t blocks = kv_.held_blocks(id);
  const auto ps = tier_->keep_turn(request.id, request.session, *seq.text, seq.kv_then, blocks, kv_.pieces(id));
  if (ps) copy_out(kTurnThatEnded, blocks, *ps);
}

void TierCopies::swap_out(SeqId id, std::int64_t tokens) {
  if (tier_ == nullptr || tokens <= 0) return;
  Sequence& seq = sequences_[id];
  const std::int64_t blocks = kv_.held_blocks(id);
  const auto ps = tier_->swap_out(sequences_.request(id).id, tokens, blocks, kv_.pieces(id));
  if (!ps) return;
  seq.ready_tokens = std::min(tokens, seq.prefill_tokens - 1);
  sequences_.account(id).stored = true;
  copy_out(id, blocks, *ps);
}

bool TierCopies::load(SeqId id, std::int64_t cached, bool first) {
  if (tier_ == nullptr) return false;
  Sequence& seq = sequences_[id];
  const bool stored = sequences_.account(id).stored;
  std::int64_t ps = 0, blocks = 0;
  if (hands_on_) {
    if (const std::span<const std::uint64_t> hashes = kv_.to_load(id); !hashes.empty()) {
      const std::int64_t block_tokens = kv_.growth_tokens();
      blocks += std::ssize(hashes);
      ps += tier_->load_blocks(hashes, block_tokens, first);
      if (first) books_.counts().device_tokens -= std::ssize(hashes) * block_tokens;
    }
  }
  if (stored && seq.ready_tokens > cached) {
    const std::int64_t more = kv_.blocks_for(seq.ready_tokens - cached);
    blocks += more;
    ps += tier_->swap_in(sequences_.request(id).id, seq.ready_tokens - cached, more, std::min(more, kv_.pieces(id)));
  }
  if (blocks == 0) return false;
  if (!tier_->overlaps()) {
    if (hands_on_) kv_.computed(id, seq, seq.prefilled);
    stall(ps);
    return false;
  }
  // Into blocks that others are still being read from it goes when these are through.
  ExactTime start = std::max({links_->in_free, time_.at, outbound_until(kv_.available_blocks())});
  for (const TierLinks::Copy& copy : links_->outbound)
    if (copy.seq == id || (stored && copy.seq == kTurnThatEnded)) start = std::max(start, copy.until);
  links_->in_free = start.plus(ps, time_.ps_per_tick);
  loading_.push_back({id, blocks, links_->in_free});
  return true;
}

SeqId TierCopies::pop_loaded() {
  const SeqId id = loading_.front().seq;
  loading_.pop_front();
  Sequence& seq = sequences_[id];
  if (hands_on_) kv_.computed(id, seq, seq.prefilled);
  if (seq.generated_then > 0 && seq.prefill_left() == 1) seq.prefilled = seq.prefill_tokens;
  return id;
}

void TierCopies::drop(const Request& request) {
  if (tier_ != nullptr) tier_->drop(request.id);
}

void TierCopies::clear() {
  loading_.clear();
  links_->outbound.clear();
}

void TierCopies::await_load() {
  const ExactTime until = loading_.front().until;
  if (time_.at < until) {
    books_.counts().swap_stall_ps += time_.until(until);
    time_.at = until;
  }
}

void TierCopies::await_room(std::int64_t unused) {
  if (links_->outbound.empty()) return;
  for (const TierLinks::Copy& copy : loading_) unused += copy.blocks;
  stall(time_.until(outbound_until(unused)));
}

/// When so many copies off the device are through that `unused` blocks hold the rest.
ExactTime TierCopies::outbound_until(std::int64_t unused) {
  while (!links_->outbound.empty() && links_->outbound.front().until <= time_.at) links_->outbound.pop_front();
  std::int64_t under_way = 0;
  for (const TierLinks::Copy& copy : links_->outbound) under_way += copy.blocks;
  ExactTime until = time_.at;
  for (const TierLinks::Copy& copy : links_->outbound) {
    if (under_way <= unused) break;
    under_way -= copy.blocks;
    until = copy.until;
  }
  return until;
}

}  // namespace orrery::experiments
