// Layered prefill: a wave of prompts passes one group of layers an iteration, beside decodes that pass all of them.
//
// Decides: the layers are split into G contiguous groups, as equal as can be. A wave is every unfinished and waiting
// prompt, first come, first served, up to a number of tokens (a longer prompt is cut, a piece a wave) and while slots
// and blocks for whole prompts last. In each iteration all decodes run, and the wave passes one group; after the last
// one it emits its first tokens, and the next wave is formed. Who arrives meanwhile waits. G follows from the tokens of
// the wave. So a layer's experts are read once a wave, where chunked prefill reads them once a chunk. If a decode finds
// no block the decode that was admitted last is preempted and recomputed. Source: Layered Prefill (MLSys 2026, arXiv
// 2510.08055) and the authors' scheduler (scale-snu/layered-prefill, nanovllm/engine/scheduler.py, staged-prefill).
//
// Left out: the hidden state and residual that are saved between groups, which lie outside the cache (64 MiB for 8,192
// tokens of 2,048 half-precision values). An iteration that preempts admits nobody.
#include <algorithm>
#include <bit>
#include <limits>

#include "policies/batching/batching.hpp"
#include "policies/batching/preemption.hpp"

namespace orrery::policies {
namespace {

struct LayeredPrefillParams {
  std::int64_t wave_tokens = 8192;
  std::int64_t max_sequences = 256;
  std::int64_t stages = 16;
  std::int64_t group_tokens = 512;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("wave_tokens", &LayeredPrefillParams::wave_tokens, sim::Unit::tokens, sim::at_least(1),
                   "Most prompt tokens in a wave, the prompts that pass the layers together."),
        sim::field("max_sequences", &LayeredPrefillParams::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field("stages", &LayeredPrefillParams::stages, sim::Unit::count, sim::between(1, 4096),
                   "Most groups that the layers are divided into; the authors use 4, 12, 16 or 24."),
        sim::field("group_tokens", &LayeredPrefillParams::group_tokens, sim::Unit::tokens, sim::between(1, 1e12),
                   "Up to this many tokens in a wave, the layers are one group; up to twice as many, two, and so on. "
                   "Beyond eight times as many, all stages are used.")};
  }
};

class LayeredPrefill final : public Batching {
 public:
  explicit LayeredPrefill(const LayeredPrefillParams& params) : params_(params) {}

  std::optional<std::string> obstacle(const ReplicaLimits& limits) const override {
    return unless_alone(limits, "layered_prefill has one wave for the whole replica");
  }
  void decide(const BatchView& view, BatchDecision& out) override {
    const std::int64_t free = make_room(view, out);
    // Members may have left by other ways than ours (their replica failed, say).
    std::erase_if(wave_, [&](const Member& member) {
      const Sequence& seq = view[member.seq];
      return seq.order != member.order || seq.phase != Phase::prefill;
    });
    if (group_ == groups_ || wave_.empty()) {
      wave_.clear();
      form_wave(view, free, out);
    }
    if (wave_.empty()) {
      if (out.preempt.empty()) out.stable_iterations = kStable;
      return;
    }
    const LayerRange layers{first_layer(view, group_), first_layer(view, group_ + 1)};
    for (const Member& member : wave_)
      out.items.push_back({.seq = member.seq, .new_tokens = member.tokens, .layers = layers});
    ++group_;
  }

 private:
  struct Member {
    SeqId seq;
    std::int64_t order, tokens;
  };

  /// Preempts decodes, last admitted first, until the others can grow; the wave never. Returns the blocks left.
  static std::int64_t make_room(const BatchView& view, BatchDecision& out) {
    DecodeRoom room = decode_room(view);
    preempt_for_decodes(view, view.running, Preempt::recompute, MayGo::decoding, room, out);
    return room.left();
  }

  void form_wave(const BatchView& view, std::int64_t free, BatchDecision& out) {
    std::int64_t sequences = view.decoding;
    std::int64_t tokens = 0;
    const auto join = [&](SeqId id, std::int64_t left) {
      const std::int64_t chunk = std::min(left, params_.wave_tokens - tokens);
      wave_.push_back({id, view[id].order, chunk});
      tokens += chunk;
      ++sequences;
    };
    const auto full = [&] { return sequences >= params_.max_sequences || tokens >= params_.wave_tokens; };
    for (const SeqId id : view.prefilling) {
      if (full()) break;
      join(id, view[id].prefill_left());
    }
    for (const SeqId id : view.waiting) {
      if (!out.preempt.empty()) break;  // whoever was preempted is first in line, and the view does not show it yet
      if (full() || std::ssize(view.running) + std::ssize(out.admit) >= params_.max_sequences) break;
      const std::int64_t blocks = view.kv.blocks_to_admit(view[id], view[id].prefill_tokens);
      if (blocks > free) break;
      free -= blocks;
      out.admit.push_back({id, view[id].prefill_tokens});
      join(id, tokens_to_compute(view, id));
    }
    group_ = 0;
    groups_ = std::min<std::int64_t>(groups_for(tokens), view.limits.layers);
  }

  /// Groups of a wave: the largest divisor of the stages up to 1, 2, 4 or 8, all of them for the longest. With 16, 12
  /// and 24 stages that is 1 2 4 8 16, 1 2 4 6 12 and 1 2 4 8 24, as the authors have it.
  std::int64_t groups_for(std::int64_t tokens) const {
    const std::int64_t parts = (tokens + params_.group_tokens - 1) / params_.group_tokens;
    if (parts > 8) return params_.stages;
    auto groups =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(1, parts))));
    groups = std::min(groups, params_.stages);
    while (params_.stages % groups != 0) --groups;
    return groups;
  }

  /// Where a group begins: the first groups have the layers that are left over.
  std::int32_t first_layer(const BatchView& view, std::int64_t group) const {
    const std::int64_t each = view.limits.layers / groups_;
    return static_cast<std::int32_t>(group * each + std::min(group, view.limits.layers % groups_));
  }

  LayeredPrefillParams params_;
  std::vector<Member> wave_;
  std::int64_t group_ = 0, groups_ = 0;  // the next group of the wave, of how many
};

}  // namespace

void add_layered_prefill(BatchingRegistry& registry) {
  registry.add<LayeredPrefillParams>(
      "layered_prefill",
      "A wave of prompts passes one group of layers per iteration, while all decodes pass every layer (MLSys 2026).",
      [](const LayeredPrefillParams& params) { return std::make_unique<LayeredPrefill>(params); });
}

}  // namespace orrery::policies
