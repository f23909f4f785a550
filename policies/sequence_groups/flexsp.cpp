// FlexSP without a solver: groups of unlike degrees side by side, found by local search.
//
// A micro-batch is a run of sequences in order of length. For a set of degrees that fill the devices, each sequence,
// longest first, goes to the group that is then fastest among those whose memory holds it. The set is improved by
// moves, two groups of d to one of 2d and one of 2d to two of d, until none helps; starts are the single degrees and
// what the lengths ask for at least.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <queue>

#include "policies/sequence_groups/sequence_groups.hpp"

namespace orrery::policies {
namespace {

struct FlexSpParams {
  std::int64_t more = 4;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("more", &FlexSpParams::more, sim::Unit::count, sim::between(0, 64),
                                      "Micro-batches that are tried beyond the fewest that memory allows.")};
  }
};

/// How many groups of each degree, by its logarithm.
using Counts = std::vector<std::int64_t>;

class Search {
 public:
  Search(const SequenceView& view, std::size_t first, std::size_t end) : view_(view), first_(first), end_(end) {}

  MicroBatch run() {
    const auto kinds = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(view_.devices)));
    for (std::size_t k = 0; k < kinds; ++k) {
      Counts single(kinds, 0);
      single[k] = view_.devices >> k;
      climb(single);
      // The longest sequence's group, the others as above.
      const std::int64_t longest = least_degree(view_, view_.lengths[first_]);
      if (longest == 0) return {};
      const std::size_t top = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(longest)) - 1);
      if (top <= k) continue;
      Counts mixed(kinds, 0);
      mixed[top] = 1;
      std::int64_t left = view_.devices - longest;
      mixed[k] += left >> k;
      climb(mixed);
    }
    return best_;
  }

 private:
  void climb(Counts counts) {
    double now = place(counts);
    for (bool better = true; better;) {
      better = false;
      Counts next = counts;
      for (std::size_t k = 0; k + 1 < counts.size(); ++k)
        for (const bool merge : {true, false}) {
          Counts moved = counts;
          if (merge ? moved[k] < 2 : moved[k + 1] < 1) continue;
          moved[k] += merge ? -2 : 2;
          moved[k + 1] += merge ? 1 : -1;
          const double seconds = place(moved);
          if (seconds < now) now = seconds, next = moved, better = true;
        }
      counts = next;
    }
  }

  /// A group while sequences are placed; of a degree, the one that is fastest so far comes first.
  struct Open {
    double seconds = 0;
    std::size_t group = 0;
    bool operator>(const Open& other) const {
      return std::pair(seconds, group) > std::pair(other.seconds, other.group);
    }
  };
  using Queue = std::priority_queue<Open, std::vector<Open>, std::greater<>>;

  /// Time of the slowest group; infinite where memory does not hold a sequence. Of the groups of a degree only the
  /// fastest so far is looked at: it has the most room too. A set is tried once.
  double place(const Counts& counts) {
    const auto [known, fresh] = tried_.try_emplace(counts, std::numeric_limits<double>::infinity());
    if (fresh) known->second = tried(counts);
    return known->second;
  }

  double tried(const Counts& counts) {
    std::vector<Queue> open(counts.size());
    std::vector<std::int64_t> degrees;
    for (std::size_t k = 0; k < counts.size(); ++k)
      for (std::int64_t i = 0; i < counts[k]; ++i) {
        open[k].push({0, degrees.size()});
        degrees.push_back(std::int64_t{1} << k);
      }
    std::vector<GroupLoad> loads(degrees.size());
    placed_.assign(end_ - first_, 0);
    double slowest = 0;
    for (std::size_t i = first_; i < end_; ++i) {
      std::size_t best = counts.size();
      double best_s = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < counts.size(); ++k) {
        if (open[k].empty()) continue;
        GroupLoad load = loads[open[k].top().group];
        load.add(view_.lengths[i]);
        const std::int64_t degree = std::int64_t{1} << k;
        if (load.tokens > view_.costs->device_tokens * static_cast<double>(degree)) continue;
        const double seconds = group_s(*view_.costs, degree, load);
        if (seconds < best_s) best = k, best_s = seconds;
      }
      if (best == counts.size()) return std::numeric_limits<double>::infinity();
      const std::size_t group = open[best].top().group;
      open[best].pop();
      open[best].push({best_s, group});
      loads[group].add(view_.lengths[i]);
      placed_[i - first_] = group;
      slowest = std::max(slowest, best_s);
      if (slowest >= best_s_ * kHopeless) return slowest;
    }
    if (slowest < best_s_) keep(degrees, slowest);
    return slowest;
  }

  void keep(const std::vector<std::int64_t>& degrees, double slowest) {
    best_s_ = slowest;
    best_.clear();
    for (const std::int64_t degree : degrees) best_.push_back({.degree = degree});
    for (std::size_t i = first_; i < end_; ++i) best_[placed_[i - first_]].members.push_back(static_cast<std::int32_t>(i));
    std::erase_if(best_, [](const SequenceGroup& group) { return group.members.empty(); });
  }

  /// A set that is so much slower than the best before all sequences are placed is left.
  static constexpr double kHopeless = 2;

  const SequenceView& view_;
  std::size_t first_, end_;
  std::map<Counts, double> tried_;
  std::vector<std::size_t> placed_;  // group of each sequence, in the set at hand
  MicroBatch best_;
  double best_s_ = std::numeric_limits<double>::infinity();
};

class FlexSp final : public SequenceGrouping {
 public:
  explicit FlexSp(const FlexSpParams& params) : params_(params) {}
  BatchPlan plan(const SequenceView& view) const override {
    return best_chunks(view, params_.more,
                       [&](std::size_t first, std::size_t end) { return Search(view, first, end).run(); });
  }

 private:
  FlexSpParams params_;
};

}  // namespace

void add_flexsp_groups(SequenceGroupingRegistry& registry) {
  registry.add<FlexSpParams>("flexsp", "Groups of unlike degrees by local search.",
                             [](const FlexSpParams& params) { return std::make_unique<FlexSp>(params); });
}

}  // namespace orrery::policies
