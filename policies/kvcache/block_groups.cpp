// Paged cache that gives a sequence neighbouring blocks, so that moving it takes few large copies.
//
// Source: the dynamic block group manager of FastSwitch (arXiv 2411.18424, section 3.1). A sequence grows into the
// block behind its last one if that is free; else it gets a run of its own: from the middle of the largest hole, so
// that both who stands before the hole and the newcomer can grow on, or, if the hole has not four times what is asked
// for, from its start. Blocks that decodes take are placed when the sequence leaves the steady group, not one by one as
// they fill. Counts are those of `paged`; only the number of runs (KvView::pieces) differs.
#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "policies/kvcache/branches.hpp"
#include "policies/kvcache/kvcache.hpp"

namespace orrery::policies {
namespace {

struct BlockGroupParams {
  std::int64_t block_tokens = 16;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("block_tokens", &BlockGroupParams::block_tokens, sim::Unit::tokens,
                                      sim::between(1, 65536), "Number of tokens of one sequence in a KV block.")};
  }
};

class BlockGroupCache final : public KvCache {
 public:
  BlockGroupCache(const BlockGroupParams& params, const KvGeometry& geometry)
      : block_tokens_(params.block_tokens), block_bytes_(params.block_tokens * geometry.bytes_per_token) {
    total_ = block_bytes_ > 0 ? std::max<std::int64_t>(0, geometry.bytes_available / block_bytes_) : 0;
    free_ = total_;
    add_hole(0, total_);
  }

  std::int64_t total_blocks() const override { return total_; }
  std::int64_t block_bytes() const override { return block_bytes_; }
  std::int64_t free_blocks() const override { return free_; }
  std::int64_t blocks_for(std::int64_t tokens) const override { return blocks_up(tokens, block_tokens_); }
  std::int64_t blocks_of(const Sequence& seq, std::int64_t tokens) const override {
    return shared_blocks_of(seq, tokens, block_tokens_);
  }
  std::int64_t held_blocks(SeqId id) const override { return id.index < owns_.size() ? owns_[id.index].held : 0; }
  std::int64_t pieces(SeqId id) const override {
    return id.index < owns_.size() ? std::ssize(owns_[id.index].runs) : 0;
  }
  std::int64_t capacity(SeqId id, const Sequence& seq) const override {
    return shared_capacity(seq, held_blocks(id), block_tokens_);
  }
  std::int64_t used_bytes() const override { return (total_ - free_) * block_bytes_; }
  std::int64_t growth_tokens() const override { return block_tokens_; }

  bool reserve(SeqId id, const Sequence& seq, std::int64_t tokens) override {
    const std::int64_t missing = blocks_to_grow(id, seq, tokens);
    if (missing > free_) return false;
    if (id.index >= owns_.size()) owns_.resize(id.index + 1);
    free_ -= missing;
    place(owns_[id.index], missing);
    return true;
  }
  void take(std::int64_t blocks) override {
    if (blocks > free_) throw std::logic_error("block groups: more blocks taken than are free");
    free_ -= blocks;
    taken_ += blocks;
  }
  void settle(SeqId id, const Sequence& seq, std::int64_t tokens) override {
    const std::int64_t own = blocks_to_grow(id, seq, tokens);
    taken_ -= own;
    if (taken_ < 0) throw std::logic_error("block groups: a sequence settles blocks nobody took");
    place(owns_[id.index], own);
  }
  void release(SeqId id, const Sequence&, std::int64_t, Leave) override {
    if (id.index >= owns_.size()) return;
    free_ += owns_[id.index].held;
    for (const Run& run : owns_[id.index].runs) add_hole(run.start, run.blocks);
    owns_[id.index] = {};
  }

 private:
  struct Run {
    std::int64_t start = 0, blocks = 0;
  };
  struct Own {
    std::vector<Run> runs;
    std::int64_t held = 0;
  };

  void add_hole(std::int64_t start, std::int64_t blocks) {
    if (blocks == 0) return;
    auto next = holes_.lower_bound(start);
    if (next != holes_.end() && next->first == start + blocks) {
      blocks += next->second;
      next = drop_hole(next);
    }
    if (next != holes_.begin() && std::prev(next)->first + std::prev(next)->second == start) {
      start = std::prev(next)->first;
      blocks += std::prev(next)->second;
      drop_hole(std::prev(next));
    }
    holes_[start] = blocks;
    by_size_.insert({blocks, start});
  }
  std::map<std::int64_t, std::int64_t>::iterator drop_hole(std::map<std::int64_t, std::int64_t>::iterator hole) {
    by_size_.erase({hole->second, hole->first});
    return holes_.erase(hole);
  }
  /// Takes [start, start + blocks) out of the hole that holds it.
  void cut(std::int64_t start, std::int64_t blocks) {
    const auto hole = std::prev(holes_.upper_bound(start));
    const std::int64_t first = hole->first, end = hole->first + hole->second;
    drop_hole(hole);
    add_hole(first, start - first);
    add_hole(start + blocks, end - start - blocks);
  }
  void place(Own& own, std::int64_t blocks) {
    own.held += blocks;
    while (blocks > 0) {
      if (!own.runs.empty()) {
        Run& last = own.runs.back();
        const auto behind = holes_.find(last.start + last.blocks);
        if (behind != holes_.end()) {
          const std::int64_t some = std::min(blocks, behind->second);
          cut(behind->first, some);
          last.blocks += some;
          blocks -= some;
          continue;
        }
      }
      if (by_size_.empty()) throw std::logic_error("block groups: no hole is left");
      const auto [size, start] = *by_size_.rbegin();
      const std::int64_t some = std::min(blocks, size);
      const std::int64_t at = size >= 4 * blocks ? start + size / 2 : start;
      cut(at, some);
      own.runs.push_back({at, some});
      blocks -= some;
    }
  }

  std::int64_t block_tokens_, block_bytes_;
  std::int64_t total_ = 0, free_ = 0;
  std::int64_t taken_ = 0;  // by steady decodes, not yet placed
  std::vector<Own> owns_;
  std::map<std::int64_t, std::int64_t> holes_;  // blocks by start; blocks taken and not yet placed are still in them
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;
};

}  // namespace

void add_block_groups(KvCacheRegistry& registry) {
  registry.add<BlockGroupParams>(
      "block_groups", "KV blocks on demand, neighbouring ones where possible (FastSwitch).",
      [](const BlockGroupParams& params, const KvGeometry& geometry) -> std::unique_ptr<KvCache> {
        return std::make_unique<BlockGroupCache>(params, geometry);
      });
}

}  // namespace orrery::policies
