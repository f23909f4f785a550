// Read-ME: batches of tokens that choose the same experts, known before they are computed.
//
// Decides: every decode, every prompt that is under way and every request that could be admitted waits in the queue of
// an expert: the one that its next tokens choose, of a chunk of prompt the one that most of them do. A batch of
// `max_tokens` is filled from the queue with most tokens, then from the next longest; within a queue decodes and
// prompts go by admission, then requests by arrival. Who was left out `patience` times goes first. Without a free block
// the latest-admitted sequence is preempted and recomputed. Source: Read-ME (NeurIPS 2024, arXiv 2410.19123, algorithm
// 1), which has no bound on waiting (`patience` 0). Our reading: the paper does not say in which queue a prompt is.
#include <algorithm>
#include <map>

#include "policies/batching/batching.hpp"
#include "policies/batching/preemption.hpp"

namespace orrery::policies {
namespace {

struct ReadMeParams {
  std::int64_t max_tokens = 512, max_sequences = 128, patience = 0;

  static constexpr auto fields() {
    using P = ReadMeParams;
    return sim::FieldTable{
        sim::field("max_tokens", &P::max_tokens, sim::Unit::tokens, sim::at_least(1), "Most tokens in an iteration."),
        sim::field("max_sequences", &P::max_sequences, sim::Unit::sequences, sim::at_least(1),
                   "Most sequences that run at once."),
        sim::field("patience", &P::patience, sim::Unit::count, sim::at_least(0),
                   "Iterations that a running sequence is left out of before it goes first; 0: it waits as long as its "
                   "expert's queue is shorter than others.")};
  }
};

class ReadMeBatching final : public Batching {
 public:
  explicit ReadMeBatching(const ReadMeParams& params) : params_(params) {}

  std::optional<std::string> obstacle(const ReplicaLimits& limits) const override {
    return unless_alone(limits, "read_me counts what all that run wait for");
  }

  void decide(const BatchView& view, BatchDecision& out) override {
    std::int64_t free = make_room_for_decodes(view, out);
    collect(view, out);
    std::int64_t budget = params_.max_tokens, decodes = 0;
    std::int64_t slots = out.preempt.empty() ? params_.max_sequences - view.live() : 0;
    bool admits = true;  // nobody overtakes a request for which there are no blocks
    for (const std::size_t i : in_order()) {
      Unit& unit = units_[i];
      if (budget <= 0) break;
      const Sequence& seq = view[unit.id];
      if (seq.phase == Phase::decode && unit.tokens > budget && budget < params_.max_tokens) continue;
      if (seq.phase == Phase::waiting) {
        const std::int64_t blocks = view.kv.blocks_to_admit(seq, seq.prefill_tokens);
        admits = admits && blocks <= free;
        if (!admits || slots <= 0) continue;
        free -= blocks;
        --slots;
        out.admit.push_back({unit.id, seq.prefill_tokens});
      }
      unit.taken = true;
      const std::int64_t tokens = seq.phase == Phase::decode ? unit.tokens : std::min(unit.tokens, budget);
      budget -= tokens;
      decodes += seq.phase == Phase::decode ? 1 : 0;
      if (seq.phase != Phase::decode) out.items.push_back({.seq = unit.id, .new_tokens = tokens});
    }
    out.decode_rest = decodes == decoding_;
    for (const Unit& unit : units_) {
      if (view[unit.id].phase == Phase::decode && unit.taken && !out.decode_rest)
        out.items.push_back({.seq = unit.id, .new_tokens = unit.tokens});
      if (view[unit.id].phase != Phase::waiting || unit.taken)
        left_out(unit.id) = unit.taken ? 0 : left_out(unit.id) + 1;
    }
  }

 private:
  struct Unit {
    SeqId id;
    std::int64_t tokens = 0;
    std::uint16_t expert = 0;
    bool taken = false;
  };

  std::int64_t& left_out(SeqId id) {
    if (id.index >= left_out_.size()) left_out_.resize(id.index + 1, 0);
    return left_out_[id.index];
  }

  /// All who may have tokens in the batch, by admission, then by arrival.
  void collect(const BatchView& view, const BatchDecision& out) {
    units_.clear();
    decoding_ = 0;
    // A decode's branches stand at one place; a chunk goes on from what is there.
    const auto add = [&](SeqId id, std::int64_t tokens, std::int64_t first, std::int64_t places) {
      next_.assign(1, 0);  // where nobody knows, all wait in one queue: by admission
      if (view.experts != nullptr) view.experts->chosen(id, first, places, next_);
      std::map<std::uint16_t, std::int64_t> times;
      for (const std::uint16_t expert : next_) ++times[expert];
      const auto most = std::ranges::max_element(times, {}, [](const auto& of) { return of.second; });
      units_.push_back({.id = id, .tokens = tokens, .expert = most->first});
    };
    for (const SeqId id : view.running) {
      const Sequence& seq = view[id];
      const auto goes = [&](const Preemption& gone) { return gone.seq == id; };
      if (seq.phase == Phase::paused || std::ranges::any_of(out.preempt, goes)) continue;
      const std::int64_t chunk = std::min(seq.prefill_left(), params_.max_tokens);
      if (seq.phase == Phase::decode) ++decoding_;
      if (seq.phase == Phase::decode)
        add(id, seq.branches, view.kv_tokens(id), 1);
      else
        add(id, chunk, view.kv_tokens(id), chunk);
    }
    if (!out.preempt.empty()) return;
    std::int64_t slots = params_.max_sequences - view.live();
    for (const SeqId id : view.waiting) {
      if (slots-- <= 0) break;
      const std::int64_t left = tokens_to_compute(view, id), chunk = std::min(left, params_.max_tokens);
      add(id, chunk, view[id].prefill_tokens - left, chunk);
    }
  }

  /// Units by the queues that they wait in, the longest first; before them those whose patience is at an end.
  std::vector<std::size_t> in_order() {
    std::map<std::uint16_t, std::int64_t> waits;
    for (const Unit& unit : units_) waits[unit.expert] += unit.tokens;
    std::vector<std::size_t> order(units_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto rank = [&](std::size_t i) {
      const Unit& unit = units_[i];
      const bool overdue = params_.patience > 0 && left_out(unit.id) >= params_.patience;
      return std::tuple(!overdue, overdue ? 0 : -waits[unit.expert], overdue ? std::uint16_t{0} : unit.expert);
    };
    std::ranges::stable_sort(order, {}, rank);
    return order;
  }

  ReadMeParams params_;
  std::vector<Unit> units_;
  std::int64_t decoding_ = 0;
  std::vector<std::int64_t> left_out_;  // iterations in a row, by slot
  std::vector<std::uint16_t> next_;
};

}  // namespace

void add_read_me_batching(BatchingRegistry& registry) {
  registry.add<ReadMeParams>(std::string(kReadMe),
                             "Batches filled from the longest queue of tokens that choose one expert (NeurIPS 2024), "
                             "as workload.router says.",
                             [](const ReadMeParams& params) { return std::make_unique<ReadMeBatching>(params); });
}

}  // namespace orrery::policies
