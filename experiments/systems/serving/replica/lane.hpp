// What the scheduler of a pipeline (LaneScheduler) sees of a lane: who runs in it, and what it may ask of it between
// two batches.
#pragma once

#include <cstdint>

#include "experiments/systems/serving/replica/batch_builder.hpp"
#include "experiments/systems/serving/replica/books.hpp"
#include "experiments/systems/serving/replica/flight.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"
#include "experiments/systems/serving/replica/steady_decodes.hpp"
#include "experiments/systems/serving/replica/tier_copies.hpp"

namespace orrery::experiments {

/// Whose lane it is.
class LaneOwner {
 public:
  virtual ~LaneOwner() = default;
  /// Decides on the next batch, which begins, unless there is none.
  virtual void take_turn() = 0;
  /// A sequence that runs goes back to the queue; the policy is told.
  virtual void give_up(policies::SeqId id, policies::Preempt how) = 0;
};

class Lane {
 public:
  /// `owner` and `on` must outlive it.
  Lane(LaneOwner& owner, const FlightParts& on, Flight& flight, const ReplicaParts& parts)
      : owner_(owner), on_(on), flight_(flight), engine_(*parts.engine), number_(parts.lane) {}

  void take_turn() { owner_.take_turn(); }
  /// The latest admission here makes room for another lane.
  void give_up_latest(policies::Preempt how);
  /// The latest admitted decodes of another lane, so many, go on in this one.
  void take_decodes(Lane& other, std::int64_t count);
  /// All that runs in another lane goes on in this one.
  void take_over(Lane& other);
  /// Cuts the batch in flight; all of the replica's lanes are evacuated after that.
  void halt() { flight_.cut(); }

  bool iterating() const { return flight_.under_way(); }
  /// Copies back to it are under way.
  bool loading() const { return on_.copies.loading(); }
  const SequenceTable& sequences() const { return on_.sequences; }
  TokenSums tokens() const { return token_sums(on_.sequences, on_.steady.clock()); }
  std::int32_t mode() const { return on_.batch.shape().mode; }
  void set_mode(std::int32_t mode) { on_.batch.set_mode(mode); }

 private:
  void move_here(Lane& other, policies::SeqId id);

  LaneOwner& owner_;
  FlightParts on_;
  Flight& flight_;
  sim::Engine& engine_;
  std::int32_t number_;
};

}  // namespace orrery::experiments
