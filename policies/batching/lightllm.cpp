// LightLLM: admission by the predicted peak of cache use, token by token.
//
// Decides: a waiting request joins if the cache, counted in tokens, would hold the batch at its fullest: with the
// sequences ordered by the tokens they still have to generate, longest first, the peak is the largest of
// left_i x i + (tokens held by the first i). Prompts run in an iteration of their own, whole, up to a number of tokens;
// decodes wait meanwhile. How much is left comes from the request's prediction, or else from a bound as a client's
// max_new_tokens would give; predictions above the bound are cut. Who outlives a prediction counts as one step short of
// its end. If blocks run out all the same, the latest admission is preempted and recomputed. Source: LightLLM's router
// (request queue, "_can_add_new_req"), as described in Gong et al., "Past-Future Scheduler" (ASPLOS 2025, section 2).
// Left out: the pause of a few decode steps between two admissions.
#include <algorithm>
#include <limits>

#include "policies/batching/batching.hpp"
#include "policies/batching/preemption.hpp"
#include "policies/batching/whole_prompts.hpp"

namespace orrery::policies {
namespace {

struct LightLlmParams {
  std::int64_t max_batched_tokens = 8192;
  std::int64_t max_sequences = 1000;
  std::optional<std::int64_t> max_new_tokens;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("max_batched_tokens", &LightLlmParams::max_batched_tokens, sim::Unit::tokens, sim::at_least(1),
                   "Most prompt tokens in an iteration of prompts; a longer prompt runs alone."),
        sim::field("max_sequences", &LightLlmParams::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field("max_new_tokens", &LightLlmParams::max_new_tokens, sim::Unit::tokens, sim::at_least(1),
                   "Output tokens assumed for a request without a prediction; null: up to the context limit.")};
  }
};

class LightLlm final : public Batching {
 public:
  explicit LightLlm(const LightLlmParams& params) : params_(params) {}

  std::optional<std::string> obstacle(const ReplicaLimits& limits) const override {
    return unless_alone(limits, "lightllm adds up what all that run will hold");
  }
  void decide(const BatchView& view, BatchDecision& out) override {
    if (run_whole_prompts(view, out)) {
      out.decode_rest = false;
      return;
    }
    const std::int64_t steps = admit(view, out);
    if (!out.admit.empty()) {
      out.decode_rest = false;
      return;
    }
    make_room_for_decodes(view, out);
    // The peak with one more falls by a token a step at most while nothing ends, so the answer holds as long.
    if (out.preempt.empty()) out.stable_iterations = std::max<std::int64_t>(1, steps);
  }

 private:
  struct Use {
    std::int64_t left, held, branches;  // held: tokens of all branches
    friend bool operator<(const Use& a, const Use& b) { return a.left != b.left ? a.left > b.left : a.held > b.held; }
  };

  std::int64_t left_of(const BatchView& view, SeqId id) const {
    const Sequence& seq = view[id];
    std::int64_t bound = view.limits.max_context - seq.prompt_tokens;
    if (params_.max_new_tokens) bound = std::min(bound, *params_.max_new_tokens);
    if (seq.predicted_tokens > 0) bound = std::min(bound, seq.predicted_tokens);
    return std::max<std::int64_t>(1, bound - view.generated(id));
  }

  /// Admits who fits. Returns for how many steps of decodes alone the first who did not goes on not to fit.
  std::int64_t admit(const BatchView& view, BatchDecision& out) {
    if (view.waiting.empty() || std::ssize(view.running) >= params_.max_sequences) return kStable;
    uses_.clear();
    for (const SeqId id : view.running) {
      const std::int64_t held = std::max(view.kv_tokens(id), view[id].prefill_tokens);
      uses_.push_back({left_of(view, id), held * view[id].branches, view[id].branches});
    }
    std::sort(uses_.begin(), uses_.end());
    std::int64_t tokens = 0;
    std::int64_t free = view.kv.available_blocks() - view.growth_blocks;
    for (const SeqId id : view.waiting) {
      const Sequence& seq = view[id];
      const std::int64_t chunk = tokens_to_compute(view, id);
      if (std::ssize(view.running) + std::ssize(out.admit) >= params_.max_sequences) return kStable;
      if (!out.admit.empty() && tokens + chunk > params_.max_batched_tokens) return kStable;
      const Use use{left_of(view, id), seq.prefill_tokens * seq.branches, seq.branches};
      const auto at = uses_.insert(std::upper_bound(uses_.begin(), uses_.end(), use), use);
      // Alone it may have what there is: a bound is not a need.
      const std::int64_t excess = uses_.size() == 1 ? 0 : peak() - capacity(view);
      const std::int64_t blocks = view.kv.blocks_to_admit(seq, seq.prefill_tokens);
      if (excess > 0 || blocks > free) {
        uses_.erase(at);
        return excess > 0 ? excess / seq.branches : kStable;
      }
      free -= blocks;
      tokens += chunk;
      out.admit.push_back({id, seq.prefill_tokens});
      out.items.push_back({.seq = id, .new_tokens = chunk});
    }
    return kStable;
  }

  std::int64_t peak() const {
    std::int64_t held = 0;
    std::int64_t branches = 0;
    std::int64_t most = 0;
    for (const Use& use : uses_) {
      held += use.held;
      branches += use.branches;
      most = std::max(most, use.left * branches + held);
    }
    return most;
  }

  /// Tokens the cache holds for so many sequences, each of whose last block may be nearly empty.
  std::int64_t capacity(const BatchView& view) const {
    constexpr std::int64_t kMany = 1 << 20;
    const std::int64_t block = kMany / view.kv.blocks_for(kMany);
    return view.kv.total_blocks() * block - std::ssize(uses_) * (block - 1);
  }

  LightLlmParams params_;
  std::vector<Use> uses_;  // scratch
};

}  // namespace

void add_lightllm(BatchingRegistry& registry) {
  registry.add<LightLlmParams>("lightllm",
                               "Admits by the predicted peak of KV cache use; prompts run first (LightLLM).",
                               [](const LightLlmParams& params) { return std::make_unique<LightLlm>(params); });
}

}  // namespace orrery::policies
