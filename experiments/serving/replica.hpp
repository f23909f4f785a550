// A replica: one copy of a model on one group of devices, advanced an iteration at a time.
//
// Loop: when an iteration ends (or a request arrives at an idle replica) the batching policy decides on the next; the
// replica applies the decision, asks the iteration model for its cost and schedules its end. It knows nothing of any
// particular policy: chunks, layer ranges, drafts, variants and modes are all read from the decision.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "experiments/serving/iteration_model.hpp"
#include "experiments/serving/metrics.hpp"
#include "policies/batching/batching.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "policies/speculation/acceptance.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

/// A request as it reaches a replica.
struct Arrival {
  std::int64_t id = 0;
  std::int64_t prompt_tokens = 0, output_tokens = 0;
};

/// What a replica is made of; everything is borrowed and must outlive it, except the policies, which it owns.
struct ReplicaParts {
  sim::Engine* engine = nullptr;
  IterationModel* model = nullptr;
  ServingMetrics* metrics = nullptr;
  RunObserver* observer = nullptr;             ///< may be null
  policies::Acceptance* acceptance = nullptr;  ///< may be null: every draft is rejected
  std::unique_ptr<policies::Batching> batching;
  std::unique_ptr<policies::KvCache> kv;
  policies::ReplicaLimits limits;
  std::int64_t iteration_overhead_ps = 0;  ///< CPU time between iterations
  std::int64_t sequence_overhead_ps = 0;   ///< … and for each sequence in the batch
  std::int32_t index = 0;
};

class Replica final : public sim::EventHandler {
 public:
  explicit Replica(ReplicaParts parts);

  /// Takes a request that arrives now; it may be rejected at once. Call wake() after the last one of an instant.
  void submit(const Arrival& arrival);
  /// Starts an iteration if none is under way and there is work, once all events of this instant are through.
  void wake();
  /// An iteration ended.
  void on_event(std::uint64_t payload) override;
  /// Reports whatever is still here as unfinished (the run was cut short), and the part of an iteration that was seen.
  void flush_unfinished();

  const policies::KvCache& kv() const { return *parts_.kv; }
  bool idle() const { return !iterating_ && running_.empty() && waiting_.empty(); }
  std::int64_t switches() const { return switches_; }

 private:
  /// What the replica alone needs to know of a sequence.
  struct Account {
    std::int64_t id = 0;
    std::optional<sim::Time> admitted, first_token;
    sim::Time last_token;
    TbtVerdict tbts;
    std::int64_t marked = -1;  ///< iteration in which it has an explicit item
    bool finished = false;
  };

  policies::Sequence& sequence(policies::SeqId id) { return sequences_[id.index]; }
  Account& account(policies::SeqId id) { return accounts_[id.index]; }
  policies::SeqId new_slot();

  void start_iteration();
  bool decide();
  void preempt(policies::SeqId id);
  void admit(const policies::Admission& admission);
  void reserve_growth();
  void build_shape();
  void build_segments();
  void reject_head();
  void book(const IterationCost& cost);
  void finish_items();
  void finish_item(const policies::Item& item);
  void finish_decodes();
  void emit(policies::SeqId id, std::int64_t tokens);
  void remove_finished();
  void end_request(policies::SeqId id, std::string_view status, std::optional<sim::Time> finished);
  bool decodes_now(policies::SeqId id) const;
  std::int32_t last_layer(const policies::LayerRange& range) const {
    return range.last == 0 ? parts_.limits.layers : range.last;
  }

  ReplicaParts parts_;
  std::vector<policies::Sequence> sequences_;
  std::vector<Account> accounts_;
  std::vector<policies::SeqId> free_slots_;
  std::deque<policies::SeqId> waiting_;
  std::vector<policies::SeqId> running_;  // by order
  std::int64_t decoding_ = 0;             // running sequences in decode

  policies::BatchDecision decision_;
  BatchShape shape_;
  std::vector<std::int32_t> cuts_;
  IterationCost cost_;
  IterationRecord record_;
  bool iterating_ = false;
  bool decide_due_ = false;  // an event of ours at this instant is pending
  bool any_finished_ = false;
  std::int64_t iteration_ = 0;
  std::int64_t next_order_ = 0;
  std::int64_t switches_ = 0;
  std::int64_t switch_ps_ = 0;
};

}  // namespace orrery::experiments
