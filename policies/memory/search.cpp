// Search: the best of the simple planners, then an exact search for less.
//
// Buffers fall apart where nothing lives on; each part is planned alone. Its first plan is the best of first fit, best
// fit and the greedy orders by size, duration and area, so no simple planner beats this one. Where that is above the
// part's lower bound, canonical_search.hpp looks for a plan at the bound, and then, by bisection, as low as it gets
// within the budget: a run in each of four orders of trial, with more steps every round. The budget counts elementary
// steps (about 1e9 a second), so the result is the same everywhere. It proves the optimum on small parts.
// The orders of trial are Moffitt's (ASPLOS 2023) and one of ours (area first).
#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "policies/memory/canonical_search.hpp"
#include "policies/memory/online.hpp"
#include "policies/memory/ordered.hpp"
#include "policies/memory/planner.hpp"

namespace orrery::policies {
namespace {

struct SearchParams {
  std::int64_t budget = 200'000'000;
  std::int64_t max_buffers = 2000;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("budget", &SearchParams::budget, sim::Unit::none, sim::at_least(0),
                   "Budget of the exact search in elementary steps, over all parts; 0: only simple planners are used."),
        sim::field("max_buffers", &SearchParams::max_buffers, sim::Unit::none, sim::between(0, 10000),
                   "Parts with more buffers are left to the simple planners.")};
  }
};

/// Buffers whose lifetimes hang together, and the best plan for them so far.
struct Part {
  std::size_t first = 0, count = 0;  // of the buffers in order of begin
  std::int64_t bound = 0, peak = 0;
};

std::vector<Part> separated(std::span<const Buffer> buffers) {
  std::vector<Part> parts;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (parts.empty() || buffers[i].begin >= end) {
      parts.push_back({.first = i});
      end = buffers[i].end;
    }
    end = std::max(end, buffers[i].end);
    ++parts.back().count;
  }
  return parts;
}

class PartSearch {
 public:
  PartSearch(std::span<const Buffer> buffers, std::span<std::int64_t> offsets, std::int64_t& budget)
      : buffers_(buffers), offsets_(offsets), budget_(budget), search_(buffers) {
    for (std::size_t i = 0; i < kOrders.size(); ++i) {
      const std::vector<std::uint32_t> order = order_by(buffers, kOrders[i]);
      ranks_[i].resize(order.size());
      for (std::size_t j = 0; j < order.size(); ++j) ranks_[i][order[j]] = static_cast<std::uint32_t>(j);
    }
  }

  /// Lowers `peak` to `goal` if it can, otherwise as far as the budget goes: half of it for the goal itself, then a
  /// quarter of what is left for each step of bisection. `low` may pass over a plan that a longer search would find.
  void lower(std::int64_t goal, std::int64_t& peak) {
    if (attempt(goal, budget_ / 2, peak) == SearchEnd::found) return;
    std::int64_t low = goal + 1;
    while (low < peak && budget_ > 0) {
      const std::int64_t middle = low + (peak - 1 - low) / 2;
      if (attempt(middle, std::max(kFirstSlice, budget_ / 4), peak) != SearchEnd::found) low = middle + 1;
    }
  }

 private:
  static constexpr std::array<std::string_view, 4> kOrders{"twa", "wat", "awt", "taw"};
  static constexpr std::int64_t kFirstSlice = 1'000'000;

  SearchEnd attempt(std::int64_t capacity, std::int64_t allowance, std::int64_t& peak) {
    allowance = std::min(allowance, budget_);
    const std::int64_t floor = budget_ - allowance;
    for (std::int64_t slice = kFirstSlice; budget_ > floor; slice *= 4) {
      for (const std::vector<std::uint32_t>& rank : ranks_) {
        std::int64_t steps = std::min(slice, budget_ - floor);
        const std::int64_t before = steps;
        const SearchEnd result = search_.run(capacity, rank, steps);
        budget_ -= before - steps;
        if (result == SearchEnd::found) {
          std::copy(search_.offsets().begin(), search_.offsets().end(), offsets_.begin());
          peak = peak_of(buffers_, offsets_);
        }
        if (result != SearchEnd::out_of_budget) return result;
        if (budget_ <= floor) break;
      }
    }
    return SearchEnd::out_of_budget;
  }

  std::span<const Buffer> buffers_;
  std::span<std::int64_t> offsets_;
  std::int64_t& budget_;
  CanonicalSearch search_;
  std::array<std::vector<std::uint32_t>, kOrders.size()> ranks_;
};

class Search final : public MemoryPlanner {
 public:
  explicit Search(const SearchParams& params) : params_(params) {}

 private:
  std::vector<std::int64_t> place(std::span<const Buffer> buffers) const override {
    std::vector<std::int64_t> offsets(buffers.size());
    std::vector<Part> parts = separated(buffers);
    std::int64_t enough = 0;  // no plan of all parts is below the largest bound
    for (Part& part : parts) {
      const auto own = buffers.subspan(part.first, part.count);
      const auto out = std::span(offsets).subspan(part.first, part.count);
      part.bound = lower_bound(own);
      part.peak = simple(own, out, part.bound);
      enough = std::max(enough, part.bound);
    }
    std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.peak > b.peak; });
    std::int64_t budget = params_.budget;
    for (Part& part : parts) {
      if (part.peak <= enough || budget <= 0) break;
      if (static_cast<std::int64_t>(part.count) <= params_.max_buffers) {
        PartSearch search(buffers.subspan(part.first, part.count), std::span(offsets).subspan(part.first, part.count),
                          budget);
        search.lower(enough, part.peak);
      }
      enough = std::max(enough, part.peak);
    }
    return offsets;
  }

  /// The best plan of the simple planners.
  static std::int64_t simple(std::span<const Buffer> buffers, std::span<std::int64_t> out, std::int64_t bound) {
    std::int64_t peak = Gaps::kEndless;
    const auto offer = [&](const std::vector<std::int64_t>& offsets) {
      const std::int64_t offered = peak_of(buffers, offsets);
      if (offered >= peak) return;
      peak = offered;
      std::copy(offsets.begin(), offsets.end(), out.begin());
    };
    offer(place_online(buffers, lowest_gap));
    offer(place_online(buffers, smallest_gap));
    for (const std::string_view keys : {"zw", "wz", "az"})
      if (peak > bound) offer(place_in_order(buffers, order_by(buffers, keys)));
    return peak;
  }

  SearchParams params_;
};

}  // namespace

void add_search(MemoryPlannerRegistry& registry) {
  registry.add<SearchParams>(
      "search", "The best of the simple planners, then an exact search for a smaller peak within a budget.",
      [](const SearchParams& params) { return std::make_unique<Search>(params); });
}

}  // namespace orrery::policies
