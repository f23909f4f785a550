// Urgency first: of those that wait, whoever has the least time to spare before its deadline.
//
// Decides: as vllm_v1, but the queue is ordered by urgency
//     U = -((slo_stage - waited) - t_e) = now - deadline + t_e,
// the greatest first, where t_e is the time that the request takes here with nobody beside it, its output as long as
// predicted. `now` is the same for all, so the order of two that wait never changes: it is that of their latest starts,
// deadline - t_e. Without a deadline a request is served after those that have one, first come, first served; it may
// starve behind them. Source: Hexgen-Flow (arXiv 2505.05286), local priority queue; the stage's deadline is what the
// program says (workflow_trace). The authors' engines pick one request at a time "if memory fits": here who does not
// fit holds up the queue, as in vLLM.
#include <algorithm>

#include "policies/batching/batching.hpp"
#include "policies/batching/budget_step.hpp"
#include "policies/batching/waiting_order.hpp"

namespace orrery::policies {
namespace {

constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();

struct UrgencyParams {
  std::int64_t token_budget = 2048;
  std::int64_t max_sequences = 256;
  std::int64_t output_tokens = 128;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("token_budget", &UrgencyParams::token_budget, sim::Unit::tokens, sim::at_least(1),
                                      "Most tokens in an iteration."),
                           sim::field("max_sequences", &UrgencyParams::max_sequences, sim::Unit::sequences,
                                      sim::at_least(1), "Most sequences that run at once."),
                           sim::field("output_tokens", &UrgencyParams::output_tokens, sim::Unit::tokens,
                                      sim::at_least(1), "Output tokens assumed for a request without a prediction.")};
  }
};

class UrgencyBatching final : public Batching {
 public:
  explicit UrgencyBatching(const UrgencyParams& params)
      : limits_{.tokens = params.token_budget, .sequences = params.max_sequences},
        output_tokens_(params.output_tokens) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    queue_.update(view, [&](SeqId id) { return latest_start(view, id); });
    BudgetStep step(view, out, limits_);
    step.run_running();
    queue_.admit(view, out, step);
    step.settle();
    queue_.remember(out);
  }

  void returned(SeqId id) override { queue_.came_back(id); }

 private:
  /// The tick at which it has to start to meet its deadline.
  std::int64_t latest_start(const BatchView& view, SeqId id) const {
    const Sequence& seq = view[id];
    if (seq.deadline_ticks == kNoDeadline || view.pricer == nullptr) return seq.deadline_ticks;
    const std::int64_t output = seq.predicted_tokens > 0 ? seq.predicted_tokens : output_tokens_;
    const std::int64_t left = std::max<std::int64_t>(1, output - view.generated(id));
    return seq.deadline_ticks - alone_ps(*view.pricer, seq.prefill_tokens, seq.ready_tokens, left) / view.ps_per_tick;
  }

  StepLimits limits_;
  std::int64_t output_tokens_;
  WaitingOrder queue_;
};

}  // namespace

void add_urgency(BatchingRegistry& registry) {
  registry.add<UrgencyParams>("urgency", "Token budget, the least slack before the deadline first (Hexgen-Flow).",
                              [](const UrgencyParams& params) { return std::make_unique<UrgencyBatching>(params); });
}

}  // namespace orrery::policies
