// Priority scheduling over a token budget, preemptive or not.
//
// Decides: as vllm_v1, but the queue is ordered by priority (higher first), then arrival. Where there are too few
// blocks the running sequence of the lowest priority, of these the latest arrival, is preempted. Preemptive scheduling
// does not wait for that: a waiting sequence takes slot and blocks of a running one with a lower priority at once. Low
// priorities may starve; that is what they are for. Source: vLLM V1 with scheduling policy "priority"
// (vllm/v1/core/sched); the preemptive form is plain fixed-priority preemptive scheduling.
#include <algorithm>

#include "policies/batching/batching.hpp"
#include "policies/batching/budget_step.hpp"
#include "policies/batching/waiting_order.hpp"

namespace orrery::policies {
namespace {

struct PriorityParams {
  std::int64_t token_budget = 2048;
  std::int64_t max_sequences = 256;
  bool preemptive = false;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("token_budget", &PriorityParams::token_budget, sim::Unit::tokens, sim::at_least(1),
                   "Most tokens in an iteration."),
        sim::field("max_sequences", &PriorityParams::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field(
            "preemptive", &PriorityParams::preemptive,
            "Whether a waiting sequence preempts running ones of lower priority to take their slots and KV blocks.")};
  }
};

class PriorityBatching final : public Batching {
 public:
  explicit PriorityBatching(const PriorityParams& params)
      : limits_{.tokens = params.token_budget, .sequences = params.max_sequences}, preemptive_(params.preemptive) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    queue_.update(view, [&](SeqId id) { return -static_cast<std::int64_t>(view[id].priority); });
    BudgetStep step(view, out, limits_);
    std::optional<SeqId> first = queue_.front(view);
    if (preemptive_ && first && !step.too_large(*first)) make_way(view, *first, step);
    const bool made_way = !out.preempt.empty();
    const std::size_t for_first = out.preempt.size();
    step.run_running(Victim::lowest);
    if (made_way && out.preempt.size() == for_first) {
      // The one it was done for, and nobody else: others of its priority may have to make way themselves.
      if (step.admit(*first)) queue_.pop();
    } else if (out.preempt.empty()) {
      for (; first; first = queue_.front(view)) {
        if (!step.too_large(*first) && !step.admit(*first)) break;
        queue_.pop();
      }
    }
    step.settle();
    queue_.remember(out);
  }

  void returned(SeqId id) override { queue_.came_back(id); }

 private:
  /// Preempts running sequences of lower priority, as many as it takes for `first` to have a slot and blocks for all of
  /// its prompt; nobody, if all of them together do not make that room.
  static void make_way(const BatchView& view, SeqId first, BudgetStep& step) {
    const std::int64_t prompt = view[first].prefill_tokens;
    const std::int32_t priority = view[first].priority;
    const std::int64_t free = step.free_blocks() - view.growth_blocks;
    if (step.free_slots() > 0 && free >= view.kv.blocks_to_admit(view[first], prompt)) return;
    std::vector<SeqId> lower;
    for (const SeqId id : view.running)
      if (view[id].priority < priority && view[id].phase != Phase::paused) lower.push_back(id);
    std::sort(lower.begin(), lower.end(), [&](SeqId a, SeqId b) {
      return view[a].priority != view[b].priority ? view[a].priority < view[b].priority : view[a].order > view[b].order;
    });
    // See blocks_to_admit_beside(): what those who go hold is not shared any longer.
    std::int64_t missing = view.kv.blocks_of(view[first], prompt) - free;
    std::int64_t slots = step.free_slots();
    std::size_t goes = 0;
    for (; goes < lower.size() && (missing > 0 || slots <= 0); ++goes, ++slots)
      missing -= blocks_freed(view, lower[goes]) + blocks_grown(view, lower[goes]);
    if (missing > 0 || slots <= 0) return;
    for (std::size_t i = 0; i < goes; ++i) step.preempt(lower[i]);
  }

  StepLimits limits_;
  bool preemptive_;
  WaitingOrder queue_;
};

}  // namespace

void add_priority(BatchingRegistry& registry) {
  registry.add<PriorityParams>("priority",
                               "Token budget, higher priorities first; preemption for priority is optional (vLLM V1).",
                               [](const PriorityParams& params) { return std::make_unique<PriorityBatching>(params); });
}

}  // namespace orrery::policies
