// Shortest job first by predicted output, with or without aging.
//
// Decides: as vllm_v1, but whoever waits with the fewest predicted output tokens left goes first. With aging, every
// later arrival counts so many tokens more, so that a long job is overtaken by a bounded number of others and nobody
// starves; plain SJF (aging 0) minimises mean waiting and starves long jobs under load. Without a prediction a job
// counts as the longest there may be, so that without any the order is that of arrival. Source: the rule is classic
// (Conway, Maxwell and Miller 1967); for LLMs with predicted lengths e.g. Qiu et al. 2024 (arXiv 2404.08509).
#include <algorithm>

#include "policies/batching/batching.hpp"
#include "policies/batching/budget_step.hpp"
#include "policies/batching/waiting_order.hpp"

namespace orrery::policies {
namespace {

struct SjfParams {
  std::int64_t token_budget = 2048;
  std::int64_t max_sequences = 256;
  std::int64_t aging = 1;
  bool oracle = false;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("token_budget", &SjfParams::token_budget, sim::Unit::tokens, sim::at_least(1),
                                      "Most tokens in an iteration."),
                           sim::field("max_sequences", &SjfParams::max_sequences, sim::Unit::sequences,
                                      sim::at_least(1), "Most sequences that run at once."),
                           sim::field("aging", &SjfParams::aging, sim::Unit::tokens, sim::between(0, 1e6),
                                      "Tokens added to a job's predicted length for each earlier arrival, so that "
                                      "nobody starves; 0: plain shortest job first."),
                           sim::field("oracle", &SjfParams::oracle,
                                      "Whether the true output lengths are used in place of predicted ones.")};
  }
};

class SjfBatching final : public Batching {
 public:
  explicit SjfBatching(const SjfParams& params)
      : limits_{.tokens = params.token_budget, .sequences = params.max_sequences},
        aging_(params.aging),
        oracle_(params.oracle) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    queue_.update(view, [&](SeqId id) {
      const Sequence& seq = view[id];
      const std::int64_t length = oracle_ ? seq.output_tokens : seq.predicted_tokens;
      const std::int64_t left =
          length > 0 ? std::max<std::int64_t>(0, length - view.generated(id)) : view.limits.max_context;
      return left + aging_ * seq.order;
    });
    BudgetStep step(view, out, limits_);
    step.run_running();
    queue_.admit(view, out, step);
    step.settle();
    queue_.remember(out);
  }

  void returned(SeqId id) override { queue_.came_back(id); }

 private:
  StepLimits limits_;
  std::int64_t aging_;
  bool oracle_;
  WaitingOrder queue_;
};

}  // namespace

void add_sjf(BatchingRegistry& registry) {
  registry.add<SjfParams>("sjf", "Token budget, shortest predicted output first, with aging.",
                          [](const SjfParams& params) { return std::make_unique<SjfBatching>(params); });
}

}  // namespace orrery::policies
