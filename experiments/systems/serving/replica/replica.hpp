// A replica: one copy of a model on one group of devices, advanced an iteration at a time, or many at once.
//
// Loop: when iterations end (or a request arrives at an idle replica) the batching policy decides on the next; the
// replica applies the decision, asks what it costs and lets it begin. It knows nothing of any particular policy:
// chunks, layer ranges, drafts, variants and modes are all read from the decision.
//
//   SequenceTable   who has which slot, who waits, prefills, decodes, is paused
//   SteadyDecodes   the decodes that step together: their clock, ends, blocks and gaps
//   TierCopies      KV on its way to tiers and back
//   BatchBuilder    a decision as work
//   ReplicaPricer   what that costs
//   Flight          the iterations under way (a Leap): booked as they go, interrupted, cut
//   Completion      what iterations that are over did to their sequences
//   Books           counts, costs, observers
// Each knows those it is made with, none knows the replica.
//
// Leaps (design.md, section 5). A decision of steady decodes alone holds for as many iterations as the policy says, the
// price has its horizon for, no sequence ends and blocks last; they are one event. Whoever needs the state in between
// (an arrival, a router, a migration) makes the replica book what is over (sync) or stop at the end of the iteration
// under way (interrupt). What happens at one instant goes by the order that Instants keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/systems/serving/replica/batch_builder.hpp"
#include "experiments/systems/serving/replica/books.hpp"
#include "experiments/systems/serving/replica/completion.hpp"
#include "experiments/systems/serving/replica/device_time.hpp"
#include "experiments/systems/serving/replica/expert_foresight.hpp"
#include "experiments/systems/serving/replica/flight.hpp"
#include "experiments/systems/serving/replica/lane.hpp"
#include "experiments/systems/serving/replica/parts.hpp"
#include "experiments/systems/serving/replica/pricer.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"
#include "experiments/systems/serving/replica/steady_decodes.hpp"
#include "experiments/systems/serving/replica/tier_copies.hpp"

namespace orrery::experiments {

/// An iteration of a lane in lock step: how long it takes, and what its ranks send.
struct LaneStep {
  std::int64_t time_ps = 0;
  SentBytes sent;
};

class Replica final : private TurnTaker, private LaneOwner {
 public:
  explicit Replica(ReplicaParts parts);
  Replica(const Replica&) = delete;  // its parts know each other
  Replica& operator=(const Replica&) = delete;

  /// Takes a request now; it may be rejected at once. wake() follows. Its output so far
  /// (request.generated) counts as prompt to prefill, as far as request.ready_tokens does not bring its KV along.
  /// `first`: at the head of the queue.
  void submit(Request& request, bool first = false);
  /// Starts an iteration if none is under way and there is work, once all else of this instant is through.
  void wake() {
    ask_turn();
    parts_.instants->settle();
  }
  /// The same for one of several: Instants::settle() follows.
  void ask_turn();
  /// Books all iterations that are over by now: what the accessors below say is then exact.
  void sync() { flight_.sync(); }

  // Lanes in lock-step.
  /// Decides on an iteration that would start at `start`; false: there is none.
  bool plan(ExactTime start);
  /// What it would take by itself, stalls included.
  LaneStep planned() const { return {planned_.time_ps + time_.stall_ps, planned_.sent}; }
  /// It begins, and takes that.
  void go(const LaneStep& step);
  /// Whether there is work, and nothing that keeps it back.
  bool can_begin() const {
    return !sequences_.running().empty() || (sequences_.queued() > 0 && sequences_.leaving() == 0);
  }

  /// Reports whatever is still here as unfinished (the run was cut short), and the part of an iteration that was seen.
  void flush_unfinished();
  /// Takes every request away, cache and all (the replica fails, or is shut down), and cuts the iteration under way.
  /// The requests keep their output so far and have no KV; they are returned by order of arrival. Lanes that share a
  /// pool are all halted before the first is evacuated.
  std::vector<Request*> evacuate();

  // Migration and hand-over.
  /// Takes a running sequence out of the batch at the end of the iteration under way at the latest (call between
  /// decisions); its blocks stay until let_go(). Its request says how far it came: generated, ready_tokens.
  Request& take_out(policies::SeqId id);
  /// Gives back the blocks of a sequence that prefill_done() or take_out() took away. wake() follows.
  void let_go(policies::SeqId id);
  /// Has RequestSink::boundary() called between two decisions: at the end of the iteration under way, or at once.
  void ask_boundary();
  /// Sets blocks for `tokens` tokens aside (for a request to come); nothing if they are not to be had.
  std::optional<policies::SeqId> hold(std::int64_t tokens);
  /// Gives them back. wake() follows.
  void drop_hold(policies::SeqId id);

  const SequenceTable& sequences() const { return sequences_; }
  const policies::KvCache& kv() const { return *parts_.kv; }
  /// What iterations cost here.
  const policies::BatchPricer& pricer() const { return pricer_; }
  bool idle() const { return !flight_.under_way() && sequences_.empty(); }
  /// For the scheduler of a pipeline, and for lanes in lock-step.
  Lane& lane() { return lane_; }
  /// Switches from one mode to another.
  std::int64_t switches() const { return switches_; }
  /// What a batching policy would see: for routing, migration and load reports. Call sync() before.
  policies::BatchView view() const;
  /// Of what was booked.
  const ReplicaCounts& counts() const { return books_.counts(); }
  /// Cost of what was booked.
  RunCost cost() const { return books_.cost(); }

 private:
  void land() override;
  void take_turn() override;
  void give_up(policies::SeqId id, policies::Preempt how) override;
  bool settle_on_iteration();
  bool decide();
  void apply();
  void preempt(const policies::Preemption& preemption);
  void resume(policies::SeqId id);
  void admit(const policies::Admission& admission);
  void begin();
  std::int64_t iterations_ahead(const IterationPrice& price) const;
  void interrupt();
  void boundary(sim::Time last);

  ReplicaParts parts_;
  SequenceTable sequences_;
  DeviceTime time_;
  Books books_;
  SteadyDecodes steady_;
  std::optional<ReplayedForesight> foresight_;
  TierCopies copies_;
  BatchBuilder batch_;
  ReplicaPricer pricer_;
  std::size_t number_;  // of its turns
  Flight flight_;
  Lane lane_;
  Completion completion_;
  policies::BatchDecision decision_;
  IterationPrice planned_;  // in lock-step: of the iteration that is to begin
  bool boundary_asked_ = false;
  bool unsettled_ = false;  // in the middle of a boundary or a decision: whoever wakes it now comes too early
  std::int64_t switches_ = 0;
};

}  // namespace orrery::experiments
