// What a trace looks like: how many requests, how fast and how unevenly they come, how long they are.
#pragma once

#include <cstdint>

#include "sim/base/document.hpp"
#include "traces/trace.hpp"

namespace orrery::traces {

/// Lengths over a trace, in tokens. Percentiles interpolate linearly (past a million requests, within 0.05 %).
struct LengthSummary {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
  std::int64_t max = 0;
};

struct TraceSummary {
  std::int64_t requests = 0;
  SkipCounts skipped;
  bool has_arrivals = true;  ///< false: the four figures of time are 0
  double first_s = 0;        ///< first arrival
  double span_s = 0;         ///< from the first arrival to the last
  double rate_per_s = 0;     ///< gaps over the span; 0 if the span is 0
  double gap_cv = 0;         ///< deviation of the gaps between arrivals over their mean; 0 below two gaps
  LengthSummary prompt, output, total;
  std::int64_t sessions_named = 0;  ///< requests that carry a session
  std::int64_t prefixes_given = 0;  ///< requests that carry prefix blocks
};

/// Reads all of `source`. Throws sim::ConfigError as the source does.
TraceSummary inspect(TraceSource& source);
/// {requests, skipped, span_s, rate_per_s, gap_cv, …, prompt_tokens: {mean, p50, p90, p99, max}, …}.
sim::Node summary_node(const TraceSummary& summary);

}  // namespace orrery::traces
