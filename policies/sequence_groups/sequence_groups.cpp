#include "policies/sequence_groups/sequence_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

namespace orrery::policies {
namespace {

/// Slack of a sum of lengths in doubles.
constexpr double kRoundOff = 1e-9;

std::size_t log_of(std::int64_t degree) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(degree)) - 1);
}

}  // namespace

double group_s(const SequenceCosts& costs, std::int64_t degree, const GroupLoad& load) {
  if (!(load.tokens > 0)) return 0;
  const double exchange = costs.exchange_s[log_of(degree)];
  return (costs.square_s * load.squares + (costs.linear_s + exchange) * load.tokens) / static_cast<double>(degree) +
         costs.fixed_s;
}

double group_s(const SequenceView& view, const SequenceGroup& group) {
  GroupLoad load;
  for (const std::int32_t member : group.members) load.add(view.lengths[static_cast<std::size_t>(member)]);
  return group_s(*view.costs, group.degree, load);
}

double micro_batch_s(const SequenceView& view, const MicroBatch& micro_batch) {
  double slowest = micro_batch.empty() ? 0 : view.costs->floor_s + view.costs->fixed_s;
  for (const SequenceGroup& group : micro_batch) slowest = std::max(slowest, group_s(view, group));
  return slowest;
}

double plan_s(const SequenceView& view, const BatchPlan& plan) {
  double sum = 0;
  for (const MicroBatch& micro_batch : plan) sum += micro_batch_s(view, micro_batch);
  return sum;
}

std::int64_t least_degree(const SequenceView& view, std::int64_t length) {
  for (std::int64_t degree = 1; degree <= view.most_degree(); degree *= 2)
    if (static_cast<double>(length) <= view.costs->device_tokens * static_cast<double>(degree)) return degree;
  return 0;
}

std::string check_plan(const SequenceView& view, const BatchPlan& plan) {
  std::vector<char> seen(view.lengths.size(), 0);
  for (const MicroBatch& micro_batch : plan) {
    std::int64_t devices = 0;
    for (const SequenceGroup& group : micro_batch) {
      devices += group.degree;
      if (group.degree > view.most_degree())
        return fmt::format("a group of {} devices, the largest has {}", group.degree, view.most_degree());
      double tokens = 0;
      for (const std::int32_t member : group.members) {
        if (member < 0 || member >= std::ssize(view.lengths) || seen[static_cast<std::size_t>(member)] != 0)
          return fmt::format("sequence {} is none, or in two groups", member);
        seen[static_cast<std::size_t>(member)] = 1;
        tokens += static_cast<double>(view.lengths[static_cast<std::size_t>(member)]);
      }
      const double room = view.costs->device_tokens * static_cast<double>(group.degree);
      if (tokens > room * (1 + kRoundOff))
        return fmt::format("a group of {} has {} tokens, and memory for {:.0f}", group.degree, tokens, room);
    }
    if (devices > view.devices) return fmt::format("a micro-batch takes {} devices of {}", devices, view.devices);
  }
  const auto missing = std::ranges::find(seen, 0);
  if (missing != seen.end()) return fmt::format("sequence {} is in no group", missing - seen.begin());
  return {};
}

BatchPlan single_degree_plan(const SequenceView& view, std::int64_t degree) {
  const double room = view.costs->device_tokens * static_cast<double>(degree);
  if (view.lengths.empty() || static_cast<double>(view.lengths.front()) > room) return {};
  std::vector<SequenceGroup> bins;
  std::multiset<std::pair<double, std::size_t>> free;  // what bins have left
  for (std::size_t i = 0; i < view.lengths.size(); ++i) {
    const auto length = static_cast<double>(view.lengths[i]);
    auto fit = free.lower_bound({length, 0});
    std::size_t bin = bins.size();
    double left = room;
    if (fit == free.end()) {
      bins.push_back({.degree = degree});
    } else {
      std::tie(left, bin) = *fit;
      free.erase(fit);
    }
    bins[bin].members.push_back(static_cast<std::int32_t>(i));
    free.insert({left - length, bin});
  }
  std::ranges::stable_sort(
      bins, [&](const SequenceGroup& a, const SequenceGroup& b) { return group_s(view, a) > group_s(view, b); });
  BatchPlan plan;
  const auto beside = static_cast<std::size_t>(view.devices / degree);
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (i % beside == 0) plan.emplace_back();
    plan.back().push_back(std::move(bins[i]));
  }
  return plan;
}

std::int64_t least_micro_batches(const SequenceView& view) {
  const double tokens = static_cast<double>(std::accumulate(view.lengths.begin(), view.lengths.end(), std::int64_t{0}));
  const double room = view.costs->device_tokens * static_cast<double>(view.devices);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(tokens / room - kRoundOff)));
}

std::vector<std::size_t> even_runs(std::span<const std::int64_t> lengths, std::size_t count) {
  const auto runs = [&](std::int64_t bound, std::vector<std::size_t>* ends) {
    std::size_t made = 0;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      // As many are left as runs: each has one.
      const bool must = i > 0 && ends != nullptr && lengths.size() - i <= count - 1 - made;
      if (i > 0 && (sum + lengths[i] > bound || must)) {
        if (ends != nullptr) ends->push_back(i);
        ++made;
        sum = 0;
      }
      sum += lengths[i];
    }
    if (ends != nullptr) ends->push_back(lengths.size());
    return made + 1;
  };
  std::int64_t low = *std::ranges::max_element(lengths) - 1,
               high = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (runs(middle, nullptr) <= count ? high : low) = middle;
  }
  std::vector<std::size_t> ends;
  (void)runs(high, &ends);
  return ends;
}

}  // namespace orrery::policies
