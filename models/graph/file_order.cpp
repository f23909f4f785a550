#include "models/graph/file_order.hpp"

#include <algorithm>
#include <queue>

namespace orrery::models {
namespace {

/// Walks back from a node that waits, over nodes that wait, until one comes again.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<std::size_t>>& waits_for,
                                    const std::vector<std::size_t>& open) {
  std::size_t at = 0;
  while (open[at] == 0) ++at;
  std::vector<std::size_t> path;
  std::vector<bool> seen(waits_for.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    at = *std::find_if(waits_for[at].begin(), waits_for[at].end(), [&](std::size_t to) { return open[to] > 0; });
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::reverse(path.begin(), path.end());
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  return path;
}

}  // namespace

FileOrder file_order(const std::vector<std::vector<std::size_t>>& waits_for) {
  FileOrder result;
  std::vector<std::size_t> open(waits_for.size(), 0);
  std::vector<std::vector<std::size_t>> next(waits_for.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < waits_for.size(); ++i) {
    open[i] = waits_for[i].size();
    for (const std::size_t before : waits_for[i]) next[before].push_back(i);
    if (open[i] == 0) ready.push(i);
  }
  result.order.reserve(waits_for.size());
  while (!ready.empty()) {
    const std::size_t now = ready.top();
    ready.pop();
    result.order.push_back(now);
    for (const std::size_t to : next[now])
      if (--open[to] == 0) ready.push(to);
  }
  if (result.order.size() < waits_for.size()) result.cycle = find_cycle(waits_for, open);
  return result;
}

}  // namespace orrery::models
