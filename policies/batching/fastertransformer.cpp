// FasterTransformer: batches of the largest size that memory allows, each run to completion.
//
// Decides: when a batch is over, the next takes the earliest arrivals, up to as many as fit the cache at the context
// limit each; nobody joins or leaves before all have ended. Source: the baseline of the PagedAttention paper (SOSP
// 2023, section 6.1), a dynamic batching scheduler over FasterTransformer. Left out: prompts padded to the longest of
// their batch, and sequences that have ended being computed on.
#include <algorithm>

#include "policies/batching/batching.hpp"
#include "policies/batching/reservation.hpp"
#include "policies/batching/whole_prompts.hpp"

namespace orrery::policies {
namespace {

struct FasterTransformerParams {
  std::optional<std::int64_t> max_batch;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("max_batch", &FasterTransformerParams::max_batch, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences in a batch; null: as many as fit the KV cache at the context limit.")};
  }
};

class FasterTransformer final : public Batching {
 public:
  explicit FasterTransformer(const FasterTransformerParams& params) : params_(params) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    if (!view.running.empty()) {
      if (!run_whole_prompts(view, out)) out.stable_iterations = kStable;
      return;
    }
    if (view.live() > 0) return;  // the batch goes on in other lanes
    const std::int64_t each = view.kv.blocks_for(view.limits.max_context);
    const std::int64_t fit = std::max<std::int64_t>(1, view.kv.total_blocks() / std::max<std::int64_t>(1, each));
    admit_reserved(view, params_.max_batch.value_or(fit), Reservation::max, out);
  }

 private:
  FasterTransformerParams params_;
};

}  // namespace

void add_fastertransformer(BatchingRegistry& registry) {
  registry.add<FasterTransformerParams>(
      "fastertransformer", "The largest batch that fits runs to completion (a baseline of the vLLM paper, SOSP 2023).",
      [](const FasterTransformerParams& params) { return std::make_unique<FasterTransformer>(params); });
}

}  // namespace orrery::policies
