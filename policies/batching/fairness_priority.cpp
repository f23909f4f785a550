// Fairness by priorities that are drawn anew again and again: whoever ranks high now runs, the others make way.
//
// Decides: every `period` decode steps (1/f; 0: never, and arrival order is the priority) priorities are drawn, and the
// running set becomes the highest that fit blocks and slots, down to the first that does not; the others are swapped
// out. In between, waiting sequences are admitted by priority, and where there are too few blocks the lowest is
// preempted. As in vLLM 0.3 prompts are computed whole, in iterations of prompts alone; those do not count in the
// period. Draws are hashes of seed, arrival number and draw number, so equal histories give equal decisions. Pattern
// `random` draws everybody anew; in `markov` a sequence keeps its priority with probability `stay`. Source: FastSwitch
// (arXiv 2411.18424): the problem it sets itself; which distribution its traces have is not published.
#include <algorithm>

#include "policies/batching/batching.hpp"
#include "policies/batching/preemption.hpp"
#include "policies/batching/whole_prompts.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/mix.hpp"

namespace orrery::policies {

enum class PriorityPattern : std::uint8_t { random, markov };
constexpr auto enum_names(PriorityPattern) {
  using enum PriorityPattern;
  return sim::names<PriorityPattern>({{"random", random}, {"markov", markov}});
}

namespace {

struct FairnessParams {
  std::int64_t period = 25;
  PriorityPattern pattern = PriorityPattern::random;
  double stay = 0.75;
  std::int64_t seed = 1;
  std::optional<std::int64_t> max_batched_tokens;
  std::int64_t max_sequences = 256;
  double watermark = 0.01;
  Preempt preemption = Preempt::swap;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("period", &FairnessParams::period, sim::Unit::iterations, sim::at_least(0),
                   "Decode steps between two draws of priorities; 0: no draws, first come, first served."),
        sim::field("pattern", &FairnessParams::pattern,
                   "How priorities are drawn: always anew (random), or kept with probability stay (markov)."),
        sim::field("stay", &FairnessParams::stay, sim::Unit::ratio, sim::between(0, 1),
                   "With markov: probability that a sequence keeps its priority at a draw."),
        sim::field("seed", &FairnessParams::seed, sim::Unit::none, sim::at_least(0),
                   "Seed of the draws of priorities."),
        sim::field("max_batched_tokens", &FairnessParams::max_batched_tokens, sim::Unit::tokens, sim::at_least(1),
                   "Most prompt tokens in one iteration; null: the context limit, but at least 2048."),
        sim::field("max_sequences", &FairnessParams::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field("watermark", &FairnessParams::watermark, sim::Unit::ratio, sim::between(0, 1),
                   "Share of the KV blocks that admission leaves free."),
        sim::field("preemption", &FairnessParams::preemption,
                   "What becomes of the KV cache of a preempted sequence: copied to kv_tiers, or dropped.")};
  }
};

class FairnessBatching final : public Batching {
 public:
  explicit FairnessBatching(const FairnessParams& params) : params_(params) {}

  std::optional<std::string> obstacle(const ReplicaLimits& limits) const override {
    return unless_alone(limits, "fairness_priority draws by the steps of one clock");
  }
  void decide(const BatchView& view, BatchDecision& out) override {
    if (run_whole_prompts(view, out)) {
      out.decode_rest = false;
      return;
    }
    const std::int64_t draw = params_.period > 0 ? view.clock / params_.period : 0;
    room_ = {decode_room(view),
             static_cast<std::int64_t>(params_.watermark * static_cast<double>(view.kv.total_blocks())),
             params_.max_sequences - std::ssize(view.running),
             params_.max_batched_tokens.value_or(std::max<std::int64_t>(view.limits.max_context, 2048))};
    if (draw != draw_) {
      draw_ = draw;
      redraw(view, out);
    } else {
      if (room_.lacks()) make_room(view, out);
      if (out.preempt.empty()) admit_waiting(view, out);
    }
    // Prompts go alone; sequences that come back join the decodes.
    const auto swapped = [&](const Item& item) { return came_back(view[item.seq]); };
    out.decode_rest = std::all_of(out.items.begin(), out.items.end(), swapped);
    if (!out.decode_rest || !out.preempt.empty() || !out.admit.empty()) return;
    // What does not fit now won't while decodes grow, until the next draw.
    out.stable_iterations = params_.period > 0 ? (draw + 1) * params_.period - view.clock : kStable;
  }

  std::optional<std::string_view> reject(const Sequence& seq, const KvView&,
                                         const ReplicaLimits& limits) const override {
    if (seq.prompt_tokens > params_.max_batched_tokens.value_or(std::max<std::int64_t>(limits.max_context, 2048)))
      return "prompt_exceeds_batched_tokens";
    return std::nullopt;
  }

 private:
  struct Room : DecodeRoom {
    std::int64_t spare = 0, slots = 0, tokens = 0;
  };
  struct Ranked {
    std::uint64_t priority = 0;
    std::int64_t order = 0;
    SeqId id;
    friend bool operator<(const Ranked& a, const Ranked& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
    }
  };

  static bool came_back(const Sequence& seq) {
    return seq.generated_then > 0 && seq.ready_tokens + 1 >= seq.prefill_tokens;
  }

  std::uint64_t hash(std::int64_t order, std::int64_t draw, std::uint64_t what) const {
    const std::uint64_t of_order =
        sim::mix64(static_cast<std::uint64_t>(params_.seed) * 2 + what) + static_cast<std::uint64_t>(order);
    return sim::mix64(sim::mix64(of_order) + static_cast<std::uint64_t>(draw));
  }
  /// Priority since the last draw at which it did not stay; one that has stayed for very long is drawn anew.
  std::uint64_t priority(const Sequence& seq) const {
    if (params_.period == 0) return 0;
    std::int64_t since = draw_;
    if (params_.pattern == PriorityPattern::markov) {
      constexpr std::int64_t kLongest = 1000;
      const std::int64_t least = std::max<std::int64_t>(0, draw_ - kLongest);
      while (since > least && static_cast<double>(hash(seq.order, since, 1) >> 11) * 0x1p-53 < params_.stay) --since;
    }
    return hash(seq.order, since, 0);
  }
  template <class Sequences>
  void rank(const BatchView& view, const Sequences& from) {
    for (const SeqId id : from)
      if (view[id].phase != Phase::paused) ranked_.push_back({priority(view[id]), view[id].order, id});
  }

  void preempt(const BatchView& view, SeqId id, BatchDecision& out) {
    room_.free += blocks_freed(view, id);
    room_.growth -= blocks_grown(view, id);
    ++room_.slots;
    out.preempt.push_back({id, params_.preemption});
  }
  /// Admits a waiting sequence if there is room; false if there is none for it, or for any.
  bool admit(const BatchView& view, SeqId id, BatchDecision& out) {
    const Sequence& seq = view[id];
    const std::int64_t blocks = blocks_to_admit_beside(view, out, id, seq.prefill_tokens);
    const std::int64_t tokens = tokens_to_compute(view, id);
    // One that is computed again may have outgrown the budget; it then goes alone.
    const bool outgrown = seq.preemptions > 0 && out.admit.empty();
    const bool alone = std::ssize(view.running) == std::ssize(out.preempt) && out.admit.empty();  // or it never could
    if (room_.slots <= 0 || room_.free - room_.growth - blocks < (alone ? 0 : room_.spare)) return false;
    if (tokens > room_.tokens && !outgrown) return false;
    room_.free -= blocks;
    room_.tokens -= tokens;
    --room_.slots;
    out.admit.push_back({id, seq.prefill_tokens});
    out.items.push_back({.seq = id, .new_tokens = tokens});
    return true;
  }

  void redraw(const BatchView& view, BatchDecision& out) {
    ranked_.clear();
    rank(view, view.running);
    rank(view, view.waiting);
    std::sort(ranked_.begin(), ranked_.end());
    // Blocks and slots as if nobody ran but those whose copies are under way.
    std::int64_t blocks = room_.free - room_.spare;
    std::int64_t slots = room_.slots;
    for (const SeqId id : view.running) {
      if (view[id].phase == Phase::paused) continue;
      blocks += blocks_freed(view, id);
      ++slots;
    }
    std::size_t in = 0;
    for (; in < ranked_.size() && slots > 0; ++in, --slots) {
      const SeqId id = ranked_[in].id;
      const Sequence& seq = view[id];
      blocks -= seq.phase == Phase::waiting ? view.kv.blocks_to_admit(seq, seq.prefill_tokens)
                                            : blocks_freed(view, id) + blocks_grown(view, id);
      if (blocks < 0 && in > 0) break;
    }
    for (std::size_t i = ranked_.size(); i > in; --i)
      if (view[ranked_[i - 1].id].phase != Phase::waiting) preempt(view, ranked_[i - 1].id, out);
    if (room_.lacks()) make_room(view, out);
    for (std::size_t i = 0; i < in; ++i)
      if (view[ranked_[i].id].phase == Phase::waiting && !admit(view, ranked_[i].id, out)) return;
  }

  /// Preempts the lowest until the others can grow.
  void make_room(const BatchView& view, BatchDecision& out) {
    const auto gone = [&](SeqId id) {
      return std::any_of(out.preempt.begin(), out.preempt.end(), [&](const Preemption& p) { return p.seq == id; });
    };
    std::vector<Ranked> mine;
    for (const SeqId id : view.running)
      if (view[id].phase != Phase::paused && !gone(id)) mine.push_back({priority(view[id]), view[id].order, id});
    std::sort(mine.begin(), mine.end());
    std::vector<SeqId> line(mine.size());
    std::transform(mine.begin(), mine.end(), line.begin(), [](const Ranked& one) { return one.id; });
    const std::size_t before = out.preempt.size();
    preempt_for_decodes(view, line, params_.preemption, MayGo::running, room_, out);
    room_.slots += static_cast<std::int64_t>(out.preempt.size() - before);
  }

  void admit_waiting(const BatchView& view, BatchDecision& out) {
    if (view.waiting.empty() || room_.slots <= 0 || room_.free - room_.growth <= room_.spare) return;
    ranked_.clear();
    rank(view, view.waiting);
    std::sort(ranked_.begin(), ranked_.end());
    for (const Ranked& next : ranked_)
      if (!admit(view, next.id, out)) return;
  }

  FairnessParams params_;
  std::int64_t draw_ = 0;
  Room room_;
  std::vector<Ranked> ranked_;
};

}  // namespace

void add_fairness_priority(BatchingRegistry& registry) {
  registry.add<FairnessParams>(
      "fairness_priority",
      "Priorities are drawn anew periodically: the highest run, the others are swapped out (FastSwitch).",
      [](const FairnessParams& params) { return std::make_unique<FairnessBatching>(params); });
}

}  // namespace orrery::policies
