// `in_network`: switches add up and copy, along a tree over the links (SHARP); one level of it is NVLS.
//
// All-reduce: each edge of the tree carries each chunk once up, added up at every switch, and once down.
// Reduce-scatter: up as before, and the finished shard goes down to its owner alone. All-gather and broadcast: what a
// rank sends up is copied at every switch to all other edges. So a rank sends the buffer once, where a ring sends it
// 2(n-1)/n times. Graham et al., "Scalable hierarchical aggregation protocol (SHARP)", 2016; NCCL's NVLS is one switch
// level (there the reduction is a read by the owner of a shard: the same bytes on a link, plus a shard each way). Left
// out: what a switch can hold and how fast it adds; both belong to whoever carries the messages.
#include <memory>
#include <vector>

#include "hw/network/collective_parts.hpp"

namespace orrery::hw {
namespace {

class InNetwork final : public CollectiveSchedule {
 public:
  InNetwork(const InNetworkParams& params, const CollectiveSpec& spec)
      : kind_(spec.kind),
        ranks_(static_cast<Member>(spec.ranks)),
        root_(static_cast<Member>(spec.root)),
        parent_(spec.tree.parent),
        shards_(scatters() ? Shards::of(spec) : Shards(spec.bytes, 1)),
        missing_(ranks_, 0) {
    const std::int64_t members = static_cast<std::int64_t>(parent_.size());
    const std::int64_t limit = (std::int64_t{1} << 31) / (members * shards_.size());
    chunks_ = static_cast<std::uint32_t>(
        chunk_count(shards_.largest(), params.chunks, params.chunk_bytes, limit, spec.where));
    list_children();
    if (reduces()) heard_.assign(spec.tree.switches.size() * static_cast<std::size_t>(shards_.size()) * chunks_, 0);
    std::uint32_t all = 0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(shards_.size()); ++s) all += used(s);
    for (Member rank = 0; rank < ranks_; ++rank) count_missing(rank, all);
  }

  void enter(Member rank, MessageSink& sink) override {
    const auto shards = static_cast<std::uint32_t>(shards_.size());
    for (std::uint32_t s = 0; s < shards && ranks_ > 1; ++s) {
      if (kind_ == CollectiveKind::all_gather && s != rank) continue;
      if (kind_ == CollectiveKind::broadcast && rank != root_) continue;
      for (std::uint32_t chunk = 0; chunk < used(s); ++chunk)
        sink.send({rank, parent_[rank], kUp, part_bytes(shards_.bytes(s), chunks_, chunk), s * chunks_ + chunk});
    }
    if (missing_[rank] == 0) sink.finished(rank);
  }

  void arrived(const Message& message, MessageSink& sink) override {
    const Member at = message.to;
    if (at < ranks_) {
      if (--missing_[at] == 0) sink.finished(at);
      return;
    }
    if (reduces()) {
      reduce(at, message, sink);
      return;
    }
    // Copied to all edges but the one it came by.
    if (message.channel == kUp && parent_[at] != AggregationTree::kRoot)
      sink.send({at, parent_[at], kUp, message.bytes, message.tag});
    copy_down(at, message.channel == kUp ? message.from : at, message, sink);
  }

  void describe(const Message& message, std::vector<Piece>& pieces) const override {
    const std::size_t shard = message.tag / chunks_;
    const auto chunk = static_cast<std::int64_t>(message.tag % chunks_);
    pieces.push_back({shards_.first(shard) + part_first(shards_.bytes(shard), chunks_, chunk), message.bytes,
                      reduces() && message.channel == kUp});
  }

 private:
  static constexpr std::uint32_t kUp = 0;
  static constexpr std::uint32_t kDown = 1;

  bool scatters() const { return kind_ == CollectiveKind::all_gather || kind_ == CollectiveKind::reduce_scatter; }
  bool reduces() const { return kind_ == CollectiveKind::all_reduce || kind_ == CollectiveKind::reduce_scatter; }
  /// Chunks of a shard that are not empty.
  std::uint32_t used(std::size_t shard) const {
    return static_cast<std::uint32_t>(parts_used(shards_.bytes(shard), chunks_));
  }

  void list_children() {
    first_child_.assign(parent_.size() + 1, 0);
    for (const Member up : parent_)
      if (up != AggregationTree::kRoot) ++first_child_[up + 1];
    for (std::size_t m = 1; m < first_child_.size(); ++m) first_child_[m] += first_child_[m - 1];
    children_.resize(parent_.size());
    std::vector<std::uint32_t> next = first_child_;
    for (Member m = 0; m < parent_.size(); ++m)
      if (parent_[m] != AggregationTree::kRoot) children_[next[parent_[m]]++] = m;
  }

  void count_missing(Member rank, std::uint32_t all) {
    if (ranks_ == 1) return;
    switch (kind_) {
      case CollectiveKind::reduce_scatter:
        missing_[rank] = used(rank);
        return;
      case CollectiveKind::all_gather:
        missing_[rank] = all - used(rank);
        return;
      case CollectiveKind::broadcast:
        missing_[rank] = rank == root_ ? 0 : all;
        return;
      default:
        missing_[rank] = all;
    }
  }

  void reduce(Member at, const Message& message, MessageSink& sink) {
    if (message.channel == kUp) {
      const std::size_t chunk = (std::size_t{at} - ranks_) * static_cast<std::size_t>(shards_.size()) * chunks_ +
                                static_cast<std::size_t>(message.tag);
      if (++heard_[chunk] < first_child_[at + 1] - first_child_[at]) return;
      if (parent_[at] != AggregationTree::kRoot) {
        sink.send({at, parent_[at], kUp, message.bytes, message.tag});
        return;
      }
    }
    if (kind_ == CollectiveKind::all_reduce) {
      copy_down(at, at, message, sink);
    } else {
      sink.send({at, towards(at, static_cast<Member>(message.tag / chunks_)), kDown, message.bytes, message.tag});
    }
  }

  void copy_down(Member at, Member except, const Message& message, MessageSink& sink) {
    for (std::uint32_t i = first_child_[at]; i < first_child_[at + 1]; ++i) {
      const Member child = children_[i];
      if (child != except) sink.send({at, child, kDown, message.bytes, message.tag});
    }
  }

  /// Child of `at` on the way to `rank`: the tree is a few levels high.
  Member towards(Member at, Member rank) const {
    while (parent_[rank] != at) rank = parent_[rank];
    return rank;
  }

  CollectiveKind kind_;
  Member ranks_;
  Member root_;
  std::vector<Member> parent_;
  Shards shards_;
  std::vector<std::uint32_t> missing_;
  std::uint32_t chunks_ = 1;
  std::vector<std::uint32_t> first_child_;  // children of member m: children_[first_child_[m]] …
  std::vector<Member> children_;
  std::vector<std::uint32_t> heard_;  // children of which a switch has had a chunk
};

}  // namespace

std::unique_ptr<CollectiveSchedule> make_in_network(const InNetworkParams& params, const CollectiveSpec& spec) {
  check_spec("in_network", spec);
  return std::make_unique<InNetwork>(params, spec);
}

}  // namespace orrery::hw
