// Shortest prompt first: of those who wait, the one with the fewest prompt tokens goes next.
//
// Decides: as vllm_v1 (one budget of tokens, decodes first, then chunks of prompts), in another order of admission.
// With aging, every later arrival counts so many tokens more, so that nobody starves. An example of a plugin
// (docs/explain/plugins.md).
#include "policies/batching/batching.hpp"
#include "policies/batching/budget_step.hpp"
#include "policies/batching/waiting_order.hpp"
#include "policies/plugin.hpp"

namespace {

using namespace orrery;

struct ShortestPromptParams {
  std::int64_t token_budget = 2048;
  std::int64_t max_sequences = 256;
  std::int64_t aging = 1;

  static constexpr auto fields() {
    using P = ShortestPromptParams;
    return sim::FieldTable{sim::field("token_budget", &P::token_budget, sim::Unit::tokens, sim::at_least(1),
                                      "Most tokens in an iteration."),
                           sim::field("max_sequences", &P::max_sequences, sim::Unit::sequences, sim::at_least(1),
                                      "Most sequences that run at once."),
                           sim::field("aging", &P::aging, sim::Unit::tokens, sim::between(0, 1e6),
                                      "Tokens that a prompt is put behind every earlier arrival.")};
  }
};

class ShortestPrompt final : public policies::Batching {
 public:
  explicit ShortestPrompt(const ShortestPromptParams& params) : params_(params) {}

  void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
    queue_.update(view, [&](policies::SeqId id) { return view[id].prefill_tokens + params_.aging * view[id].order; });
    policies::BudgetStep step(view, out, {.tokens = params_.token_budget, .sequences = params_.max_sequences});
    step.run_running();
    queue_.admit(view, out, step);
    step.settle();
    queue_.remember(out);
  }

 private:
  ShortestPromptParams params_;
  policies::WaitingOrder queue_;
};

void add_batching(policies::BatchingRegistry& registry) {
  registry.add<ShortestPromptParams>(
      "shortest_prompt", "Token budget, shortest prompt first, with aging.",
      [](const ShortestPromptParams& params) { return std::make_unique<ShortestPrompt>(params); });
}

}  // namespace

ORRERY_PLUGIN(.name = "shortest_prompt", .doc = "Shortest prompt first, with aging.", .batching = add_batching);
