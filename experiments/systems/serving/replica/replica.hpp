// A replica: one copy of a model on one group of devices, advanced an iteration at a time, or many at once.
//
// Loop: when iterations end (or a request arrives at an idle replica) the batching policy decides on the next; the
// replica applies the decision, asks the iteration model for its price and schedules its end. It knows nothing of any
// particular policy: chunks, layer ranges, drafts, variants and modes are all read from the decision.
//
// Leaps (design.md, section 5). Decodes that take one token through all layers are "steady": a decode clock counts
// their steps, and everything about them follows from it: context (a sum that grows by their number a step), ends (a
// heap by clock), blocks (how many of them fill a block at each value of the clock modulo the block). A decision of
// steady decodes alone holds for as many iterations as the policy says, the price has its horizon for, no sequence
// ends and blocks last; they are one event. Whoever needs the state in between (an arrival, a router, a migration)
// makes the replica book what is over (sync) or stop at the end of the iteration under way (interrupt). Iterations
// last whole picoseconds and their sums are integers, so that leaping and stepping give the same files.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/observe/gap_history.hpp"
#include "experiments/systems/serving/observe/kv_outcome.hpp"
#include "experiments/systems/serving/observe/metrics.hpp"
#include "experiments/systems/serving/pricing/host_time.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "experiments/systems/serving/replica/stage_pipe.hpp"
#include "policies/batching/batching.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "policies/kvcache/tier.hpp"
#include "policies/speculation/speculation.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

class LockStep;

/// What a replica is made of; everything is borrowed and must outlive it, except the policies, which it owns.
struct ReplicaParts {
  sim::Engine* engine = nullptr;
  IterationModel* model = nullptr;
  ServingMetrics* metrics = nullptr;
  RequestSink* sink = nullptr;
  RunObserver* observer = nullptr;             ///< may be null
  policies::Acceptance* acceptance = nullptr;  ///< may be null: every draft is rejected
  policies::KvTier* tier = nullptr;            ///< may be null: swapping is recomputing
  const HostTime* host = nullptr;              ///< may be null: the host takes no time
  StagePipe* pipe = nullptr;                   ///< may be null: the model prices iterations from end to end
  LockStep* lock_step = nullptr;               ///< may be null: it begins its iterations by itself
  std::unique_ptr<policies::Batching> batching;
  std::unique_ptr<policies::KvCache> kv;
  std::unique_ptr<policies::Speculator> speculator;  ///< may be null: nobody proposes beside the batching policy
  policies::ReplicaLimits limits;
  std::int32_t index = 0;   ///< of the replica in the cluster
  std::int32_t stream = 0;  ///< see IterationRun
  bool leap = true;         ///< false: one iteration an event, for tests that both give the same
};

/// What one replica (or lane) counts for itself.
struct ReplicaCounts {
  std::int64_t iterations = 0, processed_tokens = 0, preemptions = 0, kv_peak_bytes = 0;
  __int128 busy_ps = 0;
  KvSplit split;                   ///< where the cache reports it
  __int128 swap_stall_ps = 0;      ///< that iterations waited for copies to and from tiers
  std::int64_t prompt_tokens = 0;  ///< of first admissions, …
  std::int64_t device_tokens = 0;  ///< … and what the cache had of them on the device
};

class Replica final : public sim::EventHandler, private policies::BatchPricer {
 public:
  explicit Replica(ReplicaParts parts);

  /// Takes a request now; it may be rejected at once. Call wake() after the last one of an instant. Its output so far
  /// (request.generated) counts as prompt to prefill, as far as request.ready_tokens does not bring its KV along.
  /// `first`: at the head of the queue.
  void submit(Request& request, bool first = false);
  /// Starts an iteration if none is under way and there is work, once all events of this instant are through.
  void wake();
  /// Iterations ended.
  void on_event(std::uint64_t payload) override;
  /// Books all iterations that are over by now: what the accessors below say is then exact.
  void sync();
  // Lanes in lock-step.
  /// Decides on an iteration that would start at `start`; false: there is none.
  bool plan(ExactTime start);
  /// How long it would take by itself, stalls included.
  std::int64_t planned_ps() const { return planned_.time_ps + stall_ps_; }
  /// It begins, and takes so long.
  void go(std::int64_t time_ps);
  /// Whether there is work, and nothing that keeps it back.
  bool can_begin() const { return !running_.empty() || (queued() > 0 && leaving_ == 0); }

  /// Reports whatever is still here as unfinished (the run was cut short), and the part of an iteration that was seen.
  void flush_unfinished();
  /// Takes every request away, cache and all (the replica fails, or is shut down), and cuts the iteration under way.
  /// The requests keep their output so far and have no KV; they are returned by order of arrival.
  std::vector<Request*> evacuate();

  // Migration and hand-over.
  /// The sequence of a request that runs here in decode and is no steady part of anything else; nothing if it waits,
  /// prefills, or is not here.
  std::optional<policies::SeqId> decoding_sequence(const Request& request) const;
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
  /// Whether this request, by its address and number, is one that runs here.
  bool holds(const Request& request, std::int64_t id) const;

  const policies::KvCache& kv() const { return *parts_.kv; }
  /// What iterations cost here.
  const policies::BatchPricer& pricer() const { return *this; }
  const policies::KvTier* tier() const { return parts_.tier; }
  bool idle() const { return !iterating_ && running_.empty() && queued() == 0; }
  bool iterating() const { return iterating_; }
  std::int64_t waiting() const { return queued(); }
  std::int64_t running() const { return std::ssize(running_); }
  std::int64_t switches() const { return switches_; }
  std::int32_t index() const { return parts_.index; }
  /// What a batching policy would see: for routing, migration and load reports. Call sync() before.
  policies::BatchView view() const;
  const Request& request(policies::SeqId id) const { return *accounts_[id.index].request; }
  Request& request_of(policies::SeqId id) { return *accounts_[id.index].request; }
  /// Tokens to prefill of all that wait or prefill, kept up to date.
  std::int64_t queued_prefill_tokens() const;
  /// Of what was booked.
  const ReplicaCounts& counts() const { return counts_; }
  /// Cost of what was booked.
  RunCost cost() const { return ledger_->total(); }

 private:
  /// What the replica alone needs to know of a sequence.
  struct Account {
    Request* request = nullptr;
    GapHistory::Mark gaps;           ///< when its gaps began to be those of all
    std::int64_t finish_clock = -1;  ///< of a steady decode: when it ends
    std::int64_t residue = -1;       ///< clock modulo block at which it takes a block; -1: it has all it needs, or …
    std::int64_t grow_clock = -1;    ///< … it begins to take blocks at this clock
    std::int64_t marked = -1;        ///< decision in which it has an explicit item
    bool fresh = false;              ///< its last token came other than by the last step of all
    bool finished = false;
    bool self_growing = false;  ///< reserves for itself at every step
    bool stored = false;        ///< what comes with it (ready_tokens) comes from the tier
  };
  /// Something that happens to a steady decode at a value of the clock.
  struct ClockEvent {
    std::int64_t clock, order;
    policies::SeqId seq;
    friend bool operator>(const ClockEvent& a, const ClockEvent& b) {
      return a.clock != b.clock ? a.clock > b.clock : a.order > b.order;
    }
  };
  struct Leap {
    ExactTime start;
    std::int64_t planned = 0, done = 0, grown = 0;
    IterationPrice price;       ///< as the devices take it
    std::int64_t extra_ps = 0;  ///< that the host and transfers add to each
    std::int64_t work_ps = 0;   ///< of a pipelined replica: stage time an iteration, over stages
    std::int64_t measured = 0;  ///< steady tokens a step that count in latencies
    std::int64_t elapsed(std::int64_t n) const {
      return static_cast<std::int64_t>(static_cast<__int128>(price.time_ps + extra_ps) * n +
                                       static_cast<__int128>(price.step_ps) * n * (n - 1) / 2);
    }
  };

  policies::Sequence& sequence(policies::SeqId id) { return sequences_[id.index]; }
  const policies::Sequence& sequence(policies::SeqId id) const { return sequences_[id.index]; }
  Account& account(policies::SeqId id) { return accounts_[id.index]; }
  policies::SeqId new_slot();
  std::int64_t time_ps(const policies::BatchSketch& sketch) const override;

  /// Sequences that wait, those a policy does not see yet included.
  std::int64_t queued() const { return std::ssize(waiting_) + std::ssize(arriving_); }
  void take_arrivals();
  void start_iteration();
  void move_on(ExactTime now);
  bool settle_on_iteration();
  bool decide();
  void preempt(const policies::Preemption& preemption);
  void resume(policies::SeqId id);
  void admit(const policies::Admission& admission);
  void trim_items();
  void erase_running(policies::SeqId id);
  void erase_prefilling(policies::SeqId id);
  void add_drafts();
  std::int64_t fitting_drafts(policies::SeqId id, std::int64_t most, std::int64_t& spare);
  void load(policies::SeqId id, std::int64_t cached, bool first);
  void claim_turn(policies::SeqId id);
  void keep_turn(policies::SeqId id);
  void copy_out(policies::SeqId id, std::int64_t blocks, std::int64_t ps);
  void tell_time(const ExactTime& time);
  void finish_loads();
  void await_load();
  void stall(std::int64_t ps);
  ExactTime outbound_until(std::int64_t unused);
  void reserve_explicit();
  void add_drafting();
  void build_shape();
  void add_work(const policies::Item& item, Segment& segment) const;
  void build_segments();
  void reject_head();
  void begin(std::int64_t iterations, const IterationPrice& price, std::int64_t extra_ps);
  std::int64_t iterations_ahead(const IterationPrice& price) const;
  std::int64_t steps_until_blocks_lack(std::int64_t most) const;
  std::int64_t growth(std::int64_t clock, std::int64_t steps) const;
  std::int64_t next_clock_event();
  ExactTime time_of(std::int64_t iterations) const { return leap_.start.plus(leap_.elapsed(iterations), ps_per_tick_); }
  void fit_in_time();
  std::int64_t over_by_now() const;
  void interrupt();
  void complete(std::int64_t upto);
  void take_growth(std::int64_t iterations);
  void book_split(std::int64_t steps);
  void book_gaps(std::int64_t from, std::int64_t upto);
  void boundary();
  void finish_items();
  void finish_item(const policies::Item& item, std::int64_t kept);
  bool verifies(const policies::Item& item) const;
  void emit(policies::SeqId id, std::int64_t tokens, ExactTime at);
  void finish_due();
  void enter_steady(policies::SeqId id, bool fresh);
  void leave_steady(policies::SeqId id, std::int64_t kv_ahead = 0);
  void remove_finished();
  void end_request(policies::SeqId id, std::string_view status, std::optional<sim::Time> finished);
  std::int64_t waiting_before(sim::Time end) const;
  void tell(const Request& request, RequestPhase phase, sim::Time at);
  void tell_chunks();
  void observe(std::int64_t from, std::int64_t upto);
  void book_busy(std::int64_t elapsed_ps);
  void book_cut();
  std::int32_t last_layer(const policies::LayerRange& range) const {
    return range.last == 0 ? parts_.limits.layers : range.last;
  }
  std::size_t residue_of(std::int64_t clock) const { return static_cast<std::size_t>(clock % growth_tokens_); }
  bool measured(policies::SeqId id) const { return parts_.metrics->measures(sequences_[id.index].arrived); }

  ReplicaParts parts_;
  std::int64_t ps_per_tick_;
  std::vector<policies::Sequence> sequences_;
  std::vector<Account> accounts_;
  std::vector<policies::SeqId> free_slots_;
  std::deque<policies::SeqId> waiting_;
  std::deque<std::pair<policies::SeqId, sim::Time>> arriving_;  // and since when: not yet seen by who decides ahead
  sim::Time begun_{-1};                                         // start of the last iteration that is over
  std::vector<policies::SeqId> running_;                        // by turn
  std::vector<policies::SeqId> prefilling_;                     // of these, by turn
  std::int64_t decoding_ = 0;                                   // running sequences in decode
  std::int64_t leaving_ = 0;                                    // sequences taken away whose blocks are still here

  // steady decodes
  std::int64_t clock_ = 0;
  std::int64_t steady_ = 0;           // sequences
  std::int64_t steady_branches_ = 0;  // tokens a step
  std::int64_t steady_kv_ = 0;        // tokens in the cache, over branches
  std::int64_t steady_measured_ = 0;  // tokens a step past the warm-up
  std::vector<ClockEvent> ends_;      // heaps, least clock first; stale entries are dropped as they come up
  std::vector<ClockEvent> growers_;
  std::int64_t growth_tokens_ = 0;
  std::vector<std::int64_t> growth_;  // blocks taken at each clock modulo growth_tokens_
  std::int64_t growth_period_ = 0;    // their sum
  std::int64_t self_growing_ = 0;     // steady decodes that reserve for themselves
  std::vector<policies::SeqId> fresh_;
  std::vector<policies::SeqId> finished_;
  ExactTime steady_last_;           // when the last step ended
  std::optional<GapHistory> gaps_;  // with an SLO for TBT

  policies::BatchDecision decision_;
  std::vector<std::int64_t> kept_;  // of the proposals of an iteration, item by item
  BatchShape shape_;
  std::vector<std::int32_t> cuts_;
  std::unique_ptr<CostLedger> ledger_;
  Leap leap_;
  IterationPrice planned_;  // in lock-step: of the iteration that is to begin
  sim::EventId event_;
  ExactTime at_;  // the end of what was last booked
  bool iterating_ = false;
  bool decide_due_ = false;  // an event of ours at this instant is pending
  bool any_finished_ = false;
  bool boundary_asked_ = false;
  bool unsettled_ = false;  // in the middle of a boundary or a decision: whoever wakes it now comes too early
  ReplicaCounts counts_;
  std::int64_t decision_number_ = 0;
  std::int64_t next_order_ = 0, next_turn_ = 0;
  std::int64_t switches_ = 0;
  std::int64_t stall_ps_ = 0;  // of mode switches and transfers, before the next iteration
  sim::Time last_submit_{-1};

  // copies to and from tiers that run beside iterations
  struct Copy {
    policies::SeqId seq;  // on its way back
    std::int64_t blocks = 0;
    ExactTime until;
  };
  bool hands_on_ = false;                // the cache gives what it evicts to the tier
  std::deque<Copy> outbound_, loading_;  // by end
  ExactTime out_free_, in_free_;         // when each direction of the link is
  std::int64_t waiting_then_ = 0;        // before the first request of that instant
  std::int64_t record_decodes_ = 0, record_prefill_ = 0, record_chunks_ = 0, record_waiting_ = 0;
  bool watched_ = false;                // an observer wants steps
  std::vector<ChunkStep> chunks_;       // that it is told of
  std::vector<StageTime> stage_times_;  // of the iteration under way
};

}  // namespace orrery::experiments
