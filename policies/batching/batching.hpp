// Batching: which sequences a replica advances in its next iteration, and by how much.
//
// The replica asks once an iteration. A policy sees a BatchView and answers with a BatchDecision, which is a change,
// not a state: whom to admit, preempt, and which sequences take an explicit Item; every other decoding sequence takes
// one token through all layers, unless `decode_rest` is off.
//
// Contract
//  - A policy changes nothing but its own members, and draws no random numbers of its own: equal views and history give
//    equal decisions. It must stay O(running + admitted) a call.
//  - Order of application: preempt, switch mode, admit, items, decodes. Blocks that preemption frees may be counted on.
//  - Whatever is scheduled must fit: after the decision every item and decode has its blocks, or the replica stops the
//    run with std::logic_error (a broken policy, not bad input).
//  - An empty decision with sequences waiting and none running rejects the head of the queue ("unschedulable"), so that
//    a policy cannot hang a run.
//  - Ties are broken by Sequence::order, which is unique.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "policies/kvcache/kvcache.hpp"
#include "policies/types.hpp"
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

/// Takes `seq` from the queue and gives it blocks for `reserve_tokens` (the tokens to prefill, or all it may ever
/// need).
struct Admission {
  SeqId seq;
  std::int64_t reserve_tokens = 0;
};

struct BatchDecision {
  std::vector<SeqId> preempt;  ///< drop the KV of a running sequence; it goes back to the front of the queue
  std::vector<Admission> admit;
  std::vector<Item> items;
  bool decode_rest = true;
  std::optional<std::int32_t> mode;    ///< switch the replica to another mode (parallel layout) first
  std::int64_t stable_iterations = 1;  ///< iterations for which the answer stays the same if nothing arrives or ends

  void clear() {
    preempt.clear();
    admit.clear();
    items.clear();
    decode_rest = true;
    mode.reset();
    stable_iterations = 1;
  }
};

/// Fixed facts of a replica.
struct ReplicaLimits {
  std::int64_t max_context = 0;  ///< most tokens a request may have, prompt and output together
  std::int32_t layers = 0;
};

/// What a policy may know. Valid during the call only.
struct BatchView {
  sim::Time now;
  std::span<const SeqId> running;       ///< in arrival order; phase tells prefill from decode
  const std::deque<SeqId>& waiting;     ///< front first: arrivals at the back, preempted sequences at the front
  std::span<const Sequence> sequences;  ///< indexed by SeqId
  const KvView& kv;
  std::int64_t decoding = 0;  ///< how many of `running` are in decode
  std::int32_t mode = 0;
  ReplicaLimits limits;

  const Sequence& operator[](SeqId id) const { return sequences[id.index]; }
};

class Batching {
 public:
  virtual ~Batching() = default;
  /// Fills `out`, which comes cleared.
  virtual void decide(const BatchView& view, BatchDecision& out) = 0;
  /// Why a request can never be scheduled, or nothing: asked once, when it arrives.
  virtual std::optional<std::string_view> reject(const Sequence&, const KvView&, const ReplicaLimits&) const {
    return std::nullopt;
  }
};

using BatchingRegistry = sim::Registry<Batching>;

/// Adds every batching policy of this folder (register.cpp: one line a policy).
void register_batching_policies(BatchingRegistry& registry);

}  // namespace orrery::policies
