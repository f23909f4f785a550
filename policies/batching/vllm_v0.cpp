// vLLM v0: paged cache, prefills first.
//
// Decides: if the head of the queue fits (blocks above a watermark, token budget, slots), run an iteration of prompts
// only; else run all decodes, each growing on demand. Without a free block the latest-admitted sequence is preempted
// and recomputed later, prompt and generated tokens in one pass. Admission is first come, first served and stops at
// the first that does not fit. Source: PagedAttention (SOSP 2023, sections 4.3 and 4.5) and the first releases'
// scheduler.
#include <algorithm>

#include "policies/batching/batching.hpp"
#include "policies/batching/preemption.hpp"
#include "policies/batching/waiting_order.hpp"
#include "policies/batching/whole_prompts.hpp"

namespace orrery::policies {
namespace {

struct VllmV0Params {
  std::optional<std::int64_t> max_batched_tokens;
  std::int64_t max_sequences = 256;
  double watermark = 0.01;
  bool padded_budget = false, priorities = false;
  Preempt preemption = Preempt::recompute;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("max_batched_tokens", &VllmV0Params::max_batched_tokens, sim::Unit::tokens, sim::at_least(1),
                   "Most prompt tokens in one iteration; null: the context limit, but at least 2048."),
        sim::field("max_sequences", &VllmV0Params::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field("watermark", &VllmV0Params::watermark, sim::Unit::ratio, sim::between(0, 1),
                   "Share of the KV blocks that admission leaves free."),
        sim::field(
            "padded_budget", &VllmV0Params::padded_budget,
            "Whether a batch of prompts counts as its number of prompts times the longest, as in releases 0.2 to 0.3."),
        sim::field("priorities", &VllmV0Params::priorities,
                   "Whether waiting requests of higher priority are admitted first and running ones of lower priority "
                   "preempted first, as in Llumnix."),
        sim::field("preemption", &VllmV0Params::preemption,
                   "What becomes of the KV cache of a preempted sequence: dropped and recomputed, or copied to "
                   "kv_tiers. Without tiers, or room there, it is dropped.")};
  }
};

class VllmV0Batching final : public Batching {
 public:
  explicit VllmV0Batching(const VllmV0Params& params) : params_(params) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    if (run_whole_prompts(view, out)) {
      out.decode_rest = false;
      return;
    }
    Batch batch{.free = view.kv.available_blocks()};
    if (params_.priorities) {
      queue_.update(view, [&](SeqId id) { return -static_cast<std::int64_t>(view[id].priority); });
      for (auto first = queue_.front(view); first; first = queue_.front(view)) {
        if (!too_large(*first, view) && !admit(*first, view, batch, out)) break;
        queue_.pop();
      }
    } else {
      for (const SeqId id : view.waiting)
        if (!admit(id, view, batch, out)) break;
    }
    advance(view, out);
    if (params_.priorities) queue_.remember(out);
  }

  std::optional<std::string_view> reject(const Sequence& seq, const KvView&,
                                         const ReplicaLimits& limits) const override {
    if (seq.prompt_tokens > budget(limits)) return "prompt_exceeds_batched_tokens";
    return std::nullopt;
  }

  void returned(SeqId id) override {
    if (params_.priorities) queue_.came_back(id);
  }

 private:
  /// Prompts admitted so far, and blocks that are left.
  struct Batch {
    std::int64_t free = 0, tokens = 0, longest = 0;
  };

  /// Runs what was admitted, or else all decodes.
  void advance(const BatchView& view, BatchDecision& out) const {
    if (!out.admit.empty()) {
      // Decodes that were swapped out go on beside the others, as long as these need not make room.
      out.decode_rest = params_.preemption == Preempt::swap && only_swapped(view, out);
      return;
    }
    make_room_for_decodes(view, out, params_.preemption, params_.priorities);
    if (out.preempt.empty()) out.stable_iterations = kStable;  // what did not fit now won't while decodes grow
  }

  std::int64_t budget(const ReplicaLimits& limits) const {
    return params_.max_batched_tokens.value_or(std::max<std::int64_t>(limits.max_context, 2048));
  }

  static bool only_swapped(const BatchView& view, const BatchDecision& out) {
    std::int64_t free = view.kv.available_blocks() - view.growth_blocks;
    for (const Admission& admission : out.admit) {
      const Sequence& seq = view[admission.seq];
      if (seq.generated_then == 0 || seq.ready_tokens + 1 < seq.prefill_tokens) return false;
      free -= view.kv.blocks_to_admit(seq, seq.prefill_tokens);
    }
    return free >= 0;
  }

  std::int64_t spare(const BatchView& view) const {
    return static_cast<std::int64_t>(params_.watermark * static_cast<double>(view.kv.total_blocks()));
  }

  /// Whether not even an empty cache takes it: it must not keep others of its queue back.
  bool too_large(SeqId id, const BatchView& view) const {
    const Sequence& seq = view[id];
    return view.kv.blocks_to_admit(seq, seq.prefill_tokens) > view.kv.total_blocks() - spare(view);
  }

  /// Adds a waiting sequence to the batch, if it fits.
  bool admit(SeqId id, const BatchView& view, Batch& batch, BatchDecision& out) const {
    if (view.live() + std::ssize(out.admit) >= params_.max_sequences) return false;
    const Sequence& seq = view[id];
    const std::int64_t prompt = tokens_to_compute(view, id);
    const std::int64_t count = std::ssize(out.admit) + 1;
    const std::int64_t longest = std::max(batch.longest, prompt);
    const std::int64_t batched = params_.padded_budget ? count * longest : batch.tokens + prompt;
    // A recomputed sequence may have outgrown the budget; it then runs alone, or it would wait for ever.
    const bool outgrown = seq.preemptions > 0 && out.admit.empty();
    if (batched > budget(view.limits) && !outgrown) return false;
    const std::int64_t blocks = view.kv.blocks_to_admit(seq, seq.prefill_tokens);
    if (batch.free - blocks < spare(view)) return false;
    batch = {batch.free - blocks, batch.tokens + prompt, longest};
    out.admit.push_back({id, seq.prefill_tokens});
    out.items.push_back({.seq = id, .new_tokens = prompt});
    return true;
  }

  VllmV0Params params_;
  WaitingOrder queue_;  // with priorities
};

}  // namespace

void add_vllm_v0(BatchingRegistry& registry) {
  registry.add<VllmV0Params>("vllm_v0",
                             "Prefill first, KV blocks on demand, preemption by recomputation (vLLM before 0.6).",
                             [](const VllmV0Params& params) { return std::make_unique<VllmV0Batching>(params); });
}

}  // namespace orrery::policies
