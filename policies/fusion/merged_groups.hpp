// Groups of units that stay convex while they grow.
//
// Units are merged two groups at a time; the graph of groups must stay acyclic, or a fused kernel would wait for its
// own result. Groups are kept in a topological order. Merging a with b (a first) is allowed if no path leads from a to
// b through a third group, and such a path can only pass groups that stand between the two in that order: the search
// and the repair of the order touch that stretch alone (the idea of Pearce and Kelly, 2006, for dynamic topological
// order). Producer and consumer stand close together, so a merge is cheap; the worst case is the length of the order.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace orrery::policies {

class MergedGroups {
 public:
  /// `edges` are pairs (from, to) of units with from < to.
  MergedGroups(std::size_t units, const std::vector<std::pair<std::int32_t, std::int32_t>>& edges);

  /// The group that a unit is in: the number of one of its members.
  std::int32_t find(std::int32_t unit);
  /// True if the two groups can be one: no path leaves one and comes into the other through a third.
  bool can_merge(std::int32_t a, std::int32_t b);
  /// Merges two groups if they can be one; says whether they are one now.
  bool merge(std::int32_t a, std::int32_t b);
  /// The same for the groups of any number of units, all at once: pairs of them alone may not be free to merge.
  bool merge(std::span<const std::int32_t> units);
  const std::vector<std::int32_t>& members(std::int32_t group) const {
    return members_[static_cast<std::size_t>(group)];
  }
  /// Groups of two units or more, numbered by their first unit; -1 for units alone.
  std::vector<std::int32_t> groups();

 private:
  /// Marks what the groups of `set_` reach before the last of them in the order; false if that leads back into the set.
  bool mark();
  void take_set(std::span<const std::int32_t> units);

  std::vector<std::int32_t> parent_;
  std::vector<std::vector<std::int32_t>> members_;
  std::vector<std::vector<std::int32_t>> next_;  ///< successors of a group, as units (find() says which group)
  std::vector<std::int32_t> place_;              ///< of a group in the order
  std::vector<std::int32_t> order_;              ///< group at a place; -1: it was merged away
  std::vector<std::uint32_t> seen_;
  std::uint32_t stamp_ = 0;
  std::vector<std::uint32_t> chosen_;  ///< stamp of the set that a group is in
  std::vector<std::int32_t> set_;      ///< groups to merge, in the order
  std::vector<std::int32_t> stack_, front_, back_;
};

}  // namespace orrery::policies
