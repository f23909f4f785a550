// Prefix cache by hashes of whole blocks, as in vLLM v1.
//
// A full block is known by the hash of its tokens chained with that of the block before it, so equal hashes mean equal
// text from the start. A prompt takes over the longest run of its blocks that is known, but never all of it: the last
// token is computed. What nobody holds stays known until its place is needed: freed blocks go to the back of one
// queue, the last blocks of a sequence first, and whoever needs blocks takes them from the front, known or not; a block
// that is taken over leaves the queue. Blocks of a prompt are known as soon as they are computed; those of the output
// when the sequence ends (vLLM: as they fill). Two sequences that compute the same block at once both keep theirs; one
// is known. Source: vLLM v1 (kv_cache_manager, block_pool), design document "Automatic Prefix Caching"; branches as in
// branches.hpp. Cost: O(blocks changed); a hash table of 64-bit hashes, no block table.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "policies/kvcache/prefix_cache.hpp"
#include "policies/kvcache/tier.hpp"
#include "sim/base/mix.hpp"

namespace orrery::policies {
namespace {

struct BlockHashParams {
  std::int64_t block_tokens = 16;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("block_tokens", &BlockHashParams::block_tokens, sim::Unit::tokens,
                                      sim::between(1, 65536), "Number of tokens of one sequence in a KV block.")};
  }
};

/// Appends the chained hashes of the full blocks of `text` from block `hashes.size()` on, `tokens` tokens at most.
void hash_blocks(const Text& text, std::int64_t tokens, std::int64_t block_tokens, std::vector<std::uint64_t>& hashes) {
  std::int64_t skip = std::ssize(hashes) * block_tokens;
  std::uint64_t hash = hashes.empty() ? 0 : hashes.back();
  std::int64_t left = block_tokens;  // of the block under way
  std::int64_t room = tokens - skip;
  for (const TextSpan& span : text) {
    if (skip >= span.tokens) {
      skip -= span.tokens;
      continue;
    }
    std::int64_t at = skip;
    skip = 0;
    while (at < span.tokens && room > 0) {
      const std::int64_t count = std::min({span.tokens - at, left, room});
      hash = sim::mix64(hash ^ sim::mix64(span.id ^ sim::mix64(static_cast<std::uint64_t>(at))) ^
                        static_cast<std::uint64_t>(count));
      at += count;
      left -= count;
      room -= count;
      if (left == 0) {
        hashes.push_back(hash);
        left = block_tokens;
      }
    }
    if (room == 0) return;
  }
}

/// What a sequence holds.
struct BlockHashHoldings : PrefixHoldings {
  std::vector<std::uint32_t> known;   // places of the known blocks it holds, first to last
  std::vector<std::uint64_t> hashes;  // of its text's blocks, as far as they were needed
  std::int64_t shown = 0;             // blocks of its text that were looked at: known, or duplicates of known ones
  std::int64_t below = 0;             // blocks after these that the tier has, until they are loaded

  std::int64_t shared() const { return std::ssize(known); }
  std::int64_t matched() const { return shown + below; }
};

class BlockHashCache final : public PrefixCache<BlockHashCache, BlockHashHoldings> {
 public:
  BlockHashCache(const BlockHashParams& params, const KvGeometry& geometry)
      : PrefixCache("block hash cache", params.block_tokens, geometry) {
    places_.resize(1);  // the queue's ends
    places_[0].next = places_[0].previous = 0;
    push_blank(total_);
  }

  std::int64_t releasable_blocks(SeqId id) const override {
    if (id.index >= owns_.size()) return 0;
    const BlockHashHoldings& own = owns_[id.index];
    return own.plain + std::count_if(own.known.begin(), own.known.end(),
                                     [&](std::uint32_t place) { return places_[place].holders == 1; });
  }
  Leave left_by_preempted() const override { return Leave::keep; }  // full blocks are known when they are freed
  std::int64_t match_prefix(const Sequence& seq) const override {
    if (seq.text == nullptr) return 0;
    const Match found = match(*seq.text, matchable(seq));
    return (found.blocks + below(*seq.text, matchable(seq), found.blocks)) * block_tokens_;
  }
  std::int64_t match_text(const Text& text) const override {
    return match(text, tokens_of(text) / block_tokens_).blocks * block_tokens_;
  }
  bool hand_on_to(KvTier& tier) override {
    tier_ = &tier;
    return true;
  }
  std::span<const std::uint64_t> to_load(SeqId id) const override {
    if (id.index >= owns_.size()) return {};
    const BlockHashHoldings& own = owns_[id.index];
    return std::span(own.hashes).subspan(static_cast<std::size_t>(own.shown), static_cast<std::size_t>(own.below));
  }

  void computed(SeqId id, const Sequence& seq, std::int64_t tokens) override {
    BlockHashHoldings& own = owned(id);
    own.below = 0;  // loaded
    if (seq.text != nullptr) show(own, *seq.text, common_to_branches(seq, tokens));
  }

  void release(SeqId id, const Sequence& seq, std::int64_t tokens, Leave leave) override {
    if (id.index >= owns_.size()) return;
    BlockHashHoldings& own = owns_[id.index];
    if (leave == Leave::keep && seq.text != nullptr) show(own, *seq.text, common_to_branches(seq, tokens));
    // Blocks that are known stand before the rest but for duplicates, whose place among the blank ones makes no
    // difference to what stays known longest.
    push_blank(own.plain);
    for (auto place = own.known.rbegin(); place != own.known.rend(); ++place) let_go(*place);
    own.plain = own.shown = own.below = 0;
    own.pinned = false;
    own.known.clear();
    own.hashes.clear();
  }

 private:
  friend PrefixCache<BlockHashCache, BlockHashHoldings>;

  /// A known block, or a run of blank ones in the queue; linked while nobody holds it.
  struct Place {
    std::uint64_t hash = 0;
    std::int64_t blanks = 0;  // 0: a known block
    std::int32_t holders = 0;
    std::uint32_t previous = 0, next = 0;
  };
  struct Match {
    std::int64_t blocks = 0, held = 0;  // held: by others, so out of the queue already
  };

  std::int64_t in_use(const Text& text, std::int64_t blocks) const { return match(text, blocks).held; }
  void hold(BlockHashHoldings& own, const Text& text, std::int64_t most) {
    own.shown = match(text, most).blocks;
    own.below = below(text, most, own.shown);
    hash_blocks(text, own.matched() * block_tokens_, block_tokens_, own.hashes);
    for (std::int64_t i = 0; i < std::ssize(own.hashes); ++i) {
      const std::uint64_t hash = own.hashes[static_cast<std::size_t>(i)];
      if (i >= own.shown) {
        tier_->pin_block(hash);
        continue;
      }
      const std::uint32_t place = known_.at(hash);
      take_over(place);
      own.known.push_back(place);
    }
  }

  Match match(const Text& text, std::int64_t most) const {
    Match found;
    if (known_.empty() || most == 0) return found;
    scratch_.clear();
    // Block by block, so that a text that nobody knows costs one look-up.
    for (std::int64_t upto = 1; upto <= most; upto = std::min(most, 2 * upto)) {
      hash_blocks(text, upto * block_tokens_, block_tokens_, scratch_);
      while (found.blocks < std::ssize(scratch_)) {
        const auto at = known_.find(scratch_[static_cast<std::size_t>(found.blocks)]);
        if (at == known_.end()) return found;
        ++found.blocks;
        if (places_[at->second].holders > 0) ++found.held;
      }
      if (upto == most || std::ssize(scratch_) < upto) break;
    }
    return found;
  }

  /// Of the `most` first blocks of a text, those from the `from`-th on that the tier has without a gap.
  std::int64_t below(const Text& text, std::int64_t most, std::int64_t from) const {
    if (tier_ == nullptr) return 0;
    scratch_.clear();
    std::int64_t blocks = from;
    for (std::int64_t upto = std::min(most, from + 1); blocks < most; upto = std::min(most, 2 * upto)) {
      hash_blocks(text, upto * block_tokens_, block_tokens_, scratch_);
      while (blocks < std::ssize(scratch_) && tier_->has_block(scratch_[static_cast<std::size_t>(blocks)])) ++blocks;
      if (blocks < upto) break;
    }
    return blocks - from;
  }

  /// Makes the blocks of the first `tokens` tokens of a sequence known.
  void show(BlockHashHoldings& own, const Text& text, std::int64_t tokens) {
    hash_blocks(text, tokens, block_tokens_, own.hashes);
    const std::int64_t upto = std::min(tokens / block_tokens_, std::ssize(own.hashes));
    for (; own.shown < upto; ++own.shown) {
      const std::uint64_t hash = own.hashes[static_cast<std::size_t>(own.shown)];
      const std::uint32_t place = new_place();
      if (!known_.try_emplace(hash, place).second) {
        free_places_.push_back(place);  // somebody computed the same meanwhile
        continue;
      }
      places_[place] = {.hash = hash, .blanks = 0, .holders = 1, .previous = 0, .next = 0};
      own.known.push_back(place);
      --own.plain;
    }
    if (own.plain < 0) broken("more blocks computed than held");
  }

  std::uint32_t new_place() {
    if (!free_places_.empty()) {
      const std::uint32_t place = free_places_.back();
      free_places_.pop_back();
      return place;
    }
    places_.emplace_back();
    return static_cast<std::uint32_t>(places_.size() - 1);
  }

  void link_last(std::uint32_t place) {
    const std::uint32_t last = places_[0].previous;
    places_[place].previous = last;
    places_[place].next = 0;
    places_[last].next = place;
    places_[0].previous = place;
  }
  void unlink(std::uint32_t place) {
    places_[places_[place].previous].next = places_[place].next;
    places_[places_[place].next].previous = places_[place].previous;
  }

  void take_over(std::uint32_t place) {
    const std::int64_t before = places_[place].holders++;
    holders_changed(before, before + 1, block_tokens_);
    if (before > 0) return;
    unlink(place);
    --evictable_;
  }
  void let_go(std::uint32_t place) {
    const std::int64_t left = --places_[place].holders;
    holders_changed(left + 1, left, block_tokens_);
    if (left > 0) return;
    if (left < 0) broken("a block is given back twice");
    link_last(place);
    ++evictable_;
  }
  void push_blank(std::int64_t blocks) {
    if (blocks == 0) return;
    free_ += blocks;
    const std::uint32_t last = places_[0].previous;
    if (last != 0 && places_[last].blanks > 0) {
      places_[last].blanks += blocks;
      return;
    }
    const std::uint32_t place = new_place();
    places_[place] = {.hash = 0, .blanks = blocks, .holders = 0, .previous = 0, .next = 0};
    link_last(place);
  }
  /// Takes blocks from the front of the queue.
  void allot(std::int64_t blocks) {
    while (blocks > 0) {
      const std::uint32_t first = places_[0].next;
      if (first == 0) broken("the queue is empty");
      Place& place = places_[first];
      if (place.blanks > 0) {
        const std::int64_t some = std::min(place.blanks, blocks);
        place.blanks -= some;
        free_ -= some;
        blocks -= some;
        if (place.blanks > 0) return;
      } else {
        known_.erase(place.hash);
        if (tier_ != nullptr) tier_->keep_block(place.hash);
        --evictable_;
        --blocks;
        ++counters_.evicted_blocks;
      }
      unlink(first);
      free_places_.push_back(first);
    }
  }

  std::vector<Place> places_;  // [0] holds the queue's ends
  std::vector<std::uint32_t> free_places_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_;  // looked up, never walked
  KvTier* tier_ = nullptr;                                  // where evicted blocks go
  mutable std::vector<std::uint64_t> scratch_;
};

}  // namespace

void add_block_hash(KvCacheRegistry& registry) {
  registry.add<BlockHashParams>(
      "block_hash",
      "Whole KV blocks are found again by chained hashes; the least recently freed are evicted first (vLLM v1).",
      [](const BlockHashParams& params, const KvGeometry& geometry) -> std::unique_ptr<KvCache> {
        return std::make_unique<BlockHashCache>(params, geometry);
      });
}

}  // namespace orrery::policies
