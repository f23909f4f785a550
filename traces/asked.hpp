// What a request asks for: the same from the trace or the program that it comes from to the record that it leaves.
#pragma once

#include <cstdint>
#include <limits>

namespace orrery::traces {

struct Asked {
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;     ///< true length. An oracle: only a policy that says so may read it
  std::int64_t predicted_tokens = 0;  ///< of the output, as a predictor or the program told at arrival; 0: none
  std::int64_t deadline_ticks = std::numeric_limits<std::int64_t>::max();  ///< by which it should end
  std::int32_t priority = 0;  ///< higher goes first, where a policy looks at it
  std::int32_t tenant = 0;    ///< who pays, and whom fairness is owed to
  std::int32_t branches = 1;  ///< outputs sampled side by side from one prompt, in lock-step

  /// This part of whoever holds it.
  Asked& asked() { return *this; }
  const Asked& asked() const { return *this; }
};

}  // namespace orrery::traces
