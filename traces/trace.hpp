// A trace of requests: when each arrives, how long its prompt and its answer are, and what prefix it shares.
//
// Every trace, read from a file or drawn from distributions, is a TraceSource: a stream of records in order of arrival
// that holds one record at a time, so that a trace of months costs no memory. Times are integers (nanoseconds), because
// the sum of doubles depends on its order and a picosecond count does not span the longest public trace.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "traces/asked.hpp"

namespace orrery::traces {

/// Most tokens a prompt or an answer may have, so that sums over a trace stay inside 64 bits.
inline constexpr std::int64_t kMaxTokens = 1'000'000'000;

/// Largest priority (its negative is the least), tenant's number and count of predicted tokens.
inline constexpr std::int64_t kMaxLabel = 1'000'000'000;

/// One request of a trace; prompt and output have 1 to kMaxTokens tokens. No trace tells deadlines or branches.
struct TraceRecord : Asked {
  std::int64_t arrival_ns = 0;  ///< >= 0 and not before the previous record's
  std::int64_t line = 0;        ///< line in its file, or number of the draw; from 1
  std::string session;          ///< conversation it belongs to; empty where the trace tells none
  std::vector<std::int64_t>
      prefix_blocks;  ///< ids of the prompt's token blocks, first to last; equal ids are equal text
};

/// Why a line of a trace was left out.
enum class SkipReason : std::uint8_t {
  malformed,     ///< not a row of the table, not JSON, or a key is missing
  bad_value,     ///< text where a number belongs, a number past its range, zero or negative tokens
  out_of_order,  ///< arrives before the record in front of it
  failed,        ///< a request that failed where it was recorded (BurstGPT)
};
constexpr auto enum_names(SkipReason) {
  using enum SkipReason;
  return sim::names<SkipReason>(
      {{"malformed", malformed}, {"bad_value", bad_value}, {"out_of_order", out_of_order}, {"failed", failed}});
}

/// Lines left out, by reason.
struct SkipCounts {
  std::array<std::int64_t, sim::names_of<SkipReason>.size()> by_reason{};

  void add(SkipReason reason) { ++by_reason[static_cast<std::size_t>(reason)]; }
  std::int64_t of(SkipReason reason) const { return by_reason[static_cast<std::size_t>(reason)]; }
  std::int64_t total() const;
  /// "3 malformed, 1 failed"; empty if nothing was left out.
  std::string text() const;
};

/// What a trace tells of its requests besides their lengths.
struct TraceColumns {
  bool arrivals = true;   ///< false: every arrival reads 0, and the trace must be re-timed
  bool sessions = false;  ///< records may carry a session
  bool prefixes = false;  ///< records may carry prefix blocks
  bool priorities = false, tenants = false, predictions = false;
};

/// Clears what a record may carry besides arrival and lengths.
inline void clear_extras(TraceRecord& record) {
  record.predicted_tokens = 0;
  record.priority = record.tenant = 0;
  record.session.clear();
  record.prefix_blocks.clear();
}

/// A stream of requests in order of arrival.
///
/// `next` fills `record` (reusing its memory) and says true, or says false at the end, and again whenever called after
/// it. It throws sim::ConfigError for a faulty trace. One pass; not thread-safe; memory does not grow with the trace.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  virtual bool next(TraceRecord& record) = 0;
  /// Lines left out so far.
  virtual const SkipCounts& skipped() const = 0;
  virtual TraceColumns columns() const = 0;
};

/// The trace without its first `count` records; arrivals count from that of the last of these. next() throws
/// sim::ConfigError at `where` if there is no other.
std::unique_ptr<TraceSource> without_first(std::unique_ptr<TraceSource> source, std::int64_t count, std::string where);

}  // namespace orrery::traces
