// Sarathi-Serve: stall-free batching with chunked prefills.
//
// Decides: a budget of tokens an iteration. Every decode takes one; unfinished prompts take what is left, in order of
// admission; then new prompts are admitted while budget, slots and blocks (above a watermark) last. No decode ever
// waits for a prompt. Without a free block the latest-admitted sequence is preempted and recomputed. The budget is a
// number, or follows from a target for the time between tokens: the largest whose iteration meets it. A chunk schedule
// makes the chunks of a prompt smaller the farther it has come, because they read more cache. Source: Sarathi-Serve
// (OSDI 2024, Algorithm 3; budget: section 4.3; schedule: the authors' dynamic chunking). Left out: the authors sort
// who runs by arrival, which differs only where requests do not come in by arrival (handed over, migrated).
#include <algorithm>
#include <cmath>
#include <limits>

#include "policies/batching/batching.hpp"
#include "policies/batching/preemption.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::policies {

/// When the budget of a target is computed.
enum class SloBudget : std::uint8_t {
  fixed,     ///< once: a chunk at the end of the longest prompt, alone, as one profiles it
  iteration  ///< every time there is a prompt: beside the decodes there are
};
constexpr auto enum_names(SloBudget) {
  using enum SloBudget;
  return sim::names<SloBudget>({{"fixed", fixed}, {"iteration", iteration}});
}

namespace {

struct ChunkSchedule {
  std::int64_t stages = 0;
  std::int64_t high = 2048;
  std::int64_t low = 512;
  std::int64_t max_tokens = 16384;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("stages", &ChunkSchedule::stages, sim::Unit::count, sim::between(0, 4096),
                   "Number of parts of a prompt, each with its own token budget; 0: no schedule."),
        sim::field("high", &ChunkSchedule::high, sim::Unit::tokens, sim::between(1, 1e12),
                   "Token budget for the first part of a prompt."),
        sim::field(
            "low", &ChunkSchedule::low, sim::Unit::tokens, sim::between(1, 1e12),
            "Token budget for the last part of a prompt. Those between are interpolated linearly, in multiples of 32."),
        sim::field("max_tokens", &ChunkSchedule::max_tokens, sim::Unit::tokens, sim::between(1, 1e12),
                   "Length of prompt that is divided into the parts.")};
  }
};

struct SarathiParams {
  std::int64_t token_budget = 512;
  std::int64_t max_sequences = 128;
  double watermark = 0.01;
  std::optional<double> tbt_slo_s;
  SloBudget slo_budget = SloBudget::fixed;
  std::int64_t budget_step = 64;
  ChunkSchedule chunk_schedule;
  Preempt preemption = Preempt::recompute;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("token_budget", &SarathiParams::token_budget, sim::Unit::tokens, sim::at_least(1),
                   "Most tokens in an iteration: decodes first, then chunks of prompts."),
        sim::field("max_sequences", &SarathiParams::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field("watermark", &SarathiParams::watermark, sim::Unit::ratio, sim::between(0, 1),
                   "Share of the KV blocks that admission leaves free."),
        sim::field("tbt_slo", &SarathiParams::tbt_slo_s, sim::Unit::seconds, sim::between(1e-6, 3600),
                   "Target for the time between tokens (TBT), from which the token budget is computed; null: "
                   "token_budget holds."),
        sim::field(
            "slo_budget", &SarathiParams::slo_budget,
            "When the budget for tbt_slo is computed: once for the longest prompt (fixed), or at each iteration."),
        sim::field("budget_step", &SarathiParams::budget_step, sim::Unit::tokens, sim::between(1, 65536),
                   "Budgets computed for tbt_slo are multiples of this, at least one, so that tiles are full."),
        sim::field("chunk_schedule", &SarathiParams::chunk_schedule,
                   "Token budgets that fall with the position in the prompt, used in place of token_budget."),
        sim::field("preemption", &SarathiParams::preemption,
                   "What becomes of the KV cache of a preempted sequence: dropped and recomputed, or copied to "
                   "kv_tiers. Without tiers, or room there, it is dropped.")};
  }
};

class SarathiBatching final : public Batching {
 public:
  explicit SarathiBatching(const SarathiParams& params) : params_(params) {
    // As the authors compute them: points on a line, whole, then rounded (halves to even) to multiples of 32.
    const ChunkSchedule& plan = params_.chunk_schedule;
    const std::int64_t unit = std::min<std::int64_t>(32, plan.low);
    for (std::int64_t i = 0; i < plan.stages; ++i) {
      const std::int64_t size =
          plan.stages == 1 ? plan.low : plan.low + (plan.high - plan.low) * (plan.stages - 1 - i) / (plan.stages - 1);
      std::int64_t units = size / unit;
      const std::int64_t rest = 2 * (size % unit);
      if (rest > unit || (rest == unit && units % 2 == 1)) ++units;
      schedule_.push_back(units * unit);
    }
  }

  void decide(const BatchView& view, BatchDecision& out) override {
    std::int64_t free = make_room_for_decodes(view, out, params_.preemption);
    std::int64_t decodes = view.decode_tokens;
    const std::int64_t first_preempted =
        out.preempt.empty() ? std::numeric_limits<std::int64_t>::max() : view[out.preempt.back().seq].turn;
    for (const Preemption& gone : out.preempt)
      decodes -= view[gone.seq].phase == Phase::decode ? view[gone.seq].branches : 0;
    std::int64_t batched = decodes;
    const std::int64_t budget = budget_for(view, decodes);

    for (const SeqId id : view.prefilling) {
      const Sequence& seq = view[id];
      if (seq.turn >= first_preempted) break;  // what is preempted is the tail of `running`
      const std::int64_t chunk = std::min(seq.prefill_left(), budget_at(seq.prefilled, budget) - batched);
      if (chunk <= 0) {
        if (schedule_.empty()) break;
        continue;  // another one, at another place, may have a larger budget
      }
      out.items.push_back({.seq = id, .new_tokens = chunk});
      batched += chunk;
    }
    if (!out.preempt.empty()) return;  // whoever was preempted is first in line, and the view does not show it yet
    const auto spare = static_cast<std::int64_t>(params_.watermark * static_cast<double>(view.kv.total_blocks()));
    for (const SeqId id : view.waiting) {
      if (view.live() + std::ssize(out.admit) >= params_.max_sequences) break;
      const Sequence& seq = view[id];
      const std::int64_t left = tokens_to_compute(view, id);
      const std::int64_t chunk = std::min(left, budget_at(seq.prefill_tokens - left, budget) - batched);
      if (chunk <= 0) break;
      const std::int64_t blocks = view.kv.blocks_to_admit(seq, seq.prefill_tokens);
      if (free - blocks < spare) break;
      free -= blocks;
      out.admit.push_back({id, seq.prefill_tokens});
      out.items.push_back({.seq = id, .new_tokens = chunk});
      batched += chunk;
    }
    // Full slots, budget or cache stay so while decodes alone go on: none of them gives anything back.
    if (out.items.empty() && view.prefilling.empty()) out.stable_iterations = kStable;
  }

 private:
  /// Budget for a chunk that begins at token `done` of its prompt.
  std::int64_t budget_at(std::int64_t done, std::int64_t budget) const {
    if (schedule_.empty()) return budget;
    const std::int64_t stages = std::ssize(schedule_);
    const std::int64_t each = (params_.chunk_schedule.max_tokens + stages - 1) / stages;
    return schedule_[static_cast<std::size_t>(std::min(done / each, stages - 1))];
  }

  /// Budget for all tokens of an iteration with so many decodes.
  std::int64_t budget_for(const BatchView& view, std::int64_t decodes) {
    if (!params_.tbt_slo_s || view.pricer == nullptr) return params_.token_budget;
    if (params_.slo_budget == SloBudget::iteration) {
      if (view.prefilling.empty() && view.waiting.empty()) return decodes;  // nothing to spend it on
      return decodes + chunk_within(view, {.decodes = decodes, .decode_context = view.decode_context});
    }
    if (!budget_) budget_ = chunk_within(view, {});
    return *budget_;
  }

  /// The largest chunk, in steps, with which the iteration meets the target; one step at least. The chunk ends at the
  /// context limit, where it costs most, or beside decodes follows as much as its prompt has done.
  std::int64_t chunk_within(const BatchView& view, BatchSketch sketch) const {
    const std::int64_t target = std::llround(*params_.tbt_slo_s * 1e12);
    const bool alone = sketch.decodes == 0 && params_.slo_budget == SloBudget::fixed;
    const std::int64_t most = std::max<std::int64_t>(1, view.limits.max_context / params_.budget_step);
    std::int64_t low = 1;
    std::int64_t high = most;
    while (low < high) {
      const std::int64_t middle = low + (high - low + 1) / 2;
      sketch.chunk_tokens = middle * params_.budget_step;
      sketch.chunk_past = alone ? std::max<std::int64_t>(0, view.limits.max_context - sketch.chunk_tokens)
                                : (view.prefilling.empty() ? 0 : view[view.prefilling.front()].prefilled);
      if (view.pricer->time_ps(sketch) <= target) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low * params_.budget_step;
  }

  SarathiParams params_;
  std::vector<std::int64_t> schedule_;  // budgets by part of a prompt
  std::optional<std::int64_t> budget_;  // of the target, once computed
};

}  // namespace

void add_sarathi(BatchingRegistry& registry) {
  registry.add<SarathiParams>("sarathi", "Chunked prefills run with all decodes, within a token budget (OSDI 2024).",
                              [](const SarathiParams& params) { return std::make_unique<SarathiBatching>(params); });
}

}  // namespace orrery::policies
