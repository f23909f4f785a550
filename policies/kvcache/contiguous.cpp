// Contiguous KV cache: every sequence has one slab, as long as what was reserved for it, placed first fit.
//
// The memory managers before paging: holes between slabs are external fragmentation, what is reserved and never used
// internal. Source: what PagedAttention (SOSP 2023, section 3.1) says of FasterTransformer and Orca. What can be had at
// once is the largest hole, so a policy never counts on one that is not there (it may admit fewer in one decision than
// would fit in several holes). A slab that has to grow takes the hole behind it; where there is none, all slabs are
// moved together and the copied tokens are counted (they take no time: no published system does this).
#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "policies/kvcache/kvcache.hpp"

namespace orrery::policies {
namespace {

struct ContiguousParams {
  static constexpr auto fields() { return sim::FieldTable<ContiguousParams, 0>(); }
};

class ContiguousCache final : public KvCache {
 public:
  explicit ContiguousCache(const KvGeometry& geometry) : token_bytes_(geometry.bytes_per_token) {
    total_ = token_bytes_ > 0 ? std::max<std::int64_t>(0, geometry.bytes_available / token_bytes_) : 0;
    add_hole(0, total_);
  }

  std::int64_t total_blocks() const override { return total_; }
  std::int64_t block_bytes() const override { return token_bytes_; }
  std::int64_t free_blocks() const override { return sizes_.empty() ? 0 : *sizes_.rbegin(); }
  std::int64_t blocks_for(std::int64_t tokens) const override { return tokens; }
  std::int64_t held_blocks(SeqId id) const override { return id.index < slabs_.size() ? slabs_[id.index].size : 0; }
  std::int64_t capacity(SeqId id, const Sequence& seq) const override { return held_blocks(id) / seq.branches; }
  std::int64_t used_bytes() const override { return used_ * token_bytes_; }
  std::int64_t pieces(SeqId id) const override { return held_blocks(id) > 0 ? 1 : 0; }
  std::int64_t total_tokens() const override { return total_; }
  std::int64_t allocated_tokens() const override { return used_; }
  bool reports_split() const override { return true; }
  KvCounters counters() const override { return counters_; }

  bool reserve(SeqId id, const Sequence& seq, std::int64_t tokens) override {
    if (id.index >= slabs_.size()) slabs_.resize(id.index + 1);
    const std::int64_t want = blocks_of(seq, tokens);
    Slab& slab = slabs_[id.index];
    if (want <= slab.size) return true;
    if (slab.size == 0) return place(slab, want);
    if (!extend(slab, want)) {
      if (total_ - used_ < want - slab.size) return false;
      move_together(id);
      extend(slab, want);
    }
    return true;
  }

  void release(SeqId id, const Sequence&, std::int64_t, Leave) override {
    if (id.index >= slabs_.size() || slabs_[id.index].size == 0) return;
    used_ -= slabs_[id.index].size;
    add_hole(slabs_[id.index].start, slabs_[id.index].size);
    slabs_[id.index] = {};
  }

 private:
  struct Slab {
    std::int64_t start = 0, size = 0;
  };
  using Hole = std::map<std::int64_t, std::int64_t>::iterator;

  void add_hole(std::int64_t start, std::int64_t size) {
    if (size == 0) return;
    const auto next = holes_.lower_bound(start);
    if (next != holes_.end() && next->first == start + size) {
      size += next->second;
      drop_hole(next);
    }
    const auto after = holes_.lower_bound(start);
    if (after != holes_.begin() && std::prev(after)->first + std::prev(after)->second == start) {
      start = std::prev(after)->first;
      size += std::prev(after)->second;
      drop_hole(std::prev(after));
    }
    holes_[start] = size;
    sizes_.insert(size);
  }
  void drop_hole(Hole hole) {
    sizes_.erase(sizes_.find(hole->second));
    holes_.erase(hole);
  }
  /// Takes `size` tokens from the front of a hole.
  void cut(Hole hole, std::int64_t size) {
    const std::int64_t start = hole->first;
    const std::int64_t left = hole->second - size;
    drop_hole(hole);
    used_ += size;
    if (left > 0) {
      holes_[start + size] = left;
      sizes_.insert(left);
    }
  }
  bool place(Slab& slab, std::int64_t size) {
    const auto hole = std::find_if(holes_.begin(), holes_.end(), [&](const auto& one) { return one.second >= size; });
    if (hole == holes_.end()) return false;
    slab = {hole->first, size};
    cut(hole, size);
    return true;
  }
  bool extend(Slab& slab, std::int64_t size) {
    const auto hole = holes_.find(slab.start + slab.size);
    if (hole == holes_.end() || hole->second < size - slab.size) return false;
    cut(hole, size - slab.size);
    slab.size = size;
    return true;
  }
  /// Moves all slabs to the front, that of `last` behind the others.
  void move_together(SeqId last) {
    std::vector<Slab*> order;
    for (Slab& slab : slabs_)
      if (slab.size > 0 && &slab != &slabs_[last.index]) order.push_back(&slab);
    std::sort(order.begin(), order.end(), [](const Slab* a, const Slab* b) { return a->start < b->start; });
    order.push_back(&slabs_[last.index]);
    std::int64_t at = 0;
    for (Slab* slab : order) {
      if (slab->start != at) counters_.moved_tokens += slab->size;
      slab->start = at;
      at += slab->size;
    }
    holes_.clear();
    sizes_.clear();
    add_hole(at, total_ - at);
  }

  std::int64_t token_bytes_;
  std::int64_t total_ = 0, used_ = 0;
  std::vector<Slab> slabs_;
  std::map<std::int64_t, std::int64_t> holes_;  // size by start
  std::multiset<std::int64_t> sizes_;
  KvCounters counters_;
};

}  // namespace

void add_contiguous(KvCacheRegistry& registry) {
  registry.add<ContiguousParams>("contiguous", "One slab per sequence, as long as its reservation, placed first fit.",
                                 [](const ContiguousParams&, const KvGeometry& geometry) -> std::unique_ptr<KvCache> {
                                   return std::make_unique<ContiguousCache>(geometry);
                                 });
}

}  // namespace orrery::policies
