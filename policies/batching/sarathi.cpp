// Sarathi-Serve: stall-free batching with chunked prefills.
//
// Decides: a budget of tokens an iteration. Every decode takes one; unfinished prompts take what is left, in order of
// arrival; then new prompts are admitted while budget, slots and blocks (above a watermark) last. No decode ever waits
// for a prompt. Without a free block the latest-arrived sequence is preempted and recomputed. Source: Sarathi-Serve
// (OSDI 2024, Algorithm 3).
#include <algorithm>
#include <limits>

#include "policies/batching/batching.hpp"
#include "policies/batching/preemption.hpp"

namespace orrery::policies {
namespace {

struct SarathiParams {
  std::int64_t token_budget = 512;
  std::int64_t max_sequences = 128;
  double watermark = 0.01;

  static constexpr auto fields() {
    return std::tuple{sim::field("token_budget", &SarathiParams::token_budget, sim::Unit::tokens, sim::at_least(1),
                                 "Most tokens an iteration processes: decodes first, then chunks of prompts."),
                      sim::field("max_sequences", &SarathiParams::max_sequences, sim::Unit::sequences, sim::at_least(1),
                                 "Most sequences that run at once."),
                      sim::field("watermark", &SarathiParams::watermark, sim::Unit::ratio, sim::between(0, 1),
                                 "Share of the blocks that admission leaves free.")};
  }
};

class SarathiBatching final : public Batching {
 public:
  explicit SarathiBatching(const SarathiParams& params) : params_(params) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    std::int64_t free = make_room_for_decodes(view, out);
    std::int64_t decodes = view.decode_tokens;
    const std::int64_t first_preempted =
        out.preempt.empty() ? std::numeric_limits<std::int64_t>::max() : view[out.preempt.back().seq].order;
    for (const Preemption& gone : out.preempt)
      decodes -= view[gone.seq].phase == Phase::decode ? view[gone.seq].branches : 0;
    std::int64_t budget = params_.token_budget - decodes;

    for (const SeqId id : view.prefilling) {
      if (budget <= 0) break;
      const Sequence& seq = view[id];
      if (seq.order >= first_preempted) break;  // what is preempted is the tail of `running`
      const std::int64_t chunk = std::min(seq.prefill_left(), budget);
      out.items.push_back({.seq = id, .new_tokens = chunk});
      budget -= chunk;
    }
    if (!out.preempt.empty()) return;  // whoever was preempted is first in line, and the view does not show it yet
    const auto spare = static_cast<std::int64_t>(params_.watermark * static_cast<double>(view.kv.total_blocks()));
    for (const SeqId id : view.waiting) {
      if (budget <= 0 || std::ssize(view.running) + std::ssize(out.admit) >= params_.max_sequences) break;
      const Sequence& seq = view[id];
      const std::int64_t blocks = view.kv.blocks_to_admit(seq, seq.prefill_tokens);
      if (free - blocks < spare) break;
      free -= blocks;
      const std::int64_t chunk = std::min(view.to_compute(id), budget);
      out.admit.push_back({id, seq.prefill_tokens});
      out.items.push_back({.seq = id, .new_tokens = chunk});
      budget -= chunk;
    }
    // Full slots, budget or cache stay so while decodes alone go on: none of them gives anything back.
    if (out.items.empty() && view.prefilling.empty()) out.stable_iterations = kStable;
  }

 private:
  SarathiParams params_;
};

}  // namespace

void add_sarathi(BatchingRegistry& registry) {
  registry.add<SarathiParams>("sarathi", "Chunked prefills beside every decode, within a token budget (OSDI 2024).",
                              [](const SarathiParams& params) { return std::make_unique<SarathiBatching>(params); });
}

}  // namespace orrery::policies
