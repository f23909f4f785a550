// `halving_doubling`: log2(n) exchanges of halves, and their reverse; see the header for the plan.
//
// A rank's state is the step whose message it waits for and a bit for every step whose message is here: a partner may
// be ahead.
#include "hw/network/collective_halving_doubling.hpp"

#include <memory>
#include <vector>

namespace orrery::hw {
namespace {

class HalvingDoubling final : public CollectiveSchedule {
 public:
  explicit HalvingDoubling(const CollectiveSpec& spec) : plan_(spec), state_(static_cast<std::size_t>(spec.ranks)) {}

  void enter(Member rank, MessageSink& sink) override {
    if (plan_.is_folded(rank)) {
      send(rank, rank + 1, plan_.given(rank), 0, sink);
      if (plan_.served(rank).bytes == 0) sink.finished(rank);
      return;
    }
    go_on(rank, sink);
  }

  void arrived(const Message& message, MessageSink& sink) override {
    if (plan_.is_folded(message.to)) {
      sink.finished(message.to);
      return;
    }
    state_[message.to].here |= 1ULL << message.tag;
    go_on(message.to, sink);
  }

  void describe(const Message& message, std::vector<Piece>& pieces) const override {
    if (message.tag == 0) {
      pieces.push_back(plan_.given(message.from));
    } else if (message.tag > plan_.steps()) {
      pieces.push_back(plan_.served(message.to));
    } else {
      pieces.push_back(plan_.sent(plan_.slot(message.from), static_cast<unsigned>(message.tag)));
    }
  }

 private:
  struct State {
    std::uint64_t here = 0;  // steps whose message has arrived; at most 2 * 24 + 2
    std::uint32_t step = 0;  // waits for the message of this one
  };

  static void send(Member from, Member to, const Piece& piece, unsigned step, MessageSink& sink) {
    if (piece.bytes > 0) sink.send({from, to, 0, piece.bytes, step});
  }

  bool waits(Member rank, const State& state) const {
    if ((state.here >> state.step & 1) != 0) return false;
    const Member slot = plan_.slot(rank);
    if (state.step == 0) return slot < plan_.folded() && plan_.given(rank - 1).bytes > 0;
    return plan_.sent(plan_.partner(slot, state.step), state.step).bytes > 0;
  }

  /// Takes all steps whose messages are here, sending what each next one exchanges.
  void go_on(Member rank, MessageSink& sink) {
    State& state = state_[rank];
    const Member slot = plan_.slot(rank);
    while (!waits(rank, state)) {
      if (++state.step <= plan_.steps()) {
        send(rank, plan_.rank(plan_.partner(slot, state.step)), plan_.sent(slot, state.step), state.step, sink);
        continue;
      }
      if (slot < plan_.folded()) send(rank, rank - 1, plan_.served(rank - 1), state.step, sink);
      sink.finished(rank);
      return;
    }
  }

  HalvingDoublingPlan plan_;
  std::vector<State> state_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> make_halving_doubling(const CollectiveSpec& spec) {
  check_spec("halving_doubling", spec);
  return std::make_unique<HalvingDoubling>(spec);
}

}  // namespace orrery::hw
