#include "policies/kvcache/tiered_store.hpp"

#include <algorithm>
#include <stdexcept>

namespace orrery::policies {

TieredStore::TieredStore(std::vector<TierFacts> tiers, const TieredStoreOptions& options)
    : tiers_(std::move(tiers)), options_(options), by_use_(tiers_.size()), used_(tiers_.size(), 0) {}

std::int64_t TieredStore::copy(std::size_t tier, std::int64_t bytes, std::int64_t pieces) {
  const std::int64_t copies = pieces * options_.copies_per_run;
  counters_.copies += copies;
  return copies * tiers_[tier].copy_ps +
         static_cast<std::int64_t>(static_cast<double>(bytes) / tiers_[tier].bandwidth * 1e12);
}

std::optional<std::int64_t> TieredStore::swap_out(std::int64_t key, std::int64_t tokens, std::int64_t blocks,
                                                  std::int64_t pieces) {
  std::int64_t there = 0;  // blocks whose copy is good: the last may have been written to since
  if (const auto at = entries_.find(key); at != entries_.end()) {
    const Entry& old = at->second;
    if (old.tokens <= tokens) there = old.tokens == tokens ? old.blocks : std::max<std::int64_t>(0, old.blocks - 1);
    drop(key);
  }
  Entry entry{.tokens = tokens, .blocks = blocks, .used = ++now_, .tier = 0, .awaited = true};
  while (entry.tier < tiers_.size() && !make_room(entry.tier, bytes(entry))) ++entry.tier;
  if (entry.tier == tiers_.size()) {
    ++counters_.refused;
    return std::nullopt;
  }
  used_[entry.tier] += bytes(entry);
  by_use_[entry.tier][entry.used] = key;
  entries_[key] = entry;
  const std::int64_t fresh = std::max<std::int64_t>(0, blocks - there);
  ++counters_.outs;
  counters_.out_bytes += fresh * options_.block_bytes;
  counters_.reused_bytes += (blocks - fresh) * options_.block_bytes;
  return copy(entry.tier, fresh * options_.block_bytes, std::min(pieces, fresh));
}

std::int64_t TieredStore::swap_in(std::int64_t key, std::int64_t, std::int64_t blocks, std::int64_t pieces) {
  const auto at = entries_.find(key);
  if (at == entries_.end()) throw std::logic_error("tiers: what was never swapped out is swapped in");
  Entry& entry = at->second;
  ++counters_.ins;
  counters_.in_bytes += blocks * options_.block_bytes;
  const std::int64_t ps = copy(entry.tier, blocks * options_.block_bytes, std::min(pieces, blocks));
  if (options_.reuse) {
    by_use_[entry.tier].erase(entry.used);
    entry.used = ++now_;
    entry.awaited = false;
    by_use_[entry.tier][entry.used] = key;
  } else {
    drop(key);
  }
  return ps;
}

void TieredStore::drop(std::int64_t key) {
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
      } else if (!entry.awaited) {
        ++counters_.dropped;
        drop(std::int64_t{key});
        moved = true;
      }
      if (moved) break;
    }
    if (!moved) return false;
  }
  return true;
}

}  // namespace orrery::policies
