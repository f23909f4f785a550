// `ring`: every rank sends to the next one only.
//
// Reduce-scatter: in step t = 0 … n-2 rank r passes on shard r-1-t, to which it has added its own, so that rank r ends
// with shard r. All-gather: in n-1 further steps the finished shards go round. A message is the shard of the sender and
// the step alone, so a rank forwards what arrives and stores nothing but how many messages it still waits for.
// Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
//
// A shard is cut into pieces: one for each direction, channel and chunk. In the other direction ranks count backwards.
// Broadcast sends the chunks of the buffer round from the root.
#include <algorithm>
#include <memory>
#include <vector>

#include "hw/network/collective_parts.hpp"

namespace orrery::hw {
namespace {

/// Neighbours and pieces, common to both classes below.
struct RingShape {
  Member ranks = 1;
  std::uint32_t lanes = 1;  // channels in all directions: piece p travels in lane p % lanes
  std::uint32_t pieces = 1;
  bool bidirectional = false;

  RingShape(const RingParams& params, const CollectiveSpec& spec, std::int64_t largest)
      : ranks(static_cast<Member>(spec.ranks)), bidirectional(params.bidirectional) {
    const std::int64_t all_lanes = params.channels * (bidirectional ? 2 : 1);
    // Each rank receives at most 2 (n-1) pieces-ful of messages, counted in 32 bits.
    const std::int64_t limit = (std::int64_t{1} << 31) / (spec.ranks * all_lanes);
    const std::int64_t in_lane = largest / all_lanes + (largest % all_lanes != 0 ? 1 : 0);
    lanes = static_cast<std::uint32_t>(all_lanes);
    pieces = static_cast<std::uint32_t>(all_lanes *
                                        chunk_count(in_lane, params.chunks, params.chunk_bytes, limit, spec.where));
  }

  bool backwards(std::uint32_t lane) const { return bidirectional && (lane & 1U) != 0; }
  Member next(Member rank, std::uint32_t lane) const {
    if (backwards(lane)) return rank == 0 ? ranks - 1 : rank - 1;
    return rank + 1 == ranks ? 0 : rank + 1;
  }
  /// Pieces that go forwards, or backwards, among the first `count`.
  std::uint32_t going(std::int64_t count, bool back) const {
    const auto all = static_cast<std::uint32_t>(count);
    if (!bidirectional) return back ? 0 : all;
    return back ? all / 2 : (all + 1) / 2;
  }
};

class Ring final : public CollectiveSchedule {
 public:
  Ring(const RingParams& params, const CollectiveSpec& spec)
      : shards_(Shards::of(spec)), shape_(params, spec, shards_.largest()), missing_(shape_.ranks, 0) {
    const Member n = shape_.ranks;
    begin_ = spec.kind == CollectiveKind::all_gather ? n - 1 : 0;
    end_ = spec.kind == CollectiveKind::reduce_scatter ? n - 1 : 2 * (n - 1);
    for (const bool back : {false, true}) count_missing(back);
  }

  void enter(Member rank, MessageSink& sink) override {
    if (begin_ < end_) {
      for (std::uint32_t piece = 0; piece < shape_.pieces; ++piece) {
        const std::uint32_t lane = piece % shape_.lanes;
        const std::int64_t bytes =
            part_bytes(shards_.bytes(shard(rank, begin_, shape_.backwards(lane))), shape_.pieces, piece);
        if (bytes > 0) sink.send({rank, shape_.next(rank, lane), lane, bytes, tag(begin_, piece)});
      }
    }
    if (missing_[rank] == 0) sink.finished(rank);
  }

  void arrived(const Message& message, MessageSink& sink) override {
    const Member rank = message.to;
    if ((message.tag & kStepMask) + 1 < end_)
      sink.send({rank, shape_.next(rank, message.channel), message.channel, message.bytes, message.tag + 1});
    if (--missing_[rank] == 0) sink.finished(rank);
  }

  void describe(const Message& message, std::vector<Piece>& pieces) const override {
    const auto step = static_cast<std::uint32_t>(message.tag & kStepMask);
    const auto piece = static_cast<std::int64_t>(message.tag >> 32);
    const std::size_t s = shard(message.from, step, shape_.backwards(message.channel));
    pieces.push_back({shards_.first(s) + part_first(shards_.bytes(s), shape_.pieces, piece), message.bytes,
                      step + 1 < shape_.ranks});
  }

 private:
  static constexpr std::uint64_t kStepMask = 0xffffffffULL;
  static std::uint64_t tag(std::uint32_t step, std::uint32_t piece) { return std::uint64_t{piece} << 32 | step; }

  std::size_t shard(Member from, std::uint32_t step, bool back) const {
    const std::int64_t n = shape_.ranks;
    const std::int64_t ahead = std::int64_t{step} + 1;
    return static_cast<std::size_t>(((back ? from + ahead : from - ahead) % n + n) % n);
  }

  /// In a reduce-scatter every shard passes a rank but the one that its sender ends with, in an all-gather every one
  /// but its own.
  void count_missing(bool back) {
    const Member n = shape_.ranks;
    if (n == 1) return;
    std::uint64_t all = 0;
    const auto pieces_of = [&](std::size_t i) {
      return shape_.going(parts_used(shards_.bytes(i), shape_.pieces), back);
    };
    for (Member i = 0; i < n; ++i) all += pieces_of(i);
    for (Member rank = 0; rank < n; ++rank) {
      const Member sender = back ? (rank + 1) % n : (rank + n - 1) % n;
      std::uint64_t count = 0;
      if (begin_ == 0) count += all - pieces_of(sender);
      if (end_ > n - 1) count += all - pieces_of(rank);
      missing_[rank] += static_cast<std::uint32_t>(count);
    }
  }

  Shards shards_;
  RingShape shape_;
  std::uint32_t begin_ = 0;  // first step, and one behind the last
  std::uint32_t end_ = 0;
  std::vector<std::uint32_t> missing_;  // messages that each rank still waits for
};

class RingBroadcast final : public CollectiveSchedule {
 public:
  RingBroadcast(const RingParams& params, const CollectiveSpec& spec)
      : shape_(params, spec, spec.bytes),
        bytes_(spec.bytes),
        root_(static_cast<Member>(spec.root)),
        used_(static_cast<std::uint32_t>(parts_used(bytes_, shape_.pieces))),
        missing_(shape_.ranks, used_) {
    missing_[root_] = 0;
  }

  void enter(Member rank, MessageSink& sink) override {
    if (rank == root_ && shape_.ranks > 1) {
      for (std::uint32_t piece = 0; piece < used_; ++piece) {
        const std::uint32_t lane = piece % shape_.lanes;
        sink.send({rank, shape_.next(rank, lane), lane, part_bytes(bytes_, shape_.pieces, piece), piece});
      }
    }
    if (missing_[rank] == 0) sink.finished(rank);
  }

  void arrived(const Message& message, MessageSink& sink) override {
    const Member rank = message.to;
    const Member next = shape_.next(rank, message.channel);
    if (next != root_) sink.send({rank, next, message.channel, message.bytes, message.tag});
    if (--missing_[rank] == 0) sink.finished(rank);
  }

  void describe(const Message& message, std::vector<Piece>& pieces) const override {
    const auto piece = static_cast<std::int64_t>(message.tag);
    pieces.push_back({part_first(bytes_, shape_.pieces, piece), message.bytes, false});
  }

 private:
  RingShape shape_;
  std::int64_t bytes_;
  Member root_;
  std::uint32_t used_;
  std::vector<std::uint32_t> missing_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> make_ring(const RingParams& params, const CollectiveSpec& spec) {
  check_spec("ring", spec);
  if (spec.kind == CollectiveKind::broadcast) return std::make_unique<RingBroadcast>(params, spec);
  return std::make_unique<Ring>(params, spec);
}

}  // namespace orrery::hw
