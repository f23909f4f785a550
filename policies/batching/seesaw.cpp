// Seesaw: re-sharding between prefill and decode, with as few switches as memory allows.
//
// Decides: a replica has two layouts (modes). In the prefill layout it computes prompts alone, and what is prefilled
// goes to the store in host memory, so that prefill goes on past the device's own cache. When the store has no room for
// the next prompt, or no prompt is left, it switches to the decode layout: all run, and slots and blocks that get free
// are filled from the store. When the store is empty and prompts wait, what runs goes to the store and the replica
// switches back. Keys and values change their layout on the way through the store, so none crosses a switch on the
// device, but for the batch that ends a phase when nothing else could run. Prompts are computed whole, in order of
// arrival. A prompt that the store can never take is computed when nothing else runs. Source: Seesaw (MLSys 2025,
// sections 4.1-4.3).
#include <algorithm>
#include <limits>

#include "policies/batching/batching.hpp"
#include "policies/batching/preemption.hpp"

namespace orrery::policies {
namespace {

struct SeesawParams {
  std::optional<std::int64_t> max_batched_tokens;
  std::int64_t max_sequences = 256;
  double watermark = 0.01;
  std::int32_t prefill_mode = 0;
  std::int32_t decode_mode = 1;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("max_batched_tokens", &SeesawParams::max_batched_tokens, sim::Unit::tokens, sim::at_least(1),
                   "Most prompt tokens in one iteration; null: the context limit, but at least 2048."),
        sim::field("max_sequences", &SeesawParams::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field("watermark", &SeesawParams::watermark, sim::Unit::ratio, sim::between(0, 1),
                   "Share of the KV blocks that admission in the decode layout leaves free."),
        sim::field("prefill_mode", &SeesawParams::prefill_mode, sim::Unit::none, sim::at_least(0),
                   "Layout for prompts, as an index into layouts.modes, counted from 0."),
        sim::field("decode_mode", &SeesawParams::decode_mode, sim::Unit::none, sim::at_least(0),
                   "Layout for decodes, as an index into layouts.modes, counted from 0.")};
  }
};

class SeesawBatching final : public Batching {
 public:
  explicit SeesawBatching(const SeesawParams& params) : params_(params) {}

  std::optional<std::string> obstacle(const ReplicaLimits& limits) const override {
    const std::int32_t last = std::max(params_.prefill_mode, params_.decode_mode);
    if (limits.modes == 0 || last < limits.modes) return std::nullopt;
    return "seesaw switches to mode " + std::to_string(last) + " (prefill_mode, decode_mode), counted from 0, and " +
           "the replica has " + std::to_string(limits.modes) + " (layouts.modes)";
  }

  void decide(const BatchView& view, BatchDecision& out) override {
    const Queue queue = look(view);
    // Once begun, a phase of prompts lasts while the store has room; another begins when the store is empty.
    prefilling_ = (prefilling_ || queue.stored == 0) && prompt_fits(view, queue);
    if (prefilling_) {
      prefill(view, queue, out);
    } else {
      decode(view, queue, out);
    }
  }

 private:
  struct Queue {
    std::int64_t stored = 0, stored_tokens = 0;
    std::optional<SeqId> prompt;  ///< first that is not computed yet
  };
  static bool stored(const BatchView& view, SeqId id) { return view[id].ready_tokens > 0; }
  static Queue look(const BatchView& view) {
    Queue queue;
    for (const SeqId id : view.waiting) {
      if (stored(view, id)) {
        ++queue.stored;
        queue.stored_tokens += view[id].ready_tokens;
      } else if (!queue.prompt) {
        queue.prompt = id;
      }
    }
    return queue;
  }
  std::int64_t budget(const BatchView& view) const {
    return params_.max_batched_tokens.value_or(std::max<std::int64_t>(view.limits.max_context, 2048));
  }

  /// Whether the store takes all that runs and the next prompt.
  static bool prompt_fits(const BatchView& view, const Queue& queue) {
    if (!queue.prompt) return false;
    const Sequence& seq = view[*queue.prompt];
    std::int64_t tokens = queue.stored_tokens + view.elsewhere_tokens + seq.prefill_tokens;
    if (tokens > view.limits.tier_tokens) return false;
    for (const SeqId id : view.running) tokens += view.kv_tokens(id);
    return tokens <= view.limits.tier_tokens &&
           view.kv.blocks_to_admit(seq, seq.prefill_tokens) <= view.kv.total_blocks();
  }

  /// Sends `id` to the store, of which `room` tokens are left, or has it recomputed.
  static void put_away(const BatchView& view, SeqId id, std::int64_t& room, BatchDecision& out) {
    const std::int64_t tokens = view.kv_tokens(id);
    const bool fits = view[id].phase == Phase::decode && tokens <= room;
    if (fits) room -= tokens;
    out.preempt.push_back({id, fits ? Preempt::swap : Preempt::recompute});
  }

  /// Puts away all that runs, the earliest admitted last, so that it is first in the queue. Returns the free blocks.
  static std::int64_t clear_device(const BatchView& view, std::int64_t& room, BatchDecision& out) {
    std::int64_t free = view.kv.available_blocks();
    for (auto id = view.running.rbegin(); id != view.running.rend(); ++id) {
      free += blocks_freed(view, *id);
      put_away(view, *id, room, out);
    }
    return free;
  }

  /// Admits prompts, whole, as far as tokens, slots, blocks and the room in the store go.
  void admit_prompts(const BatchView& view, std::int64_t free, std::int64_t room, BatchDecision& out) const {
    std::int64_t tokens = 0;
    for (const SeqId id : view.waiting) {
      if (stored(view, id)) continue;
      const Sequence& seq = view[id];
      const std::int64_t prompt = tokens_to_compute(view, id);
      const std::int64_t blocks = blocks_to_admit_beside(view, out, id, seq.prefill_tokens);
      if ((tokens > 0 && tokens + prompt > budget(view)) || blocks > free || seq.prefill_tokens > room) return;
      if (view.elsewhere + std::ssize(out.admit) >= params_.max_sequences) return;
      tokens += prompt;
      free -= blocks;
      room -= seq.prefill_tokens;
      out.admit.push_back({id, seq.prefill_tokens});
      out.items.push_back({.seq = id, .new_tokens = prompt});
    }
  }

  void prefill(const BatchView& view, const Queue& queue, BatchDecision& out) const {
    out.mode = params_.prefill_mode;
    out.decode_rest = false;
    std::int64_t room = view.limits.tier_tokens - queue.stored_tokens - view.elsewhere_tokens;
    const std::int64_t free = clear_device(view, room, out);
    admit_prompts(view, free, room, out);
  }

  void decode(const BatchView& view, const Queue& queue, BatchDecision& out) const {
    std::int64_t room = view.limits.tier_tokens - queue.stored_tokens;
    if (view.mode != params_.decode_mode && view.limits.tier_tokens > 0) {
      out.mode = params_.decode_mode;
      if (queue.stored > 0) {
        // What the last prompts left goes through the store too.
        std::int64_t left = room;
        fill(view, clear_device(view, left, out), 0, out);
        if (!out.admit.empty()) return;
        out.preempt.clear();
      }
    }
    const std::int64_t free = make_room_for_decodes(view, out);
    if (!out.preempt.empty()) {
      std::vector<Preemption> latest;
      latest.swap(out.preempt);
      for (const Preemption& gone : latest) put_away(view, gone.seq, room, out);
      return;
    }
    if (queue.stored > 0) fill(view, free, view.live(), out);
    if (!out.admit.empty()) return;
    if (view.live() == 0) {
      // The store has no room for this prompt: it is computed in whatever layout there is.
      admit_prompts(view, free, std::numeric_limits<std::int64_t>::max(), out);
      return;
    }
    out.stable_iterations = kStable;  // blocks, slots and the store give no more room while decodes grow
  }

  /// Takes sequences out of the store into free slots and blocks.
  void fill(const BatchView& view, std::int64_t free, std::int64_t running, BatchDecision& out) const {
    const auto spare = static_cast<std::int64_t>(params_.watermark * static_cast<double>(view.kv.total_blocks()));
    for (const SeqId id : view.waiting) {
      if (running >= params_.max_sequences) return;
      if (!stored(view, id)) continue;
      const Sequence& seq = view[id];
      const std::int64_t blocks = blocks_to_admit_beside(view, out, id, seq.prefill_tokens);
      if (blocks > (running > 0 ? free - spare : free)) return;
      free -= blocks;
      ++running;
      out.admit.push_back({id, seq.prefill_tokens});
      out.items.push_back({.seq = id, .new_tokens = tokens_to_compute(view, id)});
    }
  }

  SeesawParams params_;
  bool prefilling_ = false;
};

}  // namespace

void add_seesaw(BatchingRegistry& registry) {
  registry.add<SeesawParams>("seesaw",
                             "Prefill and decode each use their own layout, with re-sharding in between (MLSys 2025).",
                             [](const SeesawParams& params) { return std::make_unique<SeesawBatching>(params); });
}

}  // namespace orrery::policies
