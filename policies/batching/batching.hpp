// Batching: which sequences a replica advances in its next iteration, and by how much.
//
// The replica asks once an iteration. A policy sees a BatchView and answers with a BatchDecision, which is a change,
// not a state: whom to admit, preempt, and which sequences take an explicit Item; every other decoding sequence takes
// one token through all layers, unless `decode_rest` is off.
//
// Contract
//  - A policy changes nothing but its own members, and draws no random numbers of its own: equal views and history give
//    equal decisions. A call that changes nothing should be O(1):
//    `prefilling`, `decoding` and `growth_blocks` are there so that nobody has to walk all of `running`.
//  - Order of application: preempt, switch mode, admit, items, decodes. Blocks that preemption frees may be counted on;
//    where they turn out fewer (what was shared with who left, holes), an admission beside it is put off: the sequence
//    still waits.
//  - Whatever is scheduled must fit: after the decision every item and decode has its blocks, or the replica stops the
//    run with std::logic_error (a broken policy, not bad input).
//  - An empty decision with sequences waiting and none running (in any lane) rejects the head of the queue
//    ("unschedulable"), so that a policy cannot hang a run. One with sequences running (all paused, say) is a broken
//    policy.
//  - In a pipeline with several batches in flight a decision may be dropped, and the policy asked again: one that
//    switches the mode, until nothing is in flight; one that preempts the latest of its lane, while later ones run in
//    another lane, of whom one is preempted instead (returned() tells).
//  - stable_iterations counts only for decisions of decodes alone (no items): the replica may then leap over as many
//    iterations without asking. It stops by itself where something arrives, ends, or no block is left to grow into.
//  - Ties among those that wait are broken by Sequence::order, which is unique; `running` stands in the order of
//    admission (Sequence::turn).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/base/types.hpp"
#include "policies/batching/batch_view.hpp"
#include "policies/kvcache/kvcache.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/registry.hpp"

namespace orrery::policies {

/// Layers [first, last) of the model; last = 0 stands for all of them.
struct LayerRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// Work of one sequence in an iteration. A sequence may have several items with disjoint layer ranges, whose cost
/// differs by `variant` (a smaller or quantised module, a draft model …; 0 is the model itself).
struct Item {
  SeqId seq;
  std::int64_t new_tokens = 1;    ///< of a prompt chunk, or 1 for a decode
  LayerRange layers;              ///< a chunk that stops short of the last layer goes on from there next time
  std::int64_t draft_tokens = 0;  ///< proposed tokens verified beside the decode token
  std::int32_t variant = 0;
};

/// Takes `seq` from the queue and gives it blocks for `reserve_tokens`: all it may ever need, the tokens to prefill, or
/// what is there of it and its first chunk. Chunks get the blocks they write when they are scheduled, as far as the
/// sequence lacks them. Its item, if it has one in the same decision, counts from what the cache has of it: new_tokens
/// <= tokens_to_compute().
struct Admission {
  SeqId seq;
  std::int64_t reserve_tokens = 0;
};

/// What becomes of the cache of a running sequence that has to stop.
enum class Preempt : std::uint8_t {
  recompute,  ///< dropped; the sequence goes back to the front of the queue and prefills all its tokens again
  swap,       ///< copied to the next tier (recompute where that has no room); it goes back to the front of the queue
  pause       ///< stays; the sequence takes no part until it is resumed
};
/// What a parameter may say; to pause is for policies that resume.
constexpr auto enum_names(Preempt) {
  using enum Preempt;
  return sim::names<Preempt>({{"recompute", recompute}, {"swap", swap}});
}

/// Stops a running sequence.
struct Preemption {
  SeqId seq;
  Preempt how = Preempt::recompute;
};

struct BatchDecision {
  std::vector<Preemption> preempt;
  std::vector<SeqId> resume;  ///< paused sequences that go on
  std::vector<Admission> admit;
  std::vector<Item> items;
  bool decode_rest = true;
  std::optional<std::int32_t> mode;    ///< switch the replica to another mode (parallel layout) first
  std::int64_t stable_iterations = 1;  ///< iterations for which the answer stays the same if nothing arrives or ends

  void clear() {
    preempt.clear();
    resume.clear();
    admit.clear();
    items.clear();
    decode_rest = true;
    mode.reset();
    stable_iterations = 1;
  }
};

/// An obstacle() of policies that weigh all that runs, and so must see it.
inline std::optional<std::string> unless_alone(const ReplicaLimits& limits, std::string_view what) {
  if (limits.batches <= 1) return std::nullopt;
  return std::string(what) + ", so it cannot schedule a pipeline with several batches in flight (queue per_lane of " +
         "cluster.replicas gives each lane a policy of its own)";
}

class Batching {
 public:
  virtual ~Batching() = default;
  /// Fills `out`, which comes cleared.
  virtual void decide(const BatchView& view, BatchDecision& out) = 0;
  /// Why a request can never be scheduled, or nothing: asked once, when it arrives.
  virtual std::optional<std::string_view> reject(const Sequence&, const KvView&, const ReplicaLimits&) const {
    return std::nullopt;
  }
  /// Why it cannot schedule such a replica, or nothing: asked once, before a run.
  virtual std::optional<std::string> obstacle(const ReplicaLimits&) const { return std::nullopt; }
  /// A sequence went back to the queue by other ways than a decision that named it.
  virtual void returned(SeqId) {}
};

/// The policy that goes by the experts that tokens will choose; by admission where nobody knows these.
inline constexpr std::string_view kReadMe = "read_me";

using BatchingRegistry = sim::Registry<Batching>;

/// Adds every batching policy of this folder (register.cpp: one line a policy).
void register_batching_policies(BatchingRegistry& registry);

}  // namespace orrery::policies
