// A queue ordered by an expression, and victims of preemption by another.
//
// Decides: as vllm_v1, but the waiting sequence with the least `score` is admitted first (of equals the earlier
// arrival). Where there are too few blocks, the running sequence with the greatest `preempt` is preempted first (of
// equals the later admission). A score without a value (NaN) counts as the greatest. Names and units:
// sequence_score.hpp, `orrery describe expression`. The score of a waiting sequence is taken once where nothing it
// reads changes by itself, else at every decision: O(log n) an arrival, or O(n log n) an iteration. Such a queue may
// starve some sequences; only what runs is sure to end. Source: the idea of policies as data that a search may change;
// order = arrival is vllm_v1, predicted_left is sjf without aging.
#include <algorithm>

#include "policies/batching/budget_step.hpp"
#include "policies/batching/sequence_score.hpp"
#include "policies/batching/waiting_order.hpp"

namespace orrery::policies {
namespace {

struct ExpressionParams {
  std::int64_t token_budget = 2048;
  std::int64_t max_sequences = 256;
  SequenceScore score{"order"};
  std::optional<SequenceScore> preempt;

  static constexpr auto fields() {
    using E = ExpressionParams;
    return sim::FieldTable{
        sim::field("token_budget", &E::token_budget, sim::Unit::tokens, sim::at_least(1),
                   "Most tokens in an iteration."),
        sim::field("max_sequences", &E::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field("score", &E::score, "The waiting sequence with the lowest value is admitted first."),
        sim::field("preempt", &E::preempt,
                   "With too few KV blocks, the running sequence with the highest value is preempted first, except the "
                   "earliest admitted. null: the latest admitted is preempted.")};
  }
};

class ExpressionBatching final : public Batching {
 public:
  explicit ExpressionBatching(const ExpressionParams& params)
      : limits_{.tokens = params.token_budget, .sequences = params.max_sequences},
        score_(params.score),
        preempt_(params.preempt) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    const bool live = score_.reads_live();
    if (!live) queue_.update(view, [&](SeqId id) { return score_key(score_({view, id})); });
    BudgetStep step(view, out, limits_);
    if (preempt_) {
      step.run_running([&](SeqId id) { return score_key((*preempt_)({view, id})); });
    } else {
      step.run_running();
    }
    if (live) {
      admit_by_score(view, out, step);
    } else {
      queue_.admit(view, out, step);
      queue_.remember(out);
    }
    // While slots are free, another may come to the front, who fits where the one there now does not.
    if (!live || view.waiting.empty() || step.full()) step.settle();
  }

  void returned(SeqId id) override { queue_.came_back(id); }

 private:
  struct Scored {
    std::int64_t key, order;
    SeqId id;
  };

  void admit_by_score(const BatchView& view, const BatchDecision& out, BudgetStep& step) {
    if (!out.preempt.empty() || step.full()) return;
    line_.clear();
    for (const SeqId id : view.waiting) line_.push_back({score_key(score_({view, id})), view[id].order, id});
    std::sort(line_.begin(), line_.end(),
              [](const Scored& a, const Scored& b) { return a.key != b.key ? a.key < b.key : a.order < b.order; });
    for (const Scored& one : line_)
      if (!step.too_large(one.id) && !step.admit(one.id)) break;
  }

  StepLimits limits_;
  SequenceScore score_;
  std::optional<SequenceScore> preempt_;
  WaitingOrder queue_;
  std::vector<Scored> line_;
};

}  // namespace

void add_expression(BatchingRegistry& registry) {
  registry.add<ExpressionParams>(
      "expression",
      "Token budget; the lowest value of an expression is admitted first, and another expression may choose whom to "
      "preempt.",
      [](const ExpressionParams& params) { return std::make_unique<ExpressionBatching>(params); });
}

}  // namespace orrery::policies
