// The gaps between tokens that all steady decodes of a replica share, so that a sequence that was among them for a
// while can be judged by its own gaps without anyone having counted them one by one.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "experiments/systems/serving/observe/metrics.hpp"

namespace orrery::experiments {

/// A growing list of gaps against one target. Amortised constant time and memory a run, logarithmic a question.
class GapHistory {
 public:
  struct Mark {
    std::int64_t gaps = 0, over = 0;
  };
  explicit GapHistory(std::int64_t target) : target_(target) {}
  std::int64_t target() const { return target_; }
  Mark mark() const { return now_; }
  /// Adds the gaps first, first + step, …: `count` >= 1 of them.
  void add_run(std::int64_t first, std::int64_t step, std::int64_t count);
  /// Adds all gaps since `mark` to `verdict`.
  void judge(const Mark& mark, TbtVerdict& verdict) const;
  /// Forgets all; marks from before must not be used again.
  void clear();

 private:
  struct Entry {
    std::int64_t gaps = 0;  ///< the gaps counted when this was added, itself included
    std::int64_t value = 0;
  };
  std::int64_t target_;
  Mark now_;
  std::vector<Entry> least_over_;   ///< values rise from the oldest to the newest: each the least since it was added
  std::vector<Entry> most_within_;  ///< values fall
};

}  // namespace orrery::experiments
