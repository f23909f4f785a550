// vLLM V1: one token budget for prompts and decodes.
//
// Decides: running sequences first, in order, each with what it still has to compute (a decode 1, a prompt its next
// chunk) until the budget is spent; then waiting ones, first come, first served, while budget, slots and blocks for
// their first chunk last. Prompts are chunked; a prompt longer than the long-prefill threshold takes no more than that
// in a step. Blocks are allocated for the step's tokens alone, and no watermark is kept. What the prefix cache has of a
// prompt is not computed. If a running sequence finds no block, the latest is preempted, to be recomputed; a step that
// preempts admits nobody. Source: vllm/v1/core/sched/scheduler.py, Scheduler.schedule (0.8 to 0.10), without
// speculation, encoders, LoRA and connectors.
#include "policies/batching/batching.hpp"
#include "policies/batching/budget_step.hpp"

namespace orrery::policies {
namespace {

struct VllmV1Params {
  std::int64_t max_num_batched_tokens = 2048;
  std::int64_t max_num_seqs = 256;
  std::optional<std::int64_t> long_prefill_token_threshold;
  bool chunked_prefill = true;
  bool room_for_prompt = false;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("max_num_batched_tokens", &VllmV1Params::max_num_batched_tokens, sim::Unit::tokens, sim::at_least(1),
                   "Most tokens in an iteration. The server's own default is 2048, or 8192 on devices of 70 GiB or "
                   "more other than A100."),
        sim::field("max_num_seqs", &VllmV1Params::max_num_seqs, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once. The server's own default is 256, or 1024 on devices of 70 GiB or "
                   "more other than A100."),
        sim::field("long_prefill_token_threshold", &VllmV1Params::long_prefill_token_threshold, sim::Unit::tokens,
                   sim::at_least(1), "Most tokens of one prompt in an iteration; null: max_num_batched_tokens."),
        sim::field("chunked_prefill", &VllmV1Params::chunked_prefill,
                   "Whether a prompt may be split into chunks; if not, it waits until all of it fits the budget."),
        sim::field("room_for_prompt", &VllmV1Params::room_for_prompt,
                   "Whether a prompt is admitted only when KV blocks for all of it are free, though it takes only "
                   "those of its first chunk.")};
  }
};

class VllmV1Batching final : public Batching {
 public:
  explicit VllmV1Batching(const VllmV1Params& params)
      : limits_{.tokens = params.max_num_batched_tokens,
                .sequences = params.max_num_seqs,
                .chunked = params.chunked_prefill,
                .room_for_all = params.room_for_prompt} {
    if (params.long_prefill_token_threshold) limits_.chunk = *params.long_prefill_token_threshold;
  }

  void decide(const BatchView& view, BatchDecision& out) override {
    BudgetStep step(view, out, limits_);
    step.run_running();
    if (out.preempt.empty())
      for (const SeqId id : view.waiting)
        if (!step.admit(id)) break;
    step.settle();
  }

  std::optional<std::string_view> reject(const Sequence& seq, const KvView&, const ReplicaLimits&) const override {
    if (!limits_.chunked && seq.prompt_tokens > limits_.tokens) return "prompt_exceeds_batched_tokens";
    return std::nullopt;
  }

 private:
  StepLimits limits_;
};

}  // namespace

void add_vllm_v1(BatchingRegistry& registry) {
  registry.add<VllmV1Params>(
      "vllm_v1", "One token budget: running sequences first, prompts in chunks, KV blocks chunk by chunk (vLLM V1).",
      [](const VllmV1Params& params) { return std::make_unique<VllmV1Batching>(params); });
}

}  // namespace orrery::policies
