// What a decision is as work: a BatchShape, layer by layer.
//
// Steady decodes are one group; items are chunks of prompts, and decodes that do something of their own (proposals, a
// variant, some of the layers) and therefore leave the steady ones. A speculator's proposals become items here.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/serving/replica/parts.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"
#include "experiments/systems/serving/replica/steady_decodes.hpp"

namespace orrery::experiments {

/// Who takes part in an iteration.
struct BatchCounts {
  std::int64_t decodes = 0, prefill_tokens = 0, chunks = 0;
};

class BatchBuilder {
 public:
  BatchBuilder(SequenceTable& sequences, SteadyDecodes& steady, const ReplicaParts& parts);

  /// Makes the shape of a decision whose changes are applied; adds proposals to it. False: there is nothing to do.
  bool build(policies::BatchDecision& decision);
  /// Chunks of prompts, and decodes with an item of their own, reserve what they write.
  void reserve(const policies::BatchDecision& decision);
  const BatchShape& shape() const { return shape_; }
  const BatchCounts& counts() const { return counts_; }
  /// The shape after so many iterations of nothing but decodes growing.
  void advance(std::int64_t iterations) { experiments::advance(shape_, iterations); }
  void set_mode(std::int32_t mode) { shape_.mode = mode; }
  /// Of the experts, for segments that name their tokens.
  void set_placement(std::int32_t placement) {
    for (Segment& segment : shape_.segments) segment.placement = placement;
  }
  /// Where an item ends, whose range may stand for all layers.
  std::int32_t last_layer(const policies::LayerRange& range) const {
    return range.last == 0 ? limits_.layers : range.last;
  }

 private:
  void add_drafts(policies::BatchDecision& decision);
  std::int64_t fitting_drafts(policies::SeqId id, std::int64_t most, std::int64_t& spare);
  void add_items(const policies::BatchDecision& decision);
  void check(const policies::Item& item) const;
  void add_drafting(const policies::BatchDecision& decision);
  bool uniform(const policies::BatchDecision& decision) const;
  void add_work(const policies::Item& item, Segment& segment) const;
  void add_steady_runs(Segment& segment) const;
  void spare_shared_reads(const policies::BatchDecision& decision, DecodeSums& decode) const;
  void build_segments(const policies::BatchDecision& decision, std::int64_t steady);

  SequenceTable& sequences_;
  SteadyDecodes& steady_;
  policies::KvCache& kv_;
  policies::Speculator* speculator_;
  policies::ReplicaLimits limits_;
  bool names_tokens_;  // for who replays router choices
  BatchShape shape_;
  BatchCounts counts_;
  std::vector<std::int32_t> cuts_;
  std::int64_t number_ = 0;  // of the decision
};

}  // namespace orrery::experiments
