#include "policies/batching/budget_step.hpp"

#include <algorithm>
#include <utility>

#include "policies/batching/preemption.hpp"

namespace orrery::policies {

BudgetStep::BudgetStep(const BatchView& view, BatchDecision& out, const StepLimits& limits)
    : view_(view),
      out_(out),
      limits_(limits),
      budget_(limits.tokens),
      free_(view.kv.available_blocks()),
      running_(view.live()) {}

void BudgetStep::stop(SeqId id) {
  out_.preempt.push_back({id});
  free_ += blocks_freed(view_, id);
  --running_;
}

void BudgetStep::preempt(SeqId id) {
  stop(id);
}

void BudgetStep::run_running(Victim victim) {
  if (!out_.preempt.empty() || !run_plain())
    run_in_order([&](const std::vector<Planned>& line) { return pick(line, victim); });
}

void BudgetStep::run_running(const VictimScore& score) {
  if (!out_.preempt.empty() || !run_plain())
    run_in_order([&](const std::vector<Planned>& line) { return pick(line, score); });
}

/// The usual case, without a walk: everybody has blocks, and the order in which tokens are given out does not matter.
bool BudgetStep::run_plain() {
  std::int64_t left = budget_ - view_.decode_tokens;
  std::int64_t free = free_ - view_.growth_blocks;
  if (left < 0 || free < 0) return false;
  const std::size_t prompts = view_.prefilling.size();
  const bool prompts_last = prompts == 0 || view_.running[view_.running.size() - prompts] == view_.prefilling.front();
  for (const SeqId id : view_.prefilling) {
    const Sequence& seq = view_[id];
    const std::int64_t wanted = std::min(seq.prefill_left(), limits_.chunk);
    const std::int64_t chunk = std::min(wanted, left);
    if (chunk > 0) {
      out_.items.push_back({.seq = id, .new_tokens = chunk});
      free -= view_.kv.blocks_to_grow(id, seq, seq.kv_then + chunk);
    }
    if (free < 0 || (chunk < wanted && !prompts_last)) {
      out_.items.clear();
      return false;
    }
    left -= chunk;
  }
  budget_ = left;
  free_ = free;
  return true;
}

std::size_t BudgetStep::pick(const std::vector<Planned>& line, Victim victim) const {
  std::size_t worst = line.size() - 1;
  if (victim == Victim::lowest)
    for (std::size_t i = worst; i-- > 0;)
      if (std::pair(view_[line[i].id].priority, -view_[line[i].id].order) <
          std::pair(view_[line[worst].id].priority, -view_[line[worst].id].order))
        worst = i;
  return worst;
}

std::size_t BudgetStep::pick(const std::vector<Planned>& line, const VictimScore& score) {
  std::size_t worst = line.size() - 1;
  for (std::size_t i = worst; i-- > 1;)
    if (score(line[i].id) > score(line[worst].id)) worst = i;
  return worst;
}

void BudgetStep::run_in_order(const Pick& pick_victim) {
  std::vector<Planned> line;
  for (const SeqId id : view_.running) {
    const auto gone = [&](const Preemption& preemption) { return preemption.seq == id; };
    if (view_[id].phase != Phase::paused && std::none_of(out_.preempt.begin(), out_.preempt.end(), gone))
      line.push_back({id, 0, 0});
  }
  for (std::size_t i = 0; i < line.size() && budget_ > 0; ++i) {
    const Sequence& seq = view_[line[i].id];
    const bool decodes = seq.phase == Phase::decode;
    const std::int64_t tokens = decodes ? seq.branches : std::min({seq.prefill_left(), limits_.chunk, budget_});
    if (tokens > budget_) break;
    const std::int64_t blocks =
        decodes ? blocks_grown(view_, line[i].id) : view_.kv.blocks_to_grow(line[i].id, seq, seq.kv_then + tokens);
    bool here = true;
    while (blocks > free_ && here) {
      const std::size_t goes = pick_victim(line);
      stop(line[goes].id);
      free_ += line[goes].blocks;
      budget_ += line[goes].tokens;
      line.erase(line.begin() + static_cast<std::ptrdiff_t>(goes));
      here = goes != i;
      if (goes <= i) --i;  // wraps at 0, and the loop's increment brings it back
    }
    if (!here) continue;
    line[i].tokens = tokens;
    line[i].blocks = blocks;
    free_ -= blocks;
    budget_ -= tokens;
  }
  for (const Planned& planned : line)
    if (planned.tokens == 0 && view_[planned.id].phase == Phase::decode) out_.decode_rest = false;
  for (const Planned& planned : line)
    if (planned.tokens > 0 && (view_[planned.id].phase == Phase::prefill || !out_.decode_rest))
      out_.items.push_back({.seq = planned.id, .new_tokens = planned.tokens});
}

bool BudgetStep::too_large(SeqId id) const {
  return view_.kv.blocks_of(view_[id], view_[id].prefill_tokens) > view_.kv.total_blocks();
}

bool BudgetStep::admit(SeqId id) {
  if (full() || too_large(id)) return false;
  const Sequence& seq = view_[id];
  const std::int64_t left = tokens_to_compute(view_, id);
  // What has outgrown the budget since it was admitted first is split all the same, or it would wait for ever.
  if (!limits_.chunked && std::min({left, limits_.chunk, limits_.tokens}) > budget_) return false;
  const std::int64_t chunk = std::min({left, limits_.chunk, budget_});
  const std::int64_t tokens = seq.prefill_tokens - left + chunk;
  const std::int64_t blocks = blocks_to_admit_beside(view_, out_, id, tokens);
  if (blocks > free_) return false;
  if (limits_.room_for_all && blocks_to_admit_beside(view_, out_, id, seq.prefill_tokens) > free_) return false;
  free_ -= blocks;
  budget_ -= chunk;
  ++running_;
  out_.admit.push_back({id, tokens});
  out_.items.push_back({.seq = id, .new_tokens = chunk});
  return true;
}

void BudgetStep::settle() const {
  if (out_.items.empty() && out_.preempt.empty() && out_.decode_rest)
    out_.stable_iterations = full() ? kStable : steps_until_eviction(view_);
}

}  // namespace orrery::policies
