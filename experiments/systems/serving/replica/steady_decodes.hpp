// The decodes of a replica that take one token a step through all layers, all alike ("steady").
//
// A clock counts their steps, and everything about them follows from it: context (a sum that grows by their number a
// step), ends (a heap by clock), blocks (BlockGrowth). A decode joins when it has emitted a token by itself, and leaves
// when it ends, is preempted, or gets an item of its own; its counts are then brought up to the clock. The gaps between
// their tokens are alike too, but for the first of one that has just joined ("fresh").
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/systems/serving/observe/gap_history.hpp"
#include "experiments/systems/serving/replica/block_growth.hpp"
#include "experiments/systems/serving/replica/leap.hpp"
#include "experiments/systems/serving/replica/parts.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"

namespace orrery::experiments {

class SteadyDecodes {
 public:
  SteadyDecodes(SequenceTable& sequences, const ReplicaParts& parts);

  std::int64_t clock() const { return clock_; }
  std::int64_t count() const { return count_; }
  /// Tokens a step.
  std::int64_t branches() const { return branches_; }
  /// Tokens that the next step attends to, the new ones included.
  std::int64_t context() const { return kv_tokens_ + branches_; }
  /// Of branches(), those past the warm-up.
  std::int64_t measured() const { return measured_; }
  const BlockGrowth& growth() const { return growth_; }
  /// Whether some reserve for themselves at every step.
  bool self_growing() const { return self_growing_ > 0; }
  /// Blocks that the next step takes.
  std::int64_t blocks_of_a_step() const;
  /// With an SLO for TBT.
  const std::optional<GapHistory>& gaps() const { return gaps_; }

  /// A decode that just emitted by itself (`fresh`), or goes on, joins those that step together.
  void enter(policies::SeqId id, bool fresh);
  /// A steady decode becomes one by itself. `kv_ahead` tokens more than it has are covered by blocks taken for an
  /// iteration under way.
  void leave(policies::SeqId id, std::int64_t kv_ahead = 0);
  /// Those that have filled what they had reserved take blocks from now on. Before a decision.
  void start_growing() {
    if (!growers_.empty() && growers_.front().clock <= clock_) pop_growers();
  }
  /// A leap of `iterations` begins: takes the blocks of its first step. Returns how many of them there can be before
  /// one of the decodes ends or begins to take blocks, or blocks lack.
  std::int64_t begin(std::int64_t iterations);
  /// `steps` steps are over, the last one at `end`.
  void step(std::int64_t steps, const ExactTime& end);
  /// TBTs of the iterations [from, upto) of a leap; before step().
  void book_gaps(const Leap& leap, std::int64_t from, std::int64_t upto);
  /// One whose last token came with the last step, until there is none; it has left.
  std::optional<policies::SeqId> next_ended() {
    if (ends_.empty() || ends_.front().clock > clock_) return std::nullopt;
    return pop_ended();
  }

 private:
  /// Something that happens to a decode at a value of the clock.
  struct ClockEvent {
    std::int64_t clock, order;
    policies::SeqId seq;
    /// Both are not negative, so they compare as one number, without a branch.
    unsigned __int128 key() const {
      return static_cast<unsigned __int128>(clock) << 64 | static_cast<std::uint64_t>(order);
    }
    friend bool operator>(const ClockEvent& a, const ClockEvent& b) { return a.key() > b.key(); }
  };
  SteadyState& state(policies::SeqId id) { return sequences_.account(id).steady; }
  bool measured(policies::SeqId id) const { return metrics_.measures(sequences_[id].arrived); }
  bool ends_at(const ClockEvent& event) const;
  void pop_growers();
  std::optional<policies::SeqId> pop_ended();
  void grow_from(policies::SeqId id, std::int64_t capacity);
  void reserve_own();
  std::int64_t next_event();
  static void push(std::vector<ClockEvent>& heap, const ClockEvent& event);
  static ClockEvent pop(std::vector<ClockEvent>& heap);

  SequenceTable& sequences_;
  policies::KvCache& kv_;
  ServingMetrics& metrics_;
  std::int32_t lane_;
  std::int64_t ps_per_tick_;
  std::int64_t clock_ = 0;
  std::int64_t count_ = 0;
  std::int64_t branches_ = 0;
  std::int64_t kv_tokens_ = 0;  // in the cache, over branches
  std::int64_t measured_ = 0;
  std::vector<ClockEvent> ends_;  // heaps, least clock first; stale entries are dropped as they come up
  std::vector<ClockEvent> growers_;
  BlockGrowth growth_;
  std::int64_t self_growing_ = 0;
  std::vector<policies::SeqId> fresh_;
  ExactTime last_;  // when the last step ended
  std::optional<GapHistory> gaps_;
};

}  // namespace orrery::experiments
