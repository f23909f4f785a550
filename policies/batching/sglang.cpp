// SGLang: prompts first, those that share most with the prefix cache before others.
//
// Decides: unfinished prompts go on, then waiting ones are admitted by `order` while slots, token budget and pages
// (above a watermark) last; an iteration of prompts runs without decodes unless `mixed`. Else all decodes run; where
// pages lack, the latest admitted is preempted and recomputed. Orders:
//  - lpm: longest matched prefix first (Algorithm 1 of the paper), ties by arrival;
//  - fcfs, random: for comparison (random is a fixed shuffle of arrival numbers);
//  - dfs: depth first along the tree of all waiting prompts, which is optimal offline if the cache holds the longest
//    request (Theorem 3.1).
// A prompt of which one that is being prefilled computes `hold_shared` tokens or more that are not in the cache yet
// waits until that is done, for computing both at once would do the same work twice. Nothing keeps lpm from
// starving a prompt that shares little. Who finds no room is not asked again before a sequence has left
// (batch_is_full), though what decodes push out of the cache changes who matches most. With `recv_interval` k (the
// engine's --scheduler-recv-interval) it looks for new requests at every k-th step of decodes only, so that one waits
// (k - 1) / 2 steps in the mean; where nothing decodes it looks at once. Source: SGLang (NeurIPS 2024,
// arXiv 2312.07104v2), section 3, and managers/schedule_policy.py (there, held prompts go last in their batch). The
// scheduler's own time and its overlap with the devices are the host's (replica.*), not the policy's.
#include <algorithm>
#include <map>
#include <vector>

#include "policies/batching/batching.hpp"
#include "policies/batching/preemption.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/mix.hpp"

namespace orrery::policies {
namespace {

enum class AdmitOrder : std::uint8_t { lpm, fcfs, random, dfs };
constexpr auto enum_names(AdmitOrder) {
  using enum AdmitOrder;
  return sim::names<AdmitOrder>({{"lpm", lpm}, {"fcfs", fcfs}, {"random", random}, {"dfs", dfs}});
}

struct SglangParams {
  AdmitOrder order = AdmitOrder::lpm;
  std::int64_t max_prefill_tokens = 16384;
  std::int64_t max_sequences = 256;
  std::int64_t hold_shared = 32;
  double watermark = 0.01;
  bool mixed = false;
  std::int64_t recv_interval = 1;

  static constexpr auto fields() {
    using P = SglangParams;
    return sim::FieldTable{
        sim::field("order", &P::order,
                   "Who is admitted first: longest matched prefix (lpm), first come (fcfs), random, or depth first "
                   "along the prefix tree (dfs)."),
        sim::field("max_prefill_tokens", &P::max_prefill_tokens, sim::Unit::tokens, sim::at_least(1),
                   "Most prompt tokens in one iteration; longer prompts are computed in chunks."),
        sim::field("max_sequences", &P::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field(
            "hold_shared", &P::hold_shared, sim::Unit::tokens, sim::at_least(0),
            "Number of shared tokens from which a prompt waits for another one that is computing them; 0: never."),
        sim::field("watermark", &P::watermark, sim::Unit::ratio, sim::between(0, 1),
                   "Share of the KV cache pages that admission leaves free."),
        sim::field("mixed", &P::mixed, "Whether decodes run in the same iteration as prompts."),
        sim::field("recv_interval", &P::recv_interval, sim::Unit::count, sim::between(1, 1e6),
                   "Decode steps from one check for new requests to the next.")};
  }
};

bool text_before(const Text* a, const Text* b) {
  if (a == nullptr || b == nullptr) return a == nullptr && b != nullptr;
  return std::lexicographical_compare(
      a->begin(), a->end(), b->begin(), b->end(),
      [](const TextSpan& x, const TextSpan& y) { return x.id != y.id ? x.id < y.id : x.tokens < y.tokens; });
}

class SglangBatching final : public Batching {
 public:
  explicit SglangBatching(const SglangParams& params) : params_(params) {}

  void decide(const BatchView& view, BatchDecision& out) override {
    if (view.live() == 0 || view.live() < expected_) full_ = false;
    choose(view, out);
    if (!out.preempt.empty()) full_ = false;
    expected_ = view.live() + std::ssize(out.admit) - std::ssize(out.preempt);
  }

 private:
  void choose(const BatchView& view, BatchDecision& out) {
    std::int64_t budget = params_.max_prefill_tokens;
    std::int64_t free = view.kv.available_blocks();
    if (params_.mixed) {
      free = make_room_for_decodes(view, out);
      if (!out.preempt.empty()) return finish_chunks(view, out, budget);
    }
    finish_chunks(view, out, budget);
    const std::int64_t blind = steps_until_look(view);
    if (blind == 0 && !full_ && !view.waiting.empty() && budget > 0 && view.live() < params_.max_sequences)
      admit(view, out, budget, free);
    if (!out.items.empty()) {
      out.decode_rest = params_.mixed;
      return;
    }
    if (!params_.mixed) make_room_for_decodes(view, out);
    if (!out.preempt.empty()) return;
    const bool slots = view.live() < params_.max_sequences;
    out.stable_iterations =
        slots ? steps_until_eviction(view) : kStable;  // who is first in line depends on what is kept
    if (blind > 0 && !view.waiting.empty()) out.stable_iterations = std::min(out.stable_iterations, blind);
  }

  /// Steps of decodes in which new requests are not looked for; 0: now they are.
  std::int64_t steps_until_look(const BatchView& view) {
    if (params_.recv_interval <= 1) return 0;
    if (view.decoding == 0) {
      looked_ = view.clock;
      return 0;
    }
    const std::int64_t since = view.clock - looked_;
    if (since > 0 && since % params_.recv_interval == 0) return 0;
    return params_.recv_interval - since % params_.recv_interval;
  }

  struct Candidate {
    SeqId id;
    std::int64_t matched = 0;
    std::uint64_t rank = 0;
    std::int64_t order = 0;
  };

  static void finish_chunks(const BatchView& view, BatchDecision& out, std::int64_t& budget) {
    for (const SeqId id : view.prefilling) {
      if (budget <= 0) return;
      if (std::any_of(out.preempt.begin(), out.preempt.end(), [&](const Preemption& gone) { return gone.seq == id; }))
        continue;
      const std::int64_t chunk = std::min(view[id].prefill_left(), budget);
      out.items.push_back({.seq = id, .new_tokens = chunk});
      budget -= chunk;
    }
  }

  void sort_waiting(const BatchView& view) {
    line_.clear();
    for (const SeqId id : view.waiting) {
      const Sequence& seq = view[id];
      Candidate one{.id = id, .order = seq.order};
      if (params_.order == AdmitOrder::lpm) one.matched = view.kv.match_prefix(seq);
      if (params_.order == AdmitOrder::random) one.rank = sim::mix64(static_cast<std::uint64_t>(seq.order));
      line_.push_back(one);
    }
    if (params_.order == AdmitOrder::fcfs) return;  // as the queue stands: preempted ones first
    std::sort(line_.begin(), line_.end(), [&](const Candidate& a, const Candidate& b) {
      if (params_.order == AdmitOrder::dfs) {
        const Text *x = view[a.id].text, *y = view[b.id].text;
        if (text_before(x, y)) return true;
        if (text_before(y, x)) return false;
      }
      if (a.matched != b.matched) return a.matched > b.matched;
      return a.rank != b.rank ? a.rank < b.rank : a.order < b.order;
    });
  }

  /// Whether a prompt under way computes more of `seq` than the cache has.
  bool held(const BatchView& view, const Sequence& seq) const {
    if (params_.hold_shared == 0 || seq.text == nullptr || seq.text->empty() || !view.kv.keeps_prefixes()) return false;
    const auto group = under_way_.find(seq.text->front().id);
    if (group == under_way_.end()) return false;
    std::int64_t shared = 0;
    for (const Text* other : group->second) shared = std::max(shared, common_tokens(*seq.text, *other));
    shared = std::min(shared, seq.prefill_tokens - 1);
    return shared >= params_.hold_shared && shared - view.kv.match_prefix(seq) >= params_.hold_shared;
  }
  void add_under_way(const Sequence& seq) {
    if (seq.text != nullptr && !seq.text->empty()) under_way_[seq.text->front().id].push_back(seq.text);
  }

  void admit(const BatchView& view, BatchDecision& out, std::int64_t budget, std::int64_t free) {
    sort_waiting(view);
    under_way_.clear();
    for (const SeqId id : view.prefilling) add_under_way(view[id]);
    const auto spare = static_cast<std::int64_t>(params_.watermark * static_cast<double>(view.kv.total_blocks()));
    for (const Candidate& one : line_) {
      if (budget <= 0 || view.live() + std::ssize(out.admit) >= params_.max_sequences) return;
      const Sequence& seq = view[one.id];
      if (held(view, seq)) continue;
      const std::int64_t blocks = view.kv.blocks_to_admit(seq, seq.prefill_tokens);
      if (free - blocks < spare) {
        if (view.live() == 0 && out.admit.empty()) continue;  // it never will: let the others by
        full_ = true;
        return;
      }
      free -= blocks;
      const std::int64_t chunk = std::min(tokens_to_compute(view, one.id), budget);
      budget -= chunk;
      out.admit.push_back({one.id, seq.prefill_tokens});
      out.items.push_back({.seq = one.id, .new_tokens = chunk});
      add_under_way(seq);
    }
  }

  SglangParams params_;
  std::int64_t looked_ = 0;    // clock of the first of the looks that are recv_interval steps apart
  bool full_ = false;          // somebody found no room, and nobody has left since
  std::int64_t expected_ = 0;  // sequences that run now if none of them has ended
  std::vector<Candidate> line_;
  std::map<std::uint64_t, std::vector<const Text*>> under_way_;  // texts being prefilled, by their first span
};

}  // namespace

void add_sglang(BatchingRegistry& registry) {
  registry.add<SglangParams>(
      "sglang", "SGLang: prompts first, those with the longest prefix in the cache before others (NeurIPS 2024).",
      [](const SglangParams& params) { return std::make_unique<SglangBatching>(params); });
}

}  // namespace orrery::policies
