// `direct`: every rank sends every part straight to the rank that is to have it.
//
// All-reduce is two phases: a rank that has added up its own shard sends it to all. A rank's messages follow one order,
// to r+1, r+2 … (so that at any time every receiver differs, the linear shift exchange) or to 0, 1 …; with a window it
// has so many under way and sends the next when one arrives (and its receiver has entered), else all leave at once and
// share the ports.
// The least latency of all algorithms where each pair has a link of its own; it takes n(n-1) messages.
#include <memory>
#include <vector>

#include "hw/network/collective_parts.hpp"

namespace orrery::hw {
namespace {

class Direct final : public CollectiveSchedule {
 public:
  Direct(const DirectParams& params, const CollectiveSpec& spec)
      : kind_(spec.kind),
        ranks_(static_cast<Member>(spec.ranks)),
        root_(static_cast<Member>(spec.root)),
        bytes_(spec.bytes),
        staggered_(params.staggered),
        window_(static_cast<std::uint32_t>(params.window)),
        shards_(Shards::of(spec)),
        pairs_(spec.pair_bytes),
        state_(ranks_) {
    turns_ = (ranks_ - 1) * (kind_ == CollectiveKind::all_reduce ? 2 : 1);
    Member senders = 0;  // that have something to give to everybody
    for (Member rank = 0; rank < ranks_; ++rank) senders += shards_.bytes(rank) > 0 ? 1 : 0;
    for (Member rank = 0; rank < ranks_; ++rank) count_missing(rank, senders);
  }

  void enter(Member rank, MessageSink& sink) override { go_on(rank, sink); }

  void arrived(const Message& message, MessageSink& sink) override {
    --state_[message.to].missing[message.tag];
    go_on(message.to, sink);
    if (window_ == 0) return;
    --state_[message.from].under_way;
    go_on(message.from, sink);
  }

  void describe(const Message& message, std::vector<Piece>& pieces) const override {
    const bool second = message.tag != 0;
    Piece piece{0, message.bytes, false};
    if (kind_ == CollectiveKind::all_to_all) {
      piece.first = pair_first(message.from, message.to);
    } else if (kind_ == CollectiveKind::all_gather || second) {
      piece.first = shards_.first(message.from);
    } else if (kind_ == CollectiveKind::reduce_scatter || kind_ == CollectiveKind::all_reduce) {
      piece.first = shards_.first(message.to);
      piece.reduce = true;
    }
    pieces.push_back(piece);
  }

 private:
  struct State {
    std::array<std::uint32_t, 2> missing{};  // messages it waits for, by phase
    std::uint32_t turn = 0;                  // next of its messages
    std::uint32_t under_way : 31 = 0;
    std::uint32_t finished : 1 = 0;
  };

  std::int64_t bytes(Member from, Member to, bool second) const {
    switch (kind_) {
      case CollectiveKind::all_reduce:
        return shards_.bytes(second ? from : to);
      case CollectiveKind::all_gather:
        return shards_.bytes(from);
      case CollectiveKind::reduce_scatter:
        return shards_.bytes(to);
      case CollectiveKind::all_to_all:
        return pairs_.empty() ? shards_.bytes(to) : pairs_[std::size_t{from} * ranks_ + to];
      case CollectiveKind::broadcast:
      case CollectiveKind::send_recv:
        return from == root_ ? bytes_ : 0;
    }
    return 0;
  }

  /// Messages that a rank waits for: in constant time unless every pair has bytes of its own.
  void count_missing(Member rank, Member senders) {
    std::array<std::uint32_t, 2>& missing = state_[rank].missing;
    const std::uint32_t from_senders = senders - (shards_.bytes(rank) > 0 ? 1 : 0);
    const std::uint32_t from_all = shards_.bytes(rank) > 0 ? ranks_ - 1 : 0;
    switch (kind_) {
      case CollectiveKind::all_reduce:
        missing = {from_all, from_senders};
        return;
      case CollectiveKind::all_gather:
        missing[0] = from_senders;
        return;
      case CollectiveKind::broadcast:
      case CollectiveKind::send_recv:
        missing[0] = rank != root_ && bytes_ > 0 ? 1 : 0;
        return;
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::all_to_all:
        break;
    }
    if (pairs_.empty()) {
      missing[0] = from_all;
      return;
    }
    for (Member from = 0; from < ranks_; ++from)
      if (from != rank && bytes(from, rank, false) > 0) ++missing[0];
  }

  Member peer(Member rank, std::uint32_t turn) const {
    if (!staggered_) return turn < rank ? turn : turn + 1;
    const Member to = rank + 1 + turn;
    return to < ranks_ ? to : to - ranks_;
  }

  /// Sends what may be sent. The second phase of a rank waits for the end of its first.
  void go_on(Member rank, MessageSink& sink) {
    State& state = state_[rank];
    const std::uint32_t limit = state.missing[0] == 0 ? turns_ : ranks_ - 1;
    while (state.turn < limit && (window_ == 0 || state.under_way < window_)) {
      const bool second = state.turn >= ranks_ - 1;
      const Member to = peer(rank, second ? state.turn - (ranks_ - 1) : state.turn);
      ++state.turn;
      const std::int64_t size = bytes(rank, to, second);
      if (size == 0) continue;
      if (window_ != 0) state.under_way = (state.under_way + 1) & 0x7fffffffU;
      sink.send({rank, to, 0, size, second ? 1ULL : 0ULL});
    }
    if (state.finished == 0 && state.turn == turns_ && state.missing[0] == 0 && state.missing[1] == 0) {
      state.finished = 1;
      sink.finished(rank);
    }
  }

  std::int64_t pair_first(Member from, Member to) const {
    if (pairs_.empty()) return from * bytes_ + shards_.first(to);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < std::size_t{from} * ranks_ + to; ++i) first += pairs_[i];
    return first;
  }

  CollectiveKind kind_;
  Member ranks_;
  Member root_;
  std::int64_t bytes_;
  bool staggered_;
  std::uint32_t window_;
  std::uint32_t turns_ = 0;  // messages of a rank, empty ones included
  Shards shards_;
  std::vector<std::int64_t> pairs_;
  std::vector<State> state_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> make_direct(const DirectParams& params, const CollectiveSpec& spec) {
  check_spec("direct", spec);
  return std::make_unique<Direct>(params, spec);
}

}  // namespace orrery::hw
