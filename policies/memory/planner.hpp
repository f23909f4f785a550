// Memory planning: which offset every buffer of a program gets in one arena, when all lifetimes are known beforehand.
//
// Time is the step of execution. A buffer holds `bytes` during the steps [begin, end). Two buffers whose lifetimes
// overlap must not overlap in space, with one exception, reuse in place: a buffer of the size of its partner may lie
// exactly where the partner lay, in the one step in which the partner is read for the last time and the buffer is
// written. The peak is the largest offset + bytes. Finding the smallest peak is dynamic storage allocation, NP-hard
// (Garey and Johnson 1979, SR2). The largest sum of live bytes over the steps bounds it from below.
//
// Contract of a planner: it changes nothing and draws no random numbers. The peak does not depend on the order in which
// the buffers are given, and never grows by allowing reuse in place (both are planned, the smaller is taken).
// Left out: spilling, moving a buffer while it lives, several arenas.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

/// What has to be placed: [begin, end) x bytes.
struct Buffer {
  std::int64_t begin = 0;  ///< first step in which it is live
  std::int64_t end = 1;    ///< step after the last
  std::int64_t bytes = 0;
  std::int64_t alignment = 1;  ///< the offset is a multiple of it
  /// Index of the buffer whose place this one may take: begun earlier, ending at begin + 1, of as many bytes.
  std::optional<std::int32_t> in_place_of = std::nullopt;
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

struct Plan {
  std::vector<std::int64_t> offsets;  ///< one a buffer, in the order given
  std::int64_t peak = 0;              ///< bytes of the arena
};

class MemoryPlanner {
 public:
  virtual ~MemoryPlanner() = default;
  /// Throws std::invalid_argument for a buffer with a buffer_fault().
  Plan plan(std::span<const Buffer> buffers) const;
  /// Whether it runs a program of others, which may not be there (then plan() throws sim::ConfigError): such a planner
  /// is asked by name only.
  virtual bool runs_a_program() const { return false; }

 private:
  /// Offsets of `buffers`, which come sorted by (begin, end, bytes, alignment), without partners and of > 0 bytes.
  virtual std::vector<std::int64_t> place(std::span<const Buffer> buffers) const = 0;
};

/// What is wrong with buffer `index`, or nothing: an empty lifetime, negative bytes, an alignment below 1, a partner
/// that is missing, ends at another step or has another size.
std::optional<std::string> buffer_fault(std::span<const Buffer> buffers, std::size_t index);

/// Largest offset + bytes.
std::int64_t peak_of(std::span<const Buffer> buffers, std::span<const std::int64_t> offsets);
/// Largest sum of live bytes over all steps, a buffer and the partner it may replace counted once: no plan is smaller.
std::int64_t lower_bound(std::span<const Buffer> buffers);
/// Why offsets are no plan (misaligned, negative, two buffers in one place), or nothing. O(n * overlaps).
std::optional<std::string> plan_fault(std::span<const Buffer> buffers, std::span<const std::int64_t> offsets);

using MemoryPlannerRegistry = sim::Registry<MemoryPlanner>;

/// Adds every planner of this folder (register.cpp: one line a planner).
void register_memory_planners(MemoryPlannerRegistry& registry);

}  // namespace orrery::policies
