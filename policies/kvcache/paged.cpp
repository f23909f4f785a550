// Paged KV cache: fixed blocks allocated on demand, so that a sequence wastes less than one block.
//
// Source: vLLM / PagedAttention (SOSP 2023), sections 4.1-4.3, without sharing between sequences. Which block a token
// lands in does not change any cost, so the cache counts blocks and keeps no table of them.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "policies/kvcache/kvcache.hpp"

namespace orrery::policies {
namespace {

struct PagedParams {
  std::int64_t block_tokens = 16;

  static constexpr auto fields() {
    return std::tuple{sim::field("block_tokens", &PagedParams::block_tokens, sim::Unit::tokens, sim::between(1, 65536),
                                 "Tokens of one sequence that share a block.")};
  }
};

class PagedCache final : public KvCache {
 public:
  PagedCache(const PagedParams& params, const KvGeometry& geometry)
      : block_tokens_(params.block_tokens), block_bytes_(params.block_tokens * geometry.bytes_per_token) {
    total_ = block_bytes_ > 0 ? std::max<std::int64_t>(0, geometry.bytes_available / block_bytes_) : 0;
    free_ = total_;
  }

  std::int64_t total_blocks() const override { return total_; }
  std::int64_t block_bytes() const override { return block_bytes_; }
  std::int64_t free_blocks() const override { return free_; }
  std::int64_t blocks_for(std::int64_t tokens) const override { return (tokens + block_tokens_ - 1) / block_tokens_; }
  std::int64_t held_blocks(SeqId seq) const override { return seq.index < held_.size() ? held_[seq.index] : 0; }
  std::int64_t capacity(SeqId id, const Sequence& seq) const override {
    return held_blocks(id) / seq.branches * block_tokens_;
  }
  std::int64_t used_bytes() const override { return (total_ - free_) * block_bytes_; }
  std::int64_t growth_tokens() const override { return block_tokens_; }

  bool reserve(SeqId id, const Sequence& seq, std::int64_t tokens) override {
    if (id.index >= held_.size()) held_.resize(id.index + 1, 0);
    const std::int64_t missing = blocks_to_grow(id, seq, tokens);
    if (missing > free_) return false;
    held_[id.index] += missing;
    free_ -= missing;
    return true;
  }

  void take(std::int64_t blocks) override {
    if (blocks > free_) throw std::logic_error("paged cache: more blocks taken than are free");
    free_ -= blocks;
    taken_ += blocks;
  }

  void settle(SeqId id, const Sequence& seq, std::int64_t tokens) override {
    const std::int64_t own = blocks_to_grow(id, seq, tokens);
    held_[id.index] += own;
    taken_ -= own;
    if (taken_ < 0) throw std::logic_error("paged cache: a sequence settles blocks nobody took");
  }

  void release(SeqId id, const Sequence&, std::int64_t, Leave) override {
    if (id.index >= held_.size()) return;
    free_ += held_[id.index];
    held_[id.index] = 0;
    if (free_ > total_) throw std::logic_error("paged cache: more blocks free than there are");
  }

 private:
  std::int64_t block_tokens_;
  std::int64_t block_bytes_;
  std::int64_t total_ = 0;
  std::int64_t free_ = 0;
  std::int64_t taken_ = 0;  // by steady decodes, not yet attributed
  std::vector<std::int64_t> held_;
};

}  // namespace

void add_paged(KvCacheRegistry& registry) {
  registry.add<PagedParams>("paged", "Fixed blocks on demand, no sharing (vLLM, SOSP 2023).",
                            [](const PagedParams& params, const KvGeometry& geometry) -> std::unique_ptr<KvCache> {
                              return std::make_unique<PagedCache>(params, geometry);
                            });
}

}  // namespace orrery::policies
