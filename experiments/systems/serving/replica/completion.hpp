// What iterations that are over did to their sequences: tokens emitted, prompts through, requests ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "experiments/systems/serving/replica/batch_builder.hpp"
#include "experiments/systems/serving/replica/books.hpp"
#include "experiments/systems/serving/replica/parts.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"
#include "experiments/systems/serving/replica/steady_decodes.hpp"
#include "experiments/systems/serving/replica/tier_copies.hpp"

namespace orrery::experiments {

class Completion {
 public:
  Completion(SequenceTable& sequences, SteadyDecodes& steady, TierCopies& copies, const BatchBuilder& batch,
             Books& books, const ReplicaParts& parts);

  /// Iterations of a decision ended at `at`: its items, then steady decodes, then whoever has all tokens leaves.
  void finish(const policies::BatchDecision& decision, ExactTime at);
  /// A request is over, and its sequence with it.
  void end(policies::SeqId id, std::string_view status, std::optional<sim::Time> finished);

 private:
  bool verifies(const policies::Item& item) const;
  void finish_items(const policies::BatchDecision& decision, ExactTime at);
  void accept(const policies::BatchDecision& decision);
  void finish_item(const policies::Item& item, std::int64_t kept, ExactTime at);
  void finish_decode(const policies::Item& item, std::int64_t kept, ExactTime at);
  void finish_prompt(policies::SeqId id, ExactTime at);
  void emit(policies::SeqId id, std::int64_t tokens, ExactTime at);
  void remove_finished(ExactTime at);
  void has_all_tokens(policies::SeqId id);

  SequenceTable& sequences_;
  SteadyDecodes& steady_;
  TierCopies& copies_;
  const BatchBuilder& batch_;
  Books& books_;
  policies::KvCache& kv_;
  ServingMetrics& metrics_;
  RequestSink& sink_;
  policies::Acceptance* acceptance_;
  std::int32_t layers_;
  std::int64_t ps_per_tick_;
  std::vector<std::int64_t> kept_;  // of the proposals of an iteration, item by item
  std::vector<policies::SeqId> finished_;
};

}  // namespace orrery::experiments
