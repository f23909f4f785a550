// FlexSP without a solver: groups of unlike degrees side by side, found by local search.
//
// A micro-batch is a run of sequences in order of length. For a set of degrees that fill the devices, each sequence,
// longest first, goes to the group that is then fastest among those whose memory holds it. The set is improved by
// moves, two groups of d to one of 2d and one of 2d to two of d, until none helps; starts are the single degrees and
// what the lengths ask for at least. Up to 32 devices all sets are tried. Then sequences of the slowest group move or
// change places with others while that helps.
#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>

#include "policies/sequence_groups/sequence_groups.hpp"

namespace orrery::policies {
namespace {

struct FlexSpParams {
  std::int64_t more = 4;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("more", &FlexSpParams::more, sim::Unit::count, sim::between(0, 64),
                                      "How many micro-batches beyond the fewest that memory allows are tried.")};
  }
};

/// How many groups of each degree, by its logarithm.
using Counts = std::vector<std::int64_t>;

class Search {
 public:
  Search(const SequenceView& view, std::size_t first, std::size_t end) : view_(view), first_(first), end_(end) {}

  MicroBatch run() {
    const auto kinds = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(view_.most_degree())));
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
      const std::int64_t left = view_.devices - longest;
      mixed[k] += left >> k;
      climb(mixed);
    }
    if (view_.devices <= kFewDevices) {
      Counts all(kinds, 0);
      try_all(all, kinds, view_.devices);
    }
    return refined();
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

  /// Up to so many devices every set of degrees is tried: 36 sets for 16, 202 for 32, 1,828 for 64.
  static constexpr std::int64_t kFewDevices = 32;

  void try_all(Counts& counts, std::size_t kind, std::int64_t left) {
    if (kind == 0) {
      if (left == 0) (void)place(counts);
      return;
    }
    const std::int64_t degree = std::int64_t{1} << (kind - 1);
    for (std::int64_t count = left / degree; count >= 0; --count) {
      counts[kind - 1] = count;
      try_all(counts, kind - 1, left - count * degree);
    }
    counts[kind - 1] = 0;
  }

  GroupLoad load_of(const SequenceGroup& group) const {
    GroupLoad load;
    for (const std::int32_t member : group.members) load.add(length_of(member));
    return load;
  }
  std::int64_t length_of(std::int32_t member) const { return view_.lengths[static_cast<std::size_t>(member)]; }

  /// The best of the fastest sets, each refined.
  MicroBatch refined() {
    constexpr std::size_t kSets = 4;
    std::vector<std::pair<double, Counts>> sets;
    for (const auto& [counts, seconds] : tried_)
      if (seconds < std::numeric_limits<double>::infinity()) sets.emplace_back(seconds, counts);
    std::ranges::sort(sets);
    MicroBatch best = std::move(best_);
    double best_s = micro_batch_s(view_, best);
    for (std::size_t i = 0; i < std::min(kSets, sets.size()); ++i) {
      best_s_ = std::numeric_limits<double>::infinity();
      (void)tried(sets[i].second);
      refine();
      const double seconds = micro_batch_s(view_, best_);
      if (seconds < best_s) best = best_, best_s = seconds;
    }
    return best;
  }

  /// The better of moving a sequence of the slowest group to another one and of exchanging two, while one helps.
  void refine() {
    if (best_.size() < 2) return;
    constexpr int kMost = 1000;
    std::vector<GroupLoad> loads;
    for (const SequenceGroup& group : best_) loads.push_back(load_of(group));
    for (int step = 0; step < kMost && improve(loads); ++step) {
    }
    std::erase_if(best_, [](const SequenceGroup& group) { return group.members.empty(); });
  }

  bool improve(std::vector<GroupLoad>& loads) {
    std::vector<double> seconds;
    for (std::size_t g = 0; g < best_.size(); ++g) seconds.push_back(group_s(*view_.costs, best_[g].degree, loads[g]));
    const std::size_t from = static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin());
    struct Move {
      double seconds;
      std::size_t to = 0, out = 0;
      std::size_t in = kNobody;
      GroupLoad here{}, there{};
    } best{seconds[from]};
    const auto consider = [&](std::size_t to, std::size_t out, std::size_t in) {
      const auto length = static_cast<double>(length_of(best_[from].members[out]));
      const double back = in != kNobody ? static_cast<double>(length_of(best_[to].members[in])) : 0;
      if (in != kNobody && back >= length) return;
      const GroupLoad here{loads[from].squares - length * length + back * back, loads[from].tokens - length + back};
      const GroupLoad there{loads[to].squares + length * length - back * back, loads[to].tokens + length - back};
      if (there.tokens > view_.costs->device_tokens * static_cast<double>(best_[to].degree)) return;
      const double both =
          std::max(group_s(*view_.costs, best_[from].degree, here), group_s(*view_.costs, best_[to].degree, there));
      if (both < best.seconds * (1 - kGain)) best = {both, to, out, in, here, there};
    };
    for (std::size_t to = 0; to < best_.size(); ++to) {
      if (to == from) continue;
      for (std::size_t out = 0; out < best_[from].members.size(); ++out) {
        consider(to, out, kNobody);
        for (std::size_t in = 0; in < best_[to].members.size(); ++in) consider(to, out, in);
      }
    }
    if (best.seconds >= seconds[from]) return false;
    std::vector<std::int32_t>&here = best_[from].members, &there = best_[best.to].members;
    if (best.in != kNobody) {
      std::swap(here[best.out], there[best.in]);
    } else {
      there.push_back(here[best.out]);
      here.erase(here.begin() + static_cast<std::ptrdiff_t>(best.out));
    }
    loads[from] = best.here;
    loads[best.to] = best.there;
    return true;
  }

  /// Groups of a degree while sequences are placed, the fastest so far first.
  using Queue = std::set<std::pair<double, std::size_t>>;

  /// Time of the slowest group; infinite where memory does not hold a sequence. Of the groups of a degree the fastest
  /// so far that has room is looked at. A set is tried once.
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
        open[k].insert({0, degrees.size()});
        degrees.push_back(std::int64_t{1} << k);
      }
    std::vector<GroupLoad> loads(degrees.size());
    placed_.assign(end_ - first_, 0);
    double slowest = 0;
    for (std::size_t i = first_; i < end_; ++i) {
      std::size_t best = counts.size();
      double best_s = std::numeric_limits<double>::infinity();
      Queue::iterator chosen;
      for (std::size_t k = 0; k < counts.size(); ++k) {
        const std::int64_t degree = std::int64_t{1} << k;
        const double room = view_.costs->device_tokens * static_cast<double>(degree);
        const auto fits = [&](const std::pair<double, std::size_t>& one) {
          return loads[one.second].tokens + static_cast<double>(view_.lengths[i]) <= room;
        };
        const auto one = std::ranges::find_if(open[k], fits);
        if (one == open[k].end()) continue;
        GroupLoad load = loads[one->second];
        load.add(view_.lengths[i]);
        const double seconds = group_s(*view_.costs, degree, load);
        if (seconds < best_s) best = k, best_s = seconds, chosen = one;
      }
      if (best == counts.size()) return std::numeric_limits<double>::infinity();
      const std::size_t group = chosen->second;
      open[best].erase(chosen);
      open[best].insert({best_s, group});
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
    for (std::size_t i = first_; i < end_; ++i)
      best_[placed_[i - first_]].members.push_back(static_cast<std::int32_t>(i));
    std::erase_if(best_, [](const SequenceGroup& group) { return group.members.empty(); });
  }

  /// A set that is so much slower than the best before all sequences are placed is left.
  static constexpr double kHopeless = 2;
  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);
  /// Gains below this are rounding.
  static constexpr double kGain = 1e-9;

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
  registry.add<FlexSpParams>("flexsp", "Groups of different degrees side by side, found by local search (FlexSP).",
                             [](const FlexSpParams& params) { return std::make_unique<FlexSp>(params); });
}

}  // namespace orrery::policies
