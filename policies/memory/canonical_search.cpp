#include "policies/memory/canonical_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "policies/memory/online.hpp"

namespace orrery::policies {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

}  // namespace

CanonicalSearch::CanonicalSearch(std::span<const Buffer> buffers)
    : buffers_(buffers), overlaps_(buffers.size()), first_group_(buffers.size()), end_group_(buffers.size()) {
  // Groups: the sets of buffers that are live together and to which no other could be added. Swept in order of time,
  // one ends where a buffer ends after at least one has begun.
  std::vector<std::uint32_t> by_begin(buffers.size());
  std::iota(by_begin.begin(), by_begin.end(), std::uint32_t{0});
  std::stable_sort(by_begin.begin(), by_begin.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return buffers[a].begin < buffers[b].begin; });
  std::vector<std::uint32_t> live;
  const auto close_group = [&] {
    std::int64_t bytes = 0;
    for (const std::uint32_t i : live) {
      bytes += buffers[i].bytes;
      end_group_[i] = static_cast<std::uint32_t>(group_left_.size()) + 1;
    }
    group_left_.push_back(bytes);
  };
  for (const std::uint32_t i : by_begin) {
    const auto ended = [&](std::uint32_t j) { return buffers[j].end <= buffers[i].begin; };
    if (std::any_of(live.begin(), live.end(), ended)) {
      // Only a group that the latest buffer joined is new; without one, it is part of the group before.
      if (end_group_[live.back()] == 0) close_group();
      std::erase_if(live, ended);
    }
    first_group_[i] = static_cast<std::uint32_t>(group_left_.size());
    for (const std::uint32_t j : live) {
      overlaps_[i].push_back(j);
      overlaps_[j].push_back(i);
    }
    live.push_back(i);
  }
  if (!live.empty()) close_group();
  group_floor_.resize(group_left_.size());
}

SearchEnd CanonicalSearch::run(std::int64_t capacity, std::span<const std::uint32_t> rank, std::int64_t& budget) {
  capacity_ = capacity;
  rank_ = rank;
  budget_ = &budget;
  floor_.assign(buffers_.size(), 0);
  offsets_.assign(buffers_.size(), 0);
  placed_.assign(buffers_.size(), false);
  least_.assign(buffers_.size(), 0);
  undo_.clear();
  order_.clear();
  std::fill(group_left_.begin(), group_left_.end(), 0);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    for (std::uint32_t g = first_group_[i]; g < end_group_[i]; ++g) group_left_[g] += buffers_[i].bytes;
  std::vector<std::uint32_t> all(buffers_.size());
  std::iota(all.begin(), all.end(), std::uint32_t{0});
  std::stable_sort(all.begin(), all.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return buffers_[a].begin < buffers_[b].begin; });
  return solve_parts(all, 0, 0);
}

SearchEnd CanonicalSearch::solve_parts(const std::vector<std::uint32_t>& left, std::int64_t last_offset,
                                       std::uint32_t last_rank) {
  const std::size_t mark = order_.size();
  for (std::size_t first = 0; first < left.size();) {
    std::int64_t end = buffers_[left[first]].end;
    std::size_t next = first + 1;
    for (; next < left.size() && buffers_[left[next]].begin < end; ++next)
      end = std::max(end, buffers_[left[next]].end);
    const auto at = [&](std::size_t i) { return left.begin() + static_cast<std::ptrdiff_t>(i); };
    const SearchEnd result = solve({{at(first), at(next)}, last_offset, last_rank});
    if (result != SearchEnd::found) {
      take_back(mark);
      return result;
    }
    first = next;
  }
  return SearchEnd::found;
}

SearchEnd CanonicalSearch::solve(const Part& part) {
  if (*budget_ <= 0) return SearchEnd::out_of_budget;
  if (!raise_floors(part) || !groups_fit(part.left)) return SearchEnd::none;
  std::int64_t lowest_end = kNever;
  for (const std::uint32_t i : part.left) lowest_end = std::min(lowest_end, floor_[i] + buffers_[i].bytes);
  std::vector<std::uint32_t> candidates;
  for (const std::uint32_t i : part.left)
    if (in_order(part, i) && floor_[i] < lowest_end) candidates.push_back(i);
  std::sort(candidates.begin(), candidates.end(), [&](std::uint32_t a, std::uint32_t b) {
    return floor_[a] != floor_[b] ? floor_[a] < floor_[b] : rank_[a] < rank_[b];
  });
  const std::size_t mark = order_.size();
  for (const std::uint32_t i : candidates) {
    const std::int64_t offset = floor_[i];
    place(i, offset);
    std::vector<std::uint32_t> left;
    left.reserve(part.left.size() - 1);
    for (const std::uint32_t j : part.left)
      if (j != i) left.push_back(j);
    const SearchEnd result = solve_parts(left, offset, rank_[i]);
    if (result != SearchEnd::none) return result;
    take_back(mark);
  }
  return SearchEnd::none;
}

bool CanonicalSearch::in_order(const Part& part, std::uint32_t i) const {
  return floor_[i] > part.last_offset || (floor_[i] == part.last_offset && rank_[i] >= part.last_rank);
}

bool CanonicalSearch::raise_floors(const Part& part) {
  for (const std::uint32_t i : part.left) {
    least_[i] = floor_[i];
    if (in_order(part, i)) continue;
    least_[i] = kNever;
    for (const std::uint32_t j : overlaps_[i])
      if (!placed_[j]) least_[i] = std::min(least_[i], std::max(floor_[j], part.last_offset) + buffers_[j].bytes);
    *budget_ -= std::ssize(overlaps_[i]);
    if (least_[i] == kNever || least_[i] + buffers_[i].bytes > capacity_) return false;
  }
  return true;
}

void CanonicalSearch::place(std::uint32_t buffer, std::int64_t offset) {
  offsets_[buffer] = offset;
  placed_[buffer] = true;
  order_.push_back({buffer, undo_.size()});
  const std::int64_t end = offset + buffers_[buffer].bytes;
  for (const std::uint32_t j : overlaps_[buffer]) {
    if (placed_[j] || floor_[j] >= end) continue;
    undo_.push_back({j, floor_[j]});
    floor_[j] = align_up(end, buffers_[j].alignment);
  }
  for (std::uint32_t g = first_group_[buffer]; g < end_group_[buffer]; ++g) group_left_[g] -= buffers_[buffer].bytes;
  *budget_ -= std::ssize(overlaps_[buffer]);
}

void CanonicalSearch::take_back(std::size_t mark) {
  for (; order_.size() > mark; order_.pop_back()) {
    const auto [buffer, undo_mark] = order_.back();
    placed_[buffer] = false;
    for (; undo_.size() > undo_mark; undo_.pop_back()) floor_[undo_.back().buffer] = undo_.back().floor;
    for (std::uint32_t g = first_group_[buffer]; g < end_group_[buffer]; ++g) group_left_[g] += buffers_[buffer].bytes;
  }
}

bool CanonicalSearch::groups_fit(std::span<const std::uint32_t> left) {
  std::uint32_t first = std::numeric_limits<std::uint32_t>::max(), end = 0;
  for (const std::uint32_t i : left) {
    first = std::min(first, first_group_[i]);
    end = std::max(end, end_group_[i]);
  }
  std::fill(group_floor_.begin() + first, group_floor_.begin() + end, kNever);
  for (const std::uint32_t i : left) {
    for (std::uint32_t g = first_group_[i]; g < end_group_[i]; ++g)
      group_floor_[g] = std::min(group_floor_[g], least_[i]);
    *budget_ -= end_group_[i] - first_group_[i];
  }
  for (std::uint32_t g = first; g < end; ++g)
    if (group_left_[g] > 0 && group_floor_[g] + group_left_[g] > capacity_) return false;
  return true;
}

}  // namespace orrery::policies
