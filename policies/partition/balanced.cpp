// The partition whose heaviest stage is the lightest there is, since a pipeline goes at the pace of its slowest stage
// and fits where its fullest one does.
//
// What weighs: the weights that a decode step reads (`time`: layers and head; of the embedding it reads a row a token)
// or those that a stage holds (`memory`: embedding too). All experts of a layer count, the KV cache does not. The least
// bound that S stages can keep is found by bisection, with stages filled greedily: O(L log sum), exact. Among the
// partitions that keep it, each stage takes as near to an equal share of what is left as the bound, and layers for the
// stages after it, allow; of two equally near the smaller.
#include <algorithm>

#include "policies/partition/partition.hpp"

namespace orrery::policies {
namespace {

enum class Balance : std::uint8_t { time, memory };
constexpr auto enum_names(Balance) {
  using enum Balance;
  return sim::names<Balance>({{"time", time}, {"memory", memory}});
}

struct BalancedParams {
  Balance by = Balance::time;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("by", &BalancedParams::by,
                                      "What is balanced: the weights that a decode step reads (time), or those that a "
                                      "stage holds, embedding included (memory).")};
  }
};

/// Weights in a row that are cut into stages; the edges count with the layers next to them.
class Row {
 public:
  Row(const PartitionView& view, Balance by) : sums_{0}, stages_(view.stages) {
    for (const std::int64_t layer : view.layers) sums_.push_back(sums_.back() + layer);
    if (by == Balance::memory) shift(1, view.embedding);
    shift(layers(), view.head);
  }
  std::int64_t layers() const { return std::ssize(sums_) - 1; }
  std::int64_t weight(std::int64_t first, std::int64_t last) const { return sums_[at(last)] - sums_[at(first)]; }

  /// Stages that layers [first, L) need under a bound, each filled from the front; more than there are: none will do.
  std::int64_t needed(std::int64_t first, std::int64_t bound) const {
    std::int64_t stages = 0;
    while (first < layers()) {
      const std::int64_t last = reach(first, bound);
      if (last == first) return layers() + 1;
      first = last;
      ++stages;
    }
    return stages;
  }

  /// The least weight that the heaviest stage can have.
  std::int64_t least_bound() const {
    std::int64_t low = 0, high = weight(0, layers());  // high always does, low never
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (needed(0, middle) <= stages_ ? high : low) = middle;
    }
    return high;
  }

  std::vector<std::int64_t> divide() const {
    const std::int64_t bound = least_bound();
    std::vector<std::int64_t> counts;
    std::int64_t first = 0;
    for (std::int64_t left = stages_; left > 1; --left) {
      const std::int64_t most = std::min(reach(first, bound), layers() - (left - 1));
      std::int64_t last = first + 1;
      const auto off = [&](std::int64_t end) {  // from an equal share, times the stages
        const __int128 more = static_cast<__int128>(weight(first, end)) * left - weight(first, layers());
        return more < 0 ? -more : more;
      };
      while (last < most && (needed(last, bound) > left - 1 || off(last + 1) < off(last))) ++last;
      counts.push_back(last - first);
      first = last;
    }
    counts.push_back(layers() - first);
    return counts;
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  /// Adds to the layer before place `from`.
  void shift(std::int64_t from, std::int64_t weight) {
    for (std::int64_t i = from; i <= layers(); ++i) sums_[at(i)] += weight;
  }
  /// The farthest end of a stage from `first` on that keeps the bound.
  std::int64_t reach(std::int64_t first, std::int64_t bound) const {
    const auto end = std::upper_bound(sums_.begin() + first, sums_.end(), sums_[at(first)] + bound);
    return end - sums_.begin() - 1;
  }

  std::vector<std::int64_t> sums_;  // sums_[i]: of the layers before i
  std::int64_t stages_;
};

class BalancedPartition final : public Partition {
 public:
  explicit BalancedPartition(const BalancedParams& params) : params_(params) {}
  std::vector<std::int64_t> divide(const PartitionView& view) const override { return Row(view, params_.by).divide(); }

 private:
  BalancedParams params_;
};

}  // namespace

void add_balanced_partition(PartitionRegistry& registry) {
  registry.add<BalancedParams>(
      "balanced", "Makes the heaviest stage as light as possible.",
      [](const BalancedParams& params) { return std::make_unique<BalancedPartition>(params); });
}

}  // namespace orrery::policies
