#include "policies/fusion/merged_groups.hpp"

#include <algorithm>
#include <numeric>

namespace orrery::policies {
namespace {

constexpr std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

MergedGroups::MergedGroups(std::size_t units, const std::vector<std::pair<std::int32_t, std::int32_t>>& edges)
    : parent_(units), members_(units), next_(units), place_(units), order_(units), seen_(units, 0) {
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

bool MergedGroups::mark(std::int32_t first, std::int32_t last) {
  ++stamp_;
  stack_.assign(1, first);
  const std::int32_t end = place_[at(last)];
  while (!stack_.empty()) {
    const std::int32_t group = stack_.back();
    stack_.pop_back();
    for (const std::int32_t unit : next_[at(group)]) {
      const std::int32_t to = find(unit);
      if (to == last && group != first) return false;
      if (to == first || to == last || place_[at(to)] > end || seen_[at(to)] == stamp_) continue;
      seen_[at(to)] = stamp_;
      stack_.push_back(to);
    }
  }
  return true;
}

bool MergedGroups::can_merge(std::int32_t a, std::int32_t b) {
  a = find(a);
  b = find(b);
  if (a == b) return true;
  if (place_[at(a)] > place_[at(b)]) std::swap(a, b);
  return mark(a, b);
}

bool MergedGroups::merge(std::int32_t a, std::int32_t b) {
  a = find(a);
  b = find(b);
  if (a == b) return true;
  if (place_[at(a)] > place_[at(b)]) std::swap(a, b);
  if (!mark(a, b)) return false;
  // Between the two: what the first does not reach may run before both, what it reaches (and cannot reach the second)
  // runs after both.
  front_.clear();
  back_.clear();
  const std::int32_t begin = place_[at(a)], end = place_[at(b)];
  for (std::int32_t i = begin + 1; i < end; ++i) {
    const std::int32_t group = order_[at(i)];
    if (group < 0) continue;
    (seen_[at(group)] == stamp_ ? back_ : front_).push_back(group);
  }
  std::int32_t into = a, from = b;
  if (members_[at(into)].size() < members_[at(from)].size()) std::swap(into, from);
  std::fill(order_.begin() + begin, order_.begin() + end + 1, -1);
  std::int32_t place = begin;
  const auto put = [&](std::int32_t group) {
    order_[at(place)] = group;
    place_[at(group)] = place++;
  };
  for (const std::int32_t group : front_) put(group);
  put(into);
  for (const std::int32_t group : back_) put(group);
  parent_[at(from)] = into;
  std::vector<std::int32_t>& all = members_[at(into)];
  all.insert(all.end(), members_[at(from)].begin(), members_[at(from)].end());
  next_[at(into)].insert(next_[at(into)].end(), next_[at(from)].begin(), next_[at(from)].end());
  members_[at(from)].clear();
  next_[at(from)].clear();
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
