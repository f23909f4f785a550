// `double_tree`: two binary trees over the ranks, each with half of the buffer, whose inner ranks differ.
//
// A rank that is inside one tree is a leaf of the other, so every rank sends and receives about the same, and all links
// of all ranks work. All-reduce: chunks are added up towards each tree's root and copied down again. Broadcast: the
// trees span all ranks but the root, which feeds the roots of both.
// Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009.
//
// The first tree is the in-order binary tree over positions 1 … m, where even positions are inside and odd ones leaves;
// the second is the same tree over mirrored (m even) or shifted (m odd) positions, where parities are swapped.
#include <array>
#include <memory>
#include <vector>

#include "hw/network/collective_parts.hpp"

namespace orrery::hw {
namespace {

constexpr Member kNoMember = ~Member{0};

/// Parent of a position 1 … m of the in-order tree; 0 for its root.
Member in_order_parent(Member position, Member m) {
  const Member low = position & (~position + 1);
  const Member up = (position ^ low) | (low << 1);
  return up <= m ? up : position ^ low;
}

class DoubleTree final : public CollectiveSchedule {
 public:
  DoubleTree(const DoubleTreeParams& params, const CollectiveSpec& spec)
      : reduces_(spec.kind == CollectiveKind::all_reduce),
        ranks_(static_cast<Member>(spec.ranks)),
        root_(static_cast<Member>(spec.root)),
        links_(std::size_t{2} * ranks_),
        missing_(ranks_, 0) {
    half_ = {spec.bytes - spec.bytes / 2, spec.bytes / 2};
    const std::int64_t limit = (std::int64_t{1} << 31) / std::max<std::int64_t>(spec.ranks, 8);
    chunks_ = static_cast<std::uint32_t>(chunk_count(half_[0], params.chunks, params.chunk_bytes, limit, spec.where));
    for (const unsigned tree : {0U, 1U}) {
      used_[tree] = static_cast<std::uint32_t>(parts_used(half_[tree], chunks_));
      build(tree);
    }
    if (reduces_) one_child_in_.assign((std::size_t{ranks_} * chunks_ + 63) / 64, 0);
    for (Member rank = 0; rank < ranks_; ++rank) count_missing(rank);
  }

  void enter(Member rank, MessageSink& sink) override {
    for (const unsigned tree : {0U, 1U}) {
      const Links& links = at(tree, rank);
      const bool source = reduces_ ? links.child[0] == kNoMember && links.parent != kNoMember : rank == root_;
      if (!source) continue;
      for (std::uint32_t chunk = 0; chunk < used_[tree]; ++chunk) {
        if (reduces_) {
          sink.send({rank, links.parent, tree, part_bytes(half_[tree], chunks_, chunk), chunk | kUp});
        } else {
          send_down(rank, tree, part_bytes(half_[tree], chunks_, chunk), chunk, sink);
        }
      }
    }
    if (missing_[rank] == 0) sink.finished(rank);
  }

  void arrived(const Message& message, MessageSink& sink) override {
    const Member rank = message.to;
    const Links& links = at(message.channel, rank);
    const std::uint64_t chunk = message.tag & ~kUp;
    if ((message.tag & kUp) == 0) {
      send_down(rank, message.channel, message.bytes, chunk, sink);
    } else if (links.child[1] == kNoMember || second_child(rank, chunk)) {
      if (links.parent != kNoMember) {
        sink.send({rank, links.parent, message.channel, message.bytes, message.tag});
      } else {
        send_down(rank, message.channel, message.bytes, chunk, sink);
      }
    }
    if (--missing_[rank] == 0) sink.finished(rank);
  }

  void describe(const Message& message, std::vector<Piece>& pieces) const override {
    const std::int64_t first = message.channel == 0 ? 0 : half_[0];
    const auto chunk = static_cast<std::int64_t>(message.tag & ~kUp);
    pieces.push_back(
        {first + part_first(half_[message.channel], chunks_, chunk), message.bytes, (message.tag & kUp) != 0});
  }

 private:
  static constexpr std::uint64_t kUp = 1ULL << 63;
  struct Links {
    Member parent = kNoMember;
    std::array<Member, 2> child{kNoMember, kNoMember};
  };

  Links& at(unsigned tree, Member rank) { return links_[std::size_t{tree} * ranks_ + rank]; }

  void connect(unsigned tree, Member parent, Member child) {
    at(tree, child).parent = parent;
    Links& links = at(tree, parent);
    links.child[links.child[0] == kNoMember ? 0 : 1] = child;
  }

  void build(unsigned tree) {
    const Member m = reduces_ ? ranks_ : ranks_ - 1;
    // Position to rank: the root of a broadcast stands outside, and the others follow it.
    const auto rank_at = [&](Member position) {
      if (tree == 1) position = m % 2 == 0 ? m + 1 - position : position % m + 1;
      return reduces_ ? position - 1 : (root_ + position) % ranks_;
    };
    for (Member position = 1; position <= m; ++position) {
      const Member parent = in_order_parent(position, m);
      if (parent != 0) {
        connect(tree, rank_at(parent), rank_at(position));
      } else if (!reduces_) {
        connect(tree, root_, rank_at(position));
      }
    }
  }

  void count_missing(Member rank) {
    for (const unsigned tree : {0U, 1U}) {
      const Links& links = at(tree, rank);
      if (links.parent != kNoMember) missing_[rank] += used_[tree];
      if (!reduces_) continue;
      for (const Member child : links.child)
        if (child != kNoMember) missing_[rank] += used_[tree];
    }
  }

  /// A rank is inside one tree only, so a bit a chunk tells whether one of its two children has been heard.
  bool second_child(Member rank, std::uint64_t chunk) {
    const std::size_t index = std::size_t{rank} * chunks_ + chunk;
    std::uint64_t& word = one_child_in_[index / 64];
    word ^= 1ULL << (index % 64);
    return (word >> (index % 64) & 1) == 0;
  }

  void send_down(Member rank, unsigned tree, std::int64_t bytes, std::uint64_t chunk, MessageSink& sink) {
    for (const Member child : at(tree, rank).child)
      if (child != kNoMember) sink.send({rank, child, tree, bytes, chunk});
  }

  bool reduces_;
  Member ranks_;
  Member root_;
  std::array<std::int64_t, 2> half_{};
  std::array<std::uint32_t, 2> used_{};  // chunks that are not empty
  std::uint32_t chunks_ = 1;
  std::vector<Links> links_;
  std::vector<std::uint32_t> missing_;
  std::vector<std::uint64_t> one_child_in_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> make_double_tree(const DoubleTreeParams& params, const CollectiveSpec& spec) {
  check_spec("double_tree", spec);
  return std::make_unique<DoubleTree>(params, spec);
}

}  // namespace orrery::hw
