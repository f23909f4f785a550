// One step of a scheduler with a unified token budget: running sequences first, then waiting ones.
//
// The loop of vLLM's V1 scheduler, shared by the policies that differ from it only in whom they admit first and whom
// they preempt. Every running sequence, in the order of admission, takes what it needs (a decode its tokens, a prompt
// the chunk that fits); blocks are allocated for what this step writes and no more; who finds no block makes the last
// one in the line go. Cost: O(prefilling + admitted) if nobody is preempted and the budget covers every decode, else
// O(running).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "policies/batching/batching.hpp"

namespace orrery::policies {

struct StepLimits {
  std::int64_t tokens = 0;                                        ///< most in the step
  std::int64_t sequences = 0;                                     ///< most that run at once
  std::int64_t chunk = std::numeric_limits<std::int64_t>::max();  ///< most tokens of one prompt in the step
  bool chunked = true;        ///< false: a prompt is admitted only if all of it fits the budget
  bool room_for_all = false;  ///< true: a prompt is admitted only if there are blocks for all of it now
};

/// Which running sequence is preempted first where there are too few blocks.
enum class Victim : std::uint8_t {
  latest,  ///< the latest admission
  lowest   ///< of the lowest priority, the latest arrival
};
/// Who goes first by a number of each: the greatest, of equals the latest admission. The earliest admission that runs
/// is spared, so that it gets on to its end whatever the numbers say; so every run ends.
using VictimScore = std::function<std::int64_t(SeqId)>;

class BudgetStep {
 public:
  /// Borrows all three for as long as it lives.
  BudgetStep(const BatchView& view, BatchDecision& out, const StepLimits& limits);

  /// Stops a running sequence in favour of others; before run_running() only.
  void preempt(SeqId id);
  /// Gives running sequences their tokens, in the order of admission; preempts where there are too few blocks.
  void run_running(Victim victim = Victim::latest);
  void run_running(const VictimScore& score);
  /// Admits a waiting sequence with its first chunk, after run_running(). False, and no change, if budget, slots or
  /// blocks do not allow it.
  bool admit(SeqId id);

  /// No budget or no slot is left: whoever asks for admission is turned down.
  bool full() const { return budget_ <= 0 || running_ >= limits_.sequences; }
  /// Not even the whole cache would hold what this waiting sequence has to prefill.
  bool too_large(SeqId id) const;
  /// Blocks that are left.
  std::int64_t free_blocks() const { return free_; }
  std::int64_t free_slots() const { return limits_.sequences - running_; }
  /// Says how long the answer holds, if it does: call last. Full slots, budget or cache stay so while decodes alone go
  /// on, for none of them gives anything back.
  void settle() const;

 private:
  struct Planned {
    SeqId id;
    std::int64_t tokens, blocks;  // in this step; no tokens: it was passed over
  };
  bool run_plain();
  using Pick = std::function<std::size_t(const std::vector<Planned>&)>;  // index in a line of who has to go
  void run_in_order(const Pick& pick);
  void stop(SeqId id);
  std::size_t pick(const std::vector<Planned>& line, Victim victim) const;
  static std::size_t pick(const std::vector<Planned>& line, const VictimScore& score);

  const BatchView& view_;
  BatchDecision& out_;
  StepLimits limits_;
  std::int64_t budget_;
  std::int64_t free_;     // blocks
  std::int64_t running_;  // sequences
};

}  // namespace orrery::policies
