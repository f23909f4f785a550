// Sequence groups: how a batch of unlike sequences is shared out over devices in sequence parallelism.
//
// Asked once a batch, before it is trained. Contract: a pure function of the view; every sequence in one group of one
// micro-batch, groups of a micro-batch together on at most all devices, no group past its memory. The caller checks
// (check_plan). Micro-batches run one after the other, the groups of one beside each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

/// What sequences cost. Seconds, tokens. A group of d devices takes (square sum s^2 + linear sum s) / d
/// + exchange[d] sum s / d + fixed (FlexSP, Hetu-Galvatron's solver).
struct SequenceCosts {
  double square_s = 0, linear_s = 0, fixed_s = 0;
  std::vector<double> exchange_s;  ///< all-to-all of a token, by the logarithm of the degree; of one device 0
  double device_tokens = 0;        ///< that a device has memory for
  double floor_s = 0;  ///< beside `fixed`, the least that a micro-batch takes: what goes on beside its kernels
};

struct SequenceView {
  std::span<const std::int64_t> lengths;  ///< longest first, above 0
  std::int64_t devices = 1;               ///< a power of two
  const SequenceCosts* costs = nullptr;
  /// The most that a group may have: `exchange_s` lists the degrees there are.
  std::int64_t most_degree() const {
    return std::min(devices, std::int64_t{1} << std::min<std::size_t>(costs->exchange_s.size() - 1, 62));
  }
};

struct SequenceGroup {
  std::int64_t degree = 1;
  std::vector<std::int32_t> members;  ///< places in `lengths`
};
using MicroBatch = std::vector<SequenceGroup>;

/// Empty where there is no plan: a sequence that all devices together have no memory for.
using BatchPlan = std::vector<MicroBatch>;

class SequenceGrouping {
 public:
  virtual ~SequenceGrouping() = default;
  virtual BatchPlan plan(const SequenceView& view) const = 0;
};

using SequenceGroupingRegistry = sim::Registry<SequenceGrouping>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_sequence_groupings(SequenceGroupingRegistry& registry);

/// What a group has so far.
struct GroupLoad {
  double squares = 0, tokens = 0;
  void add(std::int64_t length) {
    const auto s = static_cast<double>(length);
    squares += s * s;
    tokens += s;
  }
};
double group_s(const SequenceCosts& costs, std::int64_t degree, const GroupLoad& load);
double group_s(const SequenceView& view, const SequenceGroup& group);
/// The slowest group's, no less than the floor; 0 for none.
double micro_batch_s(const SequenceView& view, const MicroBatch& micro_batch);
double plan_s(const SequenceView& view, const BatchPlan& plan);

/// The least degree whose memory holds a sequence; 0: none does.
std::int64_t least_degree(const SequenceView& view, std::int64_t length);

/// Why a plan is none; empty: it is one.
std::string check_plan(const SequenceView& view, const BatchPlan& plan);

/// One degree for all: sequences longest first, each into the fullest bin of a group's memory that holds it, bins of
/// like time together in a micro-batch. Empty: the longest sequence does not fit.
BatchPlan single_degree_plan(const SequenceView& view, std::int64_t degree);

/// FlexSP's outer search: so many micro-batches as memory asks for, and up to `more` more, each a run of sequences in
/// order such that the fullest has the fewest tokens; `group` gives the groups of one (empty: it cannot); the fastest
/// number of micro-batches wins.
template <class Group>
BatchPlan best_chunks(const SequenceView& view, std::int64_t more, Group group);

/// Ends of `count` runs of `lengths` in order whose largest sum is least; exact, by bisection.
std::vector<std::size_t> even_runs(std::span<const std::int64_t> lengths, std::size_t count);

/// Least number of micro-batches by memory alone.
std::int64_t least_micro_batches(const SequenceView& view);

template <class Group>
BatchPlan best_chunks(const SequenceView& view, std::int64_t more, Group group) {
  BatchPlan best;
  double best_s = 0;
  const std::int64_t least = least_micro_batches(view);
  // Memory may ask for more than the least: then the first number that can be is tried, and `more` after it.
  std::int64_t last = least + more;
  for (std::int64_t count = least; count <= last && count <= std::ssize(view.lengths); ++count) {
    BatchPlan plan;
    std::size_t first = 0;
    for (const std::size_t end : even_runs(view.lengths, static_cast<std::size_t>(count))) {
      MicroBatch one = group(first, end);
      if (one.empty()) break;
      plan.push_back(std::move(one));
      first = end;
    }
    if (first < view.lengths.size()) {
      if (best.empty()) ++last;
      continue;
    }
    const double seconds = plan_s(view, plan);
    if (best.empty() || seconds < best_s) best = std::move(plan), best_s = seconds;
  }
  return best;
}

}  // namespace orrery::policies
