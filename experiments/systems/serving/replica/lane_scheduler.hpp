// One scheduler over the lanes of a pipelined replica: one queue, one pool of KV blocks, one batching policy, and as
// many batches in flight as there are lanes (Sarathi-Serve's scheduler, vLLM 1's batch queue).
//
// Whenever a lane has no batch in flight and there is work, it asks the policy for the next one, the lane with the
// earliest admission first. The policy sees the sequences of the lane, the queue, and the blocks that are free. What a
// batch had stays with its lane when it has left the last stage; lanes that have nothing take an even share of the
// decodes of those that are between two batches, so that the pipeline stays full (the published schedulers leave a
// batch of decodes together). Who has to make room is the latest admission of all lanes: a policy that would preempt an
// earlier one waits until the later one is between two batches. A policy that switches the mode (a layout) is asked
// again once nothing is in flight, with all sequences in its view. The host takes batches one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/replica/instants.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"
#include "policies/batching/batching.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

class Lane;
class StagePipe;

/// How a lane gets room that its policy would take from its own sequences.
enum class RoomFrom : std::uint8_t {
  itself,  ///< no later admission runs in another lane
  others,  ///< a later one was preempted: ask the policy again
  later    ///< later ones are in flight: ask again when they are through
};

/// Sequences of the other lanes, and tokens in their caches.
struct Elsewhere {
  std::int64_t sequences = 0, kv_tokens = 0;
};

class LaneScheduler final : private TurnTaker, private sim::EventHandler {
 public:
  /// `pipe` says how many stages a mode has; all must outlive it.
  LaneScheduler(sim::Engine& engine, Instants& instants, const StagePipe& pipe)
      : engine_(engine), instants_(instants), number_(instants.add(*this)), pipe_(pipe) {}
  /// All lanes, before any has work.
  void add(Lane& lane) { lanes_.push_back(&lane); }
  /// There may be work for a lane, given out once all else of this instant is through (Instants::settle() follows).
  void ready() { instants_.ask_turn(number_); }

  /// What a lane does not see.
  Elsewhere elsewhere(const Lane& lane) const;
  /// Whether nothing runs but in this lane.
  bool alone(const Lane& lane) const;
  /// Whether a decision for a lane may be applied as far as the others go; where another lane has made room, once it
  /// was taken again (`decide`). If not (dropped()), no batch begins here until others have landed.
  bool agrees(const Lane& lane, policies::BatchDecision& decision, const std::function<void()>& decide);
  bool dropped() const { return dropped_; }
  /// There may be work at this time (a copy is through).
  void ready_at(const ExactTime& time);
  /// The host works on a batch for so long, from `from` on or when it is through with the one before: until when.
  ExactTime host_until(const ExactTime& from, std::int64_t ps, std::int64_t ps_per_tick);
  /// The mode is another from now on, of all lanes.
  void set_mode(std::int32_t mode);
  /// Over lanes.
  TokenSums tokens() const;
  /// The lanes were emptied.
  void clear() {
    switching_ = false;
    host_free_ = {};
  }

 private:
  void take_turn() override;
  void on_event(std::uint64_t) override;
  std::vector<Lane*> between_batches() const;
  bool in_flight() const;
  bool may_switch(const Lane& lane);
  RoomFrom make_room(const Lane& lane, const std::vector<policies::Preemption>& victims);
  void spread();
  void give_out();

  sim::Engine& engine_;
  Instants& instants_;
  std::size_t number_;  // of its turns
  const StagePipe& pipe_;
  std::vector<Lane*> lanes_;
  bool switching_ = false;  // no batch begins
  bool dropped_ = false;    // the last decision
  ExactTime host_free_;
};

}  // namespace orrery::experiments
