// Order of execution for ops that a file lists in any order.
#pragma once

#include <cstddef>
#include <vector>

namespace orrery::models {

/// `order` holds every node after those it waits for, the lowest numbers first where there is a choice, so that a list
/// in order stays as it is. If there is none, `cycle` names nodes that wait for each other, each for the one before it
/// and the first for the last.
struct FileOrder {
  std::vector<std::size_t> order, cycle;
};

/// `waits_for[i]`: the nodes that node i waits for (a node may stand there more than once).
FileOrder file_order(const std::vector<std::vector<std::size_t>>& waits_for);

}  // namespace orrery::models
