// KV on its way between a replica's devices and its tiers: of swapped sequences, of conversations between two turns,
// and of prefixes.
//
// A tier that does not overlap keeps the next iteration waiting for every copy. With one that does, each direction of
// the link takes copies one after the other beside iterations: a sequence goes on when its copy back is through, and
// blocks are written to when they have been read. Without a tier nothing here does anything.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "experiments/systems/serving/replica/books.hpp"
#include "experiments/systems/serving/replica/device_time.hpp"
#include "experiments/systems/serving/replica/parts.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"

namespace orrery::experiments {

/// The link to the tiers: lanes of one scheduler share it.
struct TierLinks {
  struct Copy {
    policies::SeqId seq;
    std::int64_t blocks = 0;
    ExactTime until;
  };
  std::deque<Copy> outbound;    ///< off the device, by end
  ExactTime out_free, in_free;  ///< when each direction is
};

class TierCopies {
 public:
  /// `time` is the replica's, which waits for copies (and goes on without iterations) through this.
  TierCopies(SequenceTable& sequences, Books& books, DeviceTime& time, const ReplicaParts& parts);

  /// Whether the cache gives what it evicts to the tier.
  bool hands_on() const { return hands_on_; }
  /// What the tier is told from now on happens then.
  void tell_time(const ExactTime& time) {
    if (hands_on_) tier_->at(static_cast<policies::Picoseconds>(time.ticks) * time_.ps_per_tick + time.ps);
  }
  /// Nothing is on its way.
  bool idle() const { return links_->outbound.empty() && loading_.empty(); }
  bool loading() const { return !loading_.empty(); }

  /// The next turn of a conversation whose KV waits in the tier comes with that.
  void claim_turn(policies::SeqId id);
  /// The KV of a turn that ends, and is no steady decode any more, waits for the next one.
  void keep_turn(policies::SeqId id);
  /// Copies the `tokens` tokens of a preempted sequence off the device, if there is room for them.
  void swap_out(policies::SeqId id, std::int64_t tokens);
  /// Copies to the device what the tier has of an admitted sequence, its own KV and blocks of its prefix, behind the
  /// `cached` tokens that were found; `first`: for the first time. True: the sequence has to wait for loaded().
  bool load(policies::SeqId id, std::int64_t cached, bool first);
  /// A sequence whose copy back is through and that goes on (in decode where it was in decode), until there is none.
  std::optional<policies::SeqId> loaded() {
    if (loading_.empty() || loading_.front().until > time_.at) return std::nullopt;
    return pop_loaded();
  }
  /// The request is over.
  void drop(const Request& request);
  void clear();

  // Waiting.
  /// Time goes on to `now` without an iteration; copies went on meanwhile.
  void move_on(ExactTime now);
  /// The next iteration waits until what it writes to has been read: until copies off the device are through for all
  /// but `unused` blocks, those of sequences on their way back included.
  void await_room(std::int64_t unused);
  /// When the first copy back is through.
  ExactTime first_loaded() const { return loading_.front().until; }
  /// There is nothing to do before that.
  void await_load();

 private:
  void stall(std::int64_t ps);
  policies::SeqId pop_loaded();
  void copy_out(policies::SeqId id, std::int64_t blocks, std::int64_t ps);
  ExactTime outbound_until(std::int64_t unused);

  SequenceTable& sequences_;
  Books& books_;
  DeviceTime& time_;
  policies::KvCache& kv_;
  policies::KvTier* tier_;
  bool hands_on_ = false;
  std::shared_ptr<TierLinks> links_;
  std::deque<TierLinks::Copy> loading_;  // on their way back, by end
};

}  // namespace orrery::experiments
