// The iterations of a replica that are under way: a leap, booked as it goes.
//
// One event ends the leap. Whoever needs the state in between has what is over booked (sync), has the leap stop at the
// end of the iteration under way (interrupt), or cuts that too; Instants says what is over and what has begun.
// Iterations last whole picoseconds and their sums are integers, so that leaping and stepping give the same files.
#pragma once

#include <cstdint>
#include <optional>

#include "experiments/systems/serving/replica/batch_builder.hpp"
#include "experiments/systems/serving/replica/books.hpp"
#include "experiments/systems/serving/replica/device_time.hpp"
#include "experiments/systems/serving/replica/instants.hpp"
#include "experiments/systems/serving/replica/leap.hpp"
#include "experiments/systems/serving/replica/parts.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"
#include "experiments/systems/serving/replica/steady_decodes.hpp"
#include "experiments/systems/serving/replica/tier_copies.hpp"
#include "experiments/systems/serving/replica/wire.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

/// What iterations act on.
struct FlightParts {
  SequenceTable& sequences;
  SteadyDecodes& steady;
  TierCopies& copies;
  BatchBuilder& batch;
  Books& books;
  DeviceTime& time;
};

class Flight : private Wire::Listener {
 public:
  /// `who` it is for Instants, which has it land().
  Flight(std::size_t who, const FlightParts& on, const ReplicaParts& parts);

  bool under_way() const { return under_way_; }
  /// Up to `iterations` iterations of the batch begin, with steady decodes in them or not; the devices take `price`,
  /// `extra_ps` is added to each.
  void begin(std::int64_t iterations, const IterationPrice& price, std::int64_t extra_ps, bool decodes);
  /// All of them are over and booked. Returns when the last one began.
  sim::Time land();
  /// Books those that are over by now.
  void sync();
  /// Ends the leap with the iteration under way, for somebody wants to be decided upon. Between two iterations it ends
  /// now, as land(): returns when the last one began.
  std::optional<sim::Time> interrupt();
  /// Has the next iteration take its blocks now.
  void take_blocks_ahead();
  /// Books the part of the iteration under way that is over, and ends it. Returns for how many steps blocks were taken
  /// that steady decodes do not count yet; again, if asked before the next one begins.
  std::int64_t cut();

 private:
  bool steady_takes_part() const { return leap_.decodes && on_.steady.count() > 0; }
  /// The collectives of its one iteration are through, or it has left the last stage of a pipeline.
  void sent(ExactTime end) override;
  void await_wire();
  void end_with(std::int64_t iterations);
  void complete(std::int64_t upto);
  void take_growth(std::int64_t iterations);
  void book_split(std::int64_t steps);
  void observe(std::int64_t from, std::int64_t upto);
  void book_part();

  sim::Engine& engine_;
  Instants& instants_;
  std::size_t who_;
  FlightParts on_;
  policies::KvCache& kv_;
  StagePipe* pipe_;
  LaneScheduler* scheduler_;
  Wire* wire_;
  Leap leap_;
  bool under_way_ = false;
  std::int64_t ahead_ = 0;  // what cut() returned last
};

}  // namespace orrery::experiments
