// Buddy KV cache: every sequence has one chunk, its reservation rounded up to a power of two.
//
// The allocator under the Orca baselines of PagedAttention (SOSP 2023, section 6.1: "we assume Orca uses the buddy
// allocation algorithm"). The memory is cut into the powers of two that sum to it; the smallest free chunk that is
// large enough is halved until it fits, and halves that are both free join again. Counted in tokens. What can be had at
// once is the largest free chunk. A chunk that has to grow moves into a larger one; where there is none, all chunks are
// packed anew, largest first (which always succeeds if the sizes sum to no more than the memory), and the copied tokens
// are counted; copies take no time.
#include <algorithm>
#include <bit>
#include <set>
#include <stdexcept>
#include <vector>

#include "policies/kvcache/kvcache.hpp"

namespace orrery::policies {
namespace {

struct BuddyParams {
  static constexpr auto fields() { return sim::FieldTable<BuddyParams, 0>(); }
};

class BuddyCache final : public KvCache {
 public:
  explicit BuddyCache(const KvGeometry& geometry) : token_bytes_(geometry.bytes_per_token) {
    total_ = token_bytes_ > 0 ? std::max<std::int64_t>(0, geometry.bytes_available / token_bytes_) : 0;
    start_empty();
  }

  std::int64_t total_blocks() const override { return total_; }
  std::int64_t block_bytes() const override { return token_bytes_; }
  std::int64_t free_blocks() const override {
    for (std::size_t order = free_.size(); order-- > 0;)
      if (!free_[order].empty()) return std::int64_t{1} << order;
    return 0;
  }
  std::int64_t blocks_for(std::int64_t tokens) const override { return rounded(tokens); }
  std::int64_t blocks_of(const Sequence& seq, std::int64_t tokens) const override {
    return rounded(seq.branches * tokens);
  }
  std::int64_t held_blocks(SeqId id) const override { return id.index < chunks_.size() ? chunks_[id.index].size : 0; }
  std::int64_t capacity(SeqId id, const Sequence& seq) const override { return held_blocks(id) / seq.branches; }
  std::int64_t used_bytes() const override { return used_ * token_bytes_; }
  std::int64_t pieces(SeqId id) const override { return held_blocks(id) > 0 ? 1 : 0; }
  std::int64_t total_tokens() const override { return total_; }
  std::int64_t allocated_tokens() const override { return asked_; }
  bool reports_split() const override { return true; }
  KvCounters counters() const override { return counters_; }

  bool reserve(SeqId id, const Sequence& seq, std::int64_t tokens) override {
    if (id.index >= chunks_.size()) chunks_.resize(id.index + 1);
    Chunk& chunk = chunks_[id.index];
    const std::int64_t want = blocks_of(seq, tokens);
    const std::int64_t asked = std::max(chunk.asked, seq.branches * tokens);
    if (want > chunk.size) {
      if (total_ - used_ < want - chunk.size) return false;
      if (chunk.size == 0) {
        const auto start = allot(want);
        if (!start) return false;
        chunk.start = *start;
        used_ += want;
        chunk.size = want;
      } else {
        grow(chunk, want);
      }
    }
    asked_ += asked - chunk.asked;
    chunk.asked = asked;
    return true;
  }

  void release(SeqId id, const Sequence&, std::int64_t, Leave) override {
    if (id.index >= chunks_.size() || chunks_[id.index].size == 0) return;
    give_back(chunks_[id.index].start, chunks_[id.index].size);
    used_ -= chunks_[id.index].size;
    asked_ -= chunks_[id.index].asked;
    chunks_[id.index] = {};
  }

 private:
  struct Chunk {
    std::int64_t start = 0, size = 0;
    std::int64_t asked = 0;  // of it
  };

  static std::int64_t rounded(std::int64_t tokens) {
    return tokens <= 0 ? 0 : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(tokens)));
  }
  static std::size_t order_of(std::int64_t size) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(size)) - 1);
  }

  void start_empty() {
    free_.assign(64, {});
    std::int64_t at = 0;
    for (std::size_t order = 63; order-- > 0;) {
      const std::int64_t size = std::int64_t{1} << order;
      if ((total_ & size) == 0) continue;
      free_[order].insert(at);
      at += size;
    }
  }
  std::optional<std::int64_t> allot(std::int64_t size) {
    const std::size_t wanted = order_of(size);
    std::size_t order = wanted;
    while (order < free_.size() && free_[order].empty()) ++order;
    if (order == free_.size()) return std::nullopt;
    const std::int64_t start = *free_[order].begin();
    free_[order].erase(free_[order].begin());
    while (order > wanted) {
      --order;
      free_[order].insert(start + (std::int64_t{1} << order));
    }
    return start;
  }
  void give_back(std::int64_t start, std::int64_t size) {
    std::size_t order = order_of(size);
    for (;; ++order) {
      const std::int64_t buddy = start ^ (std::int64_t{1} << order);
      if (free_[order].erase(buddy) == 0) break;
      start = std::min(start, buddy);
    }
    free_[order].insert(start);
  }
  void grow(Chunk& chunk, std::int64_t size) {
    if (const auto start = allot(size)) {
      give_back(chunk.start, chunk.size);
      chunk.start = *start;
      counters_.moved_tokens += chunk.asked;
    } else {
      used_ += size - chunk.size;
      chunk.size = size;
      return pack();
    }
    used_ += size - chunk.size;
    chunk.size = size;
  }
  /// Places every chunk anew, the largest first.
  void pack() {
    std::vector<Chunk*> order;
    for (Chunk& chunk : chunks_)
      if (chunk.size > 0) order.push_back(&chunk);
    std::stable_sort(order.begin(), order.end(), [](const Chunk* a, const Chunk* b) { return a->size > b->size; });
    start_empty();
    for (Chunk* chunk : order) {
      const auto start = allot(chunk->size);
      if (!start) throw std::logic_error("buddy cache: chunks that fit cannot be packed");
      if (*start != chunk->start) counters_.moved_tokens += chunk->asked;
      chunk->start = *start;
    }
  }

  std::int64_t token_bytes_;
  std::int64_t total_ = 0, used_ = 0, asked_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<std::set<std::int64_t>> free_;  // starts of free chunks by the logarithm of their size
  KvCounters counters_;
};

}  // namespace

void add_buddy(KvCacheRegistry& registry) {
  registry.add<BuddyParams>(
      "buddy", "One chunk per sequence, rounded up to a power of two (the cache of the Orca baselines in SOSP 2023).",
      [](const BuddyParams&, const KvGeometry& geometry) -> std::unique_ptr<KvCache> {
        return std::make_unique<BuddyCache>(geometry);
      });
}

}  // namespace orrery::policies
