#include "policies/fusion/merged_groups.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "policies/fusion/place.hpp"

namespace orrery::policies {
MergedGroups::MergedGroups(std::size_t units, const std::vector<std::pair<std::int32_t, std::int32_t>>& edges)
    : parent_(units), members_(units), next_(units), place_(units), order_(units), seen_(units, 0), chosen_(units, 0) {
  std::iota(parent_.begin(), parent_.end(), 0);
  std::iota(place_.begin(), place_.end(), 0);
  std::iota(order_.begin(), order_.end(), 0);
  for (std::size_t i = 0; i < units; ++i) members_[i].push_back(static_cast<std::int32_t>(i));
  for (const auto& [from, to] : edges)
    if (next_[at(from)].empty() || next_[at(from)].back() != to) next_[at(from)].push_back(to);
}

std::int32_t MergedGroups::find(std::int32_t unit) {
  while (parent_[at(unit)] != unit) {
    parent_[at(unit)] = parent_[at(parent_[at(unit)])];
    unit = parent_[at(unit)];
  }
  return unit;
}

void MergedGroups::take_set(std::span<const std::int32_t> units) {
  ++stamp_;
  set_.clear();
  for (const std::int32_t unit : units) {
    const std::int32_t group = find(unit);
    if (chosen_[at(group)] == stamp_) continue;
    chosen_[at(group)] = stamp_;
    set_.push_back(group);
  }
  std::sort(set_.begin(), set_.end(), [&](std::int32_t a, std::int32_t b) { return place_[at(a)] < place_[at(b)]; });
}

bool MergedGroups::mark() {
  stack_ = set_;
  const std::int32_t end = place_[at(set_.back())];
  while (!stack_.empty()) {
    const std::int32_t group = stack_.back();
    stack_.pop_back();
    const bool inside = chosen_[at(group)] == stamp_;
    for (const std::int32_t unit : next_[at(group)]) {
      const std::int32_t to = find(unit);
      if (chosen_[at(to)] == stamp_) {
        if (!inside) return false;
        continue;
      }
      if (place_[at(to)] > end || seen_[at(to)] == stamp_) continue;
      seen_[at(to)] = stamp_;
      stack_.push_back(to);
    }
  }
  return true;
}

bool MergedGroups::can_merge(std::int32_t a, std::int32_t b) {
  const std::array<std::int32_t, 2> pair{a, b};
  take_set(pair);
  return set_.size() < 2 || mark();
}

bool MergedGroups::merge(std::int32_t a, std::int32_t b) {
  const std::array<std::int32_t, 2> pair{a, b};
  return merge(pair);
}

bool MergedGroups::merge(std::span<const std::int32_t> units) {
  take_set(units);
  if (set_.size() < 2) return true;
  if (!mark()) return false;
  // Between the first and the last of the set: what the set does not reach may run before all of it, what it reaches
  // (and does not lead back) after all of it.
  front_.clear();
  back_.clear();
  const std::int32_t begin = place_[at(set_.front())], end = place_[at(set_.back())];
  for (std::int32_t i = begin; i <= end; ++i) {
    const std::int32_t group = std::exchange(order_[at(i)], -1);
    if (group < 0 || chosen_[at(group)] == stamp_) continue;
    (seen_[at(group)] == stamp_ ? back_ : front_).push_back(group);
  }
  const std::int32_t into = *std::max_element(set_.begin(), set_.end(), [&](std::int32_t a, std::int32_t b) {
    return members_[at(a)].size() < members_[at(b)].size();
  });
  std::int32_t place = begin;
  const auto put = [&](std::int32_t group) {
    order_[at(place)] = group;
    place_[at(group)] = place++;
  };
  for (const std::int32_t group : front_) put(group);
  put(into);
  for (const std::int32_t group : back_) put(group);
  for (const std::int32_t from : set_) {
    if (from == into) continue;
    parent_[at(from)] = into;
    members_[at(into)].insert(members_[at(into)].end(), members_[at(from)].begin(), members_[at(from)].end());
    next_[at(into)].insert(next_[at(into)].end(), next_[at(from)].begin(), next_[at(from)].end());
    members_[at(from)].clear();
    next_[at(from)].clear();
  }
  return true;
}

std::vector<std::int32_t> MergedGroups::groups() {
  std::vector<std::int32_t> first(parent_.size(), -1), group(parent_.size(), -1);
  for (std::size_t i = 0; i < parent_.size(); ++i) {
    const std::size_t root = at(find(static_cast<std::int32_t>(i)));
    if (members_[root].size() < 2) continue;
    if (first[root] < 0) first[root] = static_cast<std::int32_t>(i);
    group[i] = first[root];
  }
  return group;
}

}  // namespace orrery::policies
