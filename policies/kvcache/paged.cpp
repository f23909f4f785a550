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
  std::int64_t free_blocks() const override { return free_; }
  std::int64_t blocks_for(std::int64_t tokens) const override { return (tokens + block_tokens_ - 1) / block_tokens_; }
  std::int64_t held_blocks(SeqId seq) const override { return seq.index < held_.size() ? held_[seq.index] : 0; }
  std::int64_t capacity(SeqId seq) const override { return held_blocks(seq) * block_tokens_; }
  std::int64_t used_bytes() const override { return (total_ - free_) * block_bytes_; }

  bool reserve(SeqId seq, std::int64_t tokens) override {
    if (seq.index >= held_.size()) held_.resize(seq.index + 1, 0);
    const std::int64_t missing = blocks_to_grow(seq, tokens);
    if (missing > free_) return false;
    held_[seq.index] += missing;
    free_ -= missing;
    return true;
  }

  void release(SeqId seq) override {
    if (seq.index >= held_.size()) return;
    free_ += held_[seq.index];
    held_[seq.index] = 0;
    if (free_ > total_) throw std::logic_error("paged cache: more blocks free than there are");
  }

 private:
  std::int64_t block_tokens_;
  std::int64_t block_bytes_;
  std::int64_t total_ = 0;
  std::int64_t free_ = 0;
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
