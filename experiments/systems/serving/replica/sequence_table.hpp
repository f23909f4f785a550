// The sequences of a replica: who has which slot, who waits, who runs and in what.
//
// A sequence waits, or it runs: prefills, decodes, or is paused. Those that run stand in the order of their turn. A
// slot may also belong to a sequence that was taken away and whose blocks are still here, or to nobody, for whom blocks
// are set aside. The table moves sequences between these lists; what that means for clocks, caches and requests is for
// those who ask it to. Lanes of one scheduler share slots and queue (SequencePool); each knows who runs in it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/observe/gap_history.hpp"
#include "policies/base/types.hpp"

namespace orrery::experiments {

/// What SteadyDecodes keeps of a sequence.
struct SteadyState {
  GapHistory::Mark gaps;           ///< when its gaps began to be those of all
  std::int32_t lane = -1;          ///< on whose clock the following are
  std::int64_t finish_clock = -1;  ///< of a steady decode: when it ends
  std::int64_t residue = -1;       ///< clock modulo block at which it takes a block; -1: it has all it needs, or …
  std::int64_t grow_clock = -1;    ///< … it begins to take blocks at this clock
  bool fresh = false;              ///< its last token came other than by the last step of all
  bool self_growing = false;       ///< reserves for itself at every step
};

/// What the replica alone needs to know of a sequence.
struct Account {
  Request* request = nullptr;
  SteadyState steady;
  std::int64_t marked = -1;  ///< decision in which it has an explicit item (BatchBuilder)
  bool finished = false;     ///< has all its tokens (Completion)
  bool stored = false;       ///< what comes with it (ready_tokens) comes from the tier (TierCopies)
};

/// Slots and the queue.
struct SequencePool {
  std::vector<policies::Sequence> sequences;
  std::vector<Account> accounts;
  std::vector<policies::SeqId> free;
  std::deque<policies::SeqId> waiting;
  std::deque<std::pair<policies::SeqId, sim::Time>> arriving;  ///< and since when
  std::int64_t leaving = 0;
  std::int64_t next_order = 0, next_turn = 0;
  sim::Time last_arrival{-1};
  sim::Time begun{-1};            ///< when the last iteration began
  std::int64_t waiting_then = 0;  ///< before the first request of that instant
};

class SequenceTable {
 public:
  /// Null: a pool of its own.
  explicit SequenceTable(std::shared_ptr<SequencePool> pool = nullptr)
      : pool_(pool != nullptr ? std::move(pool) : std::make_shared<SequencePool>()) {}

  // Slots.
  /// A request that arrives; it does not wait yet.
  policies::SeqId add(Request& request);
  /// A slot that is nobody's, with blocks that come to be here.
  policies::SeqId add_nobody();
  /// Its slot may be used again.
  void free(policies::SeqId id);
  /// The same for one that was taken away, or is nobody.
  void let_go(policies::SeqId id);
  policies::Sequence& operator[](policies::SeqId id) { return pool_->sequences[id.index]; }
  const policies::Sequence& operator[](policies::SeqId id) const { return pool_->sequences[id.index]; }
  std::span<const policies::Sequence> all() const { return pool_->sequences; }
  Account& account(policies::SeqId id) { return pool_->accounts[id.index]; }
  const Account& account(policies::SeqId id) const { return pool_->accounts[id.index]; }
  Request& request(policies::SeqId id) const { return *pool_->accounts[id.index].request; }

  // The queue.
  /// A request comes at `now`: for waiting_before().
  void expect(sim::Time now);
  /// At the back, or `first`.
  void wait(policies::SeqId id, bool first);
  /// It waits, but who decides ahead does not see it yet.
  void arrive(policies::SeqId id, sim::Time now) { pool_->arriving.emplace_back(id, now); }
  /// A host that decides ahead settled the coming iteration when the last one began (of any lane of the pool): who came
  /// later is not in it, unless nothing runs (`idle`: in other lanes).
  void take_arrivals(bool idle) {
    if (!pool_->arriving.empty()) let_in(idle);
  }
  /// An iteration began then: of one lane that is over, of several lanes any.
  void begun(sim::Time at) { pool_->begun = at; }
  policies::SeqId take_head();
  const std::deque<policies::SeqId>& waiting() const { return pool_->waiting; }
  bool arriving() const { return !pool_->arriving.empty(); }
  /// All that wait, those a policy does not see yet included.
  std::int64_t queued() const { return std::ssize(pool_->waiting) + std::ssize(pool_->arriving); }
  /// Length of the queue but for those who came at `end` itself.
  std::int64_t waiting_before(sim::Time end) const;

  // The batch.
  const std::vector<policies::SeqId>& running() const { return running_; }
  const std::vector<policies::SeqId>& prefilling() const { return prefilling_; }
  std::int64_t decoding() const { return decoding_; }
  /// From the queue, with the next turn, to those that prefill.
  void start(policies::SeqId id);
  /// A paused sequence prefills on.
  void prefill(policies::SeqId id);
  /// It decodes from now on: its prompt is through, or it was paused.
  void decode(policies::SeqId id);
  void pause(policies::SeqId id);
  /// It runs no longer; its phase is the caller's.
  void remove(policies::SeqId id);
  /// It runs no longer, but keeps slot and blocks until let_go().
  void take_out(policies::SeqId id);
  /// One that runs in another lane of the pool, in whatever phase, runs in this one.
  void take_over(SequenceTable& other, policies::SeqId id);

  // All of them.
  /// Slots whose blocks are still here although nobody runs in them.
  std::int64_t leaving() const { return pool_->leaving; }
  bool empty() const { return running_.empty() && queued() == 0; }
  /// Whoever runs or waits, by order.
  std::vector<policies::SeqId> by_order() const;
  /// Nobody runs or waits any longer; slots were freed one by one.
  void clear();

 private:
  policies::SeqId new_slot();
  void let_in(bool idle);
  void stop(policies::SeqId id);
  void erase_prefilling(policies::SeqId id);

  void insert(std::vector<policies::SeqId>& line, policies::SeqId id);

  std::shared_ptr<SequencePool> pool_;
  std::vector<policies::SeqId> running_;     // by turn
  std::vector<policies::SeqId> prefilling_;  // of these, by turn
  std::int64_t decoding_ = 0;                // of these
};

/// Of a request that runs here in decode; nothing if it waits, prefills, or is not here.
std::optional<policies::SeqId> decoding_sequence(const SequenceTable& table, const Request& request);
/// Whether this request, by its address and number, is one that runs here.
bool runs(const SequenceTable& table, const Request& request, std::int64_t id);
/// The latest admission that prefills or decodes.
std::optional<policies::SeqId> latest_admission(const SequenceTable& table);

/// Tokens of those who run, over branches.
struct TokenSums {
  std::int64_t cached = 0;   ///< in the cache
  std::int64_t claimed = 0;  ///< the same, prompts counted whole
  std::int64_t in_the_end = 0;
};
/// At this value of their decode clock.
TokenSums token_sums(const SequenceTable& table, std::int64_t clock);

}  // namespace orrery::experiments
