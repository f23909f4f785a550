// What caches that find prefixes again have in common: one pool of blocks, of which a sequence holds some alone and, of
// text that the cache knows, some together with others; known text that nobody uses stays until its blocks are needed.
// How text is known, found and chosen to go is the cache's own.
#pragma once

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "policies/kvcache/branches.hpp"
#include "policies/kvcache/kvcache.hpp"

namespace orrery::policies {

/// What a sequence holds; a cache adds its hold on known text: shared(), the blocks of it, and matched(), the blocks
/// that the sequence need not compute.
struct PrefixHoldings {
  std::int64_t plain = 0;  ///< blocks of its own, of which the cache knows nothing
  bool pinned = false;     ///< holds what it matched, is not admitted yet
};

/// `Cache` derives from it, and makes these visible to it:
///   allot(blocks)              takes blocks out of the pool; evicts as long as there are too few
///   hold(own, text, blocks)    finds the longest known head of a text of at most so many blocks, and holds it for
///   `own` in_use(text, blocks)       blocks of that head that somebody uses, and which are not evictable therefore
/// Calls between the two cost no indirection.
template <class Cache, class Own>
class PrefixCache : public KvCache {
 public:
  std::int64_t total_blocks() const final { return total_; }
  std::int64_t block_bytes() const final { return block_bytes_; }
  std::int64_t free_blocks() const final { return free_; }
  std::int64_t evictable_blocks() const final { return evictable_; }
  std::int64_t blocks_for(std::int64_t tokens) const final { return blocks_up(tokens, block_tokens_); }
  std::int64_t blocks_of(const Sequence& seq, std::int64_t tokens) const final {
    return shared_blocks_of(seq, tokens, block_tokens_);
  }
  std::int64_t held_blocks(SeqId id) const final {
    return id.index < owns_.size() ? owns_[id.index].shared() + owns_[id.index].plain : 0;
  }
  std::int64_t capacity(SeqId id, const Sequence& seq) const final {
    return shared_capacity(seq, held_blocks(id), block_tokens_);
  }
  std::int64_t used_bytes() const final { return (total_ - free_ - evictable_) * block_bytes_; }
  std::int64_t growth_tokens() const final { return block_tokens_; }
  KvCounters counters() const final { return counters_; }
  bool keeps_prefixes() const final { return true; }
  std::int64_t tokens_read_for_others() const final { return read_for_others_; }
  bool read_once(std::int64_t readers) final {
    readers_ = std::max<std::int64_t>(1, readers);
    return true;
  }

  std::int64_t blocks_to_admit(const Sequence& seq, std::int64_t tokens) const final {
    const std::int64_t all = blocks_of(seq, tokens);
    return seq.text == nullptr ? all : all - self().in_use(*seq.text, matchable(seq));
  }

  void pin(SeqId id, const Sequence& seq) final {
    if (held_blocks(id) > 0) broken("a sequence is admitted twice");
    Own& own = owned(id);
    own.pinned = true;
    if (seq.text != nullptr) self().hold(own, *seq.text, matchable(seq));
  }

  std::optional<std::int64_t> admit(SeqId id, const Sequence& seq, std::int64_t tokens) final {
    Own& own = owned(id);
    if (!own.pinned) {
      if (blocks_to_admit(seq, tokens) > available_blocks()) return std::nullopt;
      pin(id, seq);
    }
    own.pinned = false;
    tokens = std::max(tokens, own.matched() * block_tokens_);
    const std::int64_t missing = std::max<std::int64_t>(0, blocks_of(seq, tokens) - own.shared());
    if (missing > available_blocks()) {
      self().release(id, seq, 0, Leave::drop);
      return std::nullopt;
    }
    self().allot(missing);
    own.plain = missing;
    return own.matched() * block_tokens_;
  }

  bool reserve(SeqId id, const Sequence& seq, std::int64_t tokens) final {
    const std::int64_t missing = blocks_to_grow(id, seq, tokens);
    if (missing > available_blocks()) return false;
    self().allot(missing);
    owned(id).plain += missing;
    return true;
  }

  void take(std::int64_t blocks) final {
    if (blocks > available_blocks()) broken("more blocks taken than are free");
    self().allot(blocks);
    taken_ += blocks;
  }

  void settle(SeqId id, const Sequence& seq, std::int64_t tokens) final {
    const std::int64_t own = blocks_to_grow(id, seq, tokens);
    owned(id).plain += own;
    taken_ -= own;
    if (taken_ < 0) broken("a sequence settles blocks nobody took");
  }

 protected:
  PrefixCache(const char* name, std::int64_t block_tokens, const KvGeometry& geometry)
      : name_(name),
        block_tokens_(block_tokens),
        block_bytes_(block_tokens * geometry.bytes_per_token),
        total_(block_bytes_ > 0 ? std::max<std::int64_t>(0, geometry.bytes_available / block_bytes_) : 0) {}

  Own& owned(SeqId id) {
    if (id.index >= owns_.size()) owns_.resize(id.index + 1);
    return owns_[id.index];
  }
  /// Blocks at the head of a waiting sequence that may come from the cache: full ones, never all of it.
  std::int64_t matchable(const Sequence& seq) const {
    return common_to_branches(seq, std::max<std::int64_t>(0, seq.prefill_tokens - 1)) / block_tokens_;
  }
  /// The holders of `tokens` tokens were `before` and are `after`: with h of them ceil(h / readers) passes read.
  void holders_changed(std::int64_t before, std::int64_t after, std::int64_t tokens) {
    if (readers_ <= 1) return;
    const auto spared = [&](std::int64_t h) { return h - blocks_up(h, readers_); };
    read_for_others_ += (spared(after) - spared(before)) * tokens;
  }
  static std::int64_t tokens_of(const Text& text) {
    std::int64_t tokens = 0;
    for (const TextSpan& span : text) tokens += span.tokens;
    return tokens;
  }
  [[noreturn]] void broken(const char* what) const { throw std::logic_error(std::string(name_) + ": " + what); }

  const char* name_;
  std::int64_t block_tokens_, block_bytes_, total_;
  std::int64_t free_ = 0;       ///< nothing known in them
  std::int64_t evictable_ = 0;  ///< known, used by nobody
  std::int64_t taken_ = 0;      ///< by steady decodes, not yet attributed
  std::int64_t readers_ = 1;    ///< that one pass over a prefix serves
  std::int64_t read_for_others_ = 0;
  std::vector<Own> owns_;
  KvCounters counters_;

 private:
  Cache& self() { return static_cast<Cache&>(*this); }
  const Cache& self() const { return static_cast<const Cache&>(*this); }
};

}  // namespace orrery::policies
