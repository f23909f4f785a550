#include "policies/kvcache/tiered_store.hpp"

#include <algorithm>
#include <stdexcept>

namespace orrery::policies {

TieredStore::TieredStore(std::vector<TierFacts> tiers, const TieredStoreOptions& options)
    : tiers_(std::move(tiers)), options_(options), by_use_(tiers_.size()), used_(tiers_.size(), 0) {
  counters_.hit_tokens.assign(tiers_.size(), 0);
}

std::int64_t TieredStore::copy(std::size_t tier, std::int64_t bytes, std::int64_t pieces) {
  const std::int64_t copies = pieces * options_.copies_per_run;
  counters_.copies += copies;
  return copies * tiers_[tier].copy_ps +
         static_cast<std::int64_t>(static_cast<double>(bytes) / tiers_[tier].bandwidth * 1e12);
}

// ---- sequences

std::optional<std::int64_t> TieredStore::swap_out(std::int64_t key, std::int64_t tokens, std::int64_t blocks,
                                                  std::int64_t pieces) {
  std::int64_t there = 0;  // blocks whose copy is good: the last may have been written to since
  if (const auto at = entries_.find(of_request(key)); at != entries_.end()) {
    const Entry& old = at->second;
    if (old.tokens <= tokens) there = old.tokens == tokens ? old.blocks : std::max<std::int64_t>(0, old.blocks - 1);
    drop(key);
  }
  if (!place(of_request(key), {.tokens = tokens, .blocks = blocks, .awaited = 1, .text = {}})) {
    ++counters_.refused;
    return std::nullopt;
  }
  const std::int64_t fresh = std::max<std::int64_t>(0, blocks - there);
  ++counters_.outs;
  counters_.out_bytes += fresh * options_.block_bytes;
  counters_.reused_bytes += (blocks - fresh) * options_.block_bytes;
  return copy(entries_.at(of_request(key)).tier, fresh * options_.block_bytes, std::min(pieces, fresh));
}

std::int64_t TieredStore::swap_in(std::int64_t key, std::int64_t, std::int64_t blocks, std::int64_t pieces) {
  const auto at = entries_.find(of_request(key));
  if (at == entries_.end()) throw std::logic_error("tiers: what was never swapped out is swapped in");
  Entry& entry = at->second;
  ++counters_.ins;
  counters_.in_bytes += blocks * options_.block_bytes;
  const std::int64_t ps = copy(entry.tier, blocks * options_.block_bytes, std::min(pieces, blocks));
  if (options_.reuse) {
    touch(at->first, entry);
    entry.awaited = 0;
  } else {
    drop(key);
  }
  return ps;
}

void TieredStore::drop(std::int64_t key) {
  erase(of_request(key));
}

// ---- conversations

std::optional<std::int64_t> TieredStore::keep_turn(std::int64_t key, std::int64_t session, const Text& text,
                                                   std::int64_t tokens, std::int64_t blocks, std::int64_t pieces) {
  erase(of_turn(session));
  const std::optional<std::int64_t> ps = swap_out(key, tokens, blocks, pieces);
  if (!ps) return ps;
  rename(of_request(key), of_turn(session));
  Entry& entry = entries_.at(of_turn(session));
  entry.awaited = 0;
  entry.text = text;
  return ps;
}

std::int64_t TieredStore::claim_turn(std::int64_t key, std::int64_t session, const Text& text, std::int64_t most) {
  const auto at = entries_.find(of_turn(session));
  if (at == entries_.end()) return 0;
  Entry& entry = at->second;
  const std::int64_t tokens = std::min({common_tokens(entry.text, text), entry.tokens, most});
  if (tokens <= 0) return 0;
  // Of a copy that goes on otherwise the rest is given up, in whole blocks.
  const std::int64_t block_tokens =
      options_.block_tokens > 0 ? options_.block_tokens : (entry.tokens + entry.blocks - 1) / entry.blocks;
  const std::int64_t blocks = std::min(entry.blocks, (tokens + block_tokens - 1) / block_tokens);
  used_[entry.tier] -= (entry.blocks - blocks) * options_.block_bytes;
  entry.blocks = blocks;
  entry.tokens = tokens;
  entry.awaited = 1;
  entry.text.clear();
  rename(of_turn(session), of_request(key));
  ++counters_.turns;
  counters_.turn_tokens += tokens;
  return tokens;
}

// ---- blocks of prefixes

void TieredStore::keep_block(std::uint64_t hash) {
  if (const auto at = entries_.find(of_block(hash)); at != entries_.end()) {
    touch(at->first, at->second);
    counters_.reused_bytes += options_.block_bytes;
    return;
  }
  if (!place(of_block(hash), {.blocks = 1, .text = {}})) return;
  Entry& entry = entries_.at(of_block(hash));
  out_free_ = std::max(out_free_, clock_) + copy(entry.tier, options_.block_bytes, 1);
  entry.ready = out_free_;
  ++counters_.kept_blocks;
  counters_.out_bytes += options_.block_bytes;
}

bool TieredStore::has_block(std::uint64_t hash) const {
  const auto at = entries_.find(of_block(hash));
  return at != entries_.end() && at->second.ready <= clock_;
}

void TieredStore::pin_block(std::uint64_t hash) {
  ++entries_.at(of_block(hash)).awaited;
}

std::int64_t TieredStore::load_blocks(std::span<const std::uint64_t> hashes, std::int64_t block_tokens, bool first) {
  std::int64_t ps = 0;
  for (const std::uint64_t hash : hashes) {
    const auto at = entries_.find(of_block(hash));
    if (at == entries_.end()) throw std::logic_error("tiers: a block that is not here is loaded");
    Entry& entry = at->second;
    ps += copy(entry.tier, options_.block_bytes, 1);
    if (first) counters_.hit_tokens[entry.tier] += block_tokens;
    --entry.awaited;
    touch(at->first, entry);
  }
  counters_.loaded_blocks += std::ssize(hashes);
  counters_.in_bytes += std::ssize(hashes) * options_.block_bytes;
  return ps;
}

// ---- tiers

/// Puts an entry into the first tier that has or makes room; false if none does.
bool TieredStore::place(const Key& key, Entry entry) {
  entry.used = ++now_;
  while (entry.tier < tiers_.size() && !make_room(entry.tier, bytes(entry))) ++entry.tier;
  if (entry.tier == tiers_.size()) return false;
  used_[entry.tier] += bytes(entry);
  by_use_[entry.tier][entry.used] = key;
  entries_[key] = std::move(entry);
  return true;
}

void TieredStore::touch(const Key& key, Entry& entry) {
  by_use_[entry.tier].erase(entry.used);
  entry.used = ++now_;
  by_use_[entry.tier][entry.used] = key;
}

void TieredStore::rename(const Key& from, const Key& to) {
  auto node = entries_.extract(from);
  node.key() = to;
  by_use_[node.mapped().tier][node.mapped().used] = to;
  entries_.insert(std::move(node));
}

void TieredStore::erase(const Key& key) {
  const auto at = entries_.find(key);
  if (at == entries_.end()) return;
  by_use_[at->second.tier].erase(at->second.used);
  used_[at->second.tier] -= bytes(at->second);
  entries_.erase(at);
}

/// Moves entries of `tier` on until `needed` bytes more fit: those nobody waits for are given up where the next tier
/// has no room. False if that does not suffice.
bool TieredStore::make_room(std::size_t tier, std::int64_t needed) {
  const std::int64_t capacity = tiers_[tier].capacity_bytes;
  if (needed > capacity) return false;
  while (used_[tier] + needed > capacity) {
    bool moved = false;
    for (const auto& [used, key] : by_use_[tier]) {
      Entry& entry = entries_.at(key);
      if (tier + 1 < tiers_.size() && make_room(tier + 1, bytes(entry))) {
        const std::int64_t since = entry.used;
        used_[tier] -= bytes(entry);
        used_[tier + 1] += bytes(entry);
        counters_.demoted_bytes += bytes(entry);
        by_use_[tier + 1][since] = key;
        entry.tier = tier + 1;
        by_use_[tier].erase(since);
        moved = true;
      } else if (entry.awaited == 0) {
        ++counters_.dropped;
        erase(Key{key});
        moved = true;
      }
      if (moved) break;
    }
    if (!moved) return false;
  }
  return true;
}

}  // namespace orrery::policies
