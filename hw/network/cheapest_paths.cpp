#include "hw/network/cheapest_paths.hpp"

#include <algorithm>
#include <array>
#include <queue>
#include <utility>

#include "hw/network/routing.hpp"

namespace orrery::hw {

template <class Metric>
CheapestPaths<Metric>::CheapestPaths(const Topology& topology, bool hosts_forward,
                                     std::span<const std::uint32_t> groups)
    : topology_(topology), hosts_forward_(hosts_forward), groups_(groups.begin(), groups.end()) {
  index(std::vector<bool>(topology.links.size(), true));
}

template <class Metric>
void CheapestPaths<Metric>::links_changed(const std::vector<bool>& up) {
  index(up);
}

template <class Metric>
void CheapestPaths<Metric>::index(const std::vector<bool>& up) {
  std::vector<bool> usable = up;
  for (std::size_t l = 0; l < usable.size(); ++l) usable[l] = up[l] && topology_.links[l].bandwidth > 0;
  find_forwarding(usable);
  out_ = lists(usable, true);
  in_ = lists(usable, false);
  direct_ = {};
  direct_.first.assign(topology_.nodes.size() + 1, 0);
  const auto is_direct = [&](LinkIndex l) {
    return usable[l] && !forwards(topology_.links[l].from) && !forwards(topology_.links[l].to);
  };
  for (LinkIndex l = 0; l < usable.size(); ++l)
    if (is_direct(l)) ++direct_.first[topology_.links[l].from + 1];
  for (std::size_t n = 1; n < direct_.first.size(); ++n) direct_.first[n] += direct_.first[n - 1];
  direct_.hops.resize(direct_.first.back());
  std::vector<std::uint32_t> next = direct_.first;
  for (LinkIndex l = 0; l < usable.size(); ++l)
    if (is_direct(l)) direct_.hops[next[topology_.links[l].from]++] = {topology_.links[l].to, l};
  std::uint32_t groups = 0;
  for (const std::uint32_t group : groups_) groups = std::max(groups, group + 1);
  tables_.clear();
  tables_.resize(topology_.nodes.size() + groups);
  table_bytes_ = 0;
}

template <class Metric>
void CheapestPaths<Metric>::find_forwarding(const std::vector<bool>& up) {
  const std::size_t nodes = topology_.nodes.size();
  // A host whose every link leads to and from one neighbour has nothing to forward.
  std::vector<NodeIndex> neighbour(nodes, kNone);
  std::vector<bool> several(nodes, false);
  const auto meet = [&](NodeIndex node, NodeIndex other) {
    if (neighbour[node] != kNone && neighbour[node] != other) several[node] = true;
    neighbour[node] = other;
  };
  for (LinkIndex l = 0; l < up.size(); ++l) {
    if (!up[l]) continue;
    meet(topology_.links[l].from, topology_.links[l].to);
    meet(topology_.links[l].to, topology_.links[l].from);
  }
  vertex_.assign(nodes, kNone);
  node_of_.clear();
  for (NodeIndex n = 0; n < nodes; ++n) {
    if (n < topology_.hosts && (!hosts_forward_ || !several[n])) continue;
    vertex_[n] = static_cast<std::uint32_t>(node_of_.size());
    node_of_.push_back(n);
  }
  std::vector<std::uint8_t> ups(nodes, 0);
  std::vector<std::uint8_t> downs(nodes, 0);
  only_up_.assign(nodes, kNone);
  only_down_.assign(nodes, kNone);
  const auto count = [](std::uint8_t& n) { n = static_cast<std::uint8_t>(std::min(n + 1, 2)); };
  for (LinkIndex l = 0; l < up.size(); ++l) {
    if (!up[l]) continue;
    const NetworkLink& link = topology_.links[l];
    count(ups[link.from]);
    count(downs[link.to]);
    only_up_[link.from] = l;
    only_down_[link.to] = l;
  }
  for (NodeIndex n = 0; n < nodes; ++n) {
    const bool single = !forwards(n) && !several[n] && ups[n] == 1 && downs[n] == 1 && forwards(neighbour[n]);
    if (!single) only_up_[n] = only_down_[n] = kNone;
  }
}

template <class Metric>
typename CheapestPaths<Metric>::Lists CheapestPaths<Metric>::lists(const std::vector<bool>& up, bool outward) const {
  Lists lists;
  lists.first.assign(topology_.nodes.size() + 1, 0);
  const auto ends = [&](LinkIndex l) {
    const NetworkLink& link = topology_.links[l];
    return outward ? std::pair(link.from, link.to) : std::pair(link.to, link.from);
  };
  for (LinkIndex l = 0; l < up.size(); ++l)
    if (up[l] && forwards(ends(l).second)) ++lists.first[ends(l).first + 1];
  for (std::size_t n = 1; n < lists.first.size(); ++n) lists.first[n] += lists.first[n - 1];
  lists.hops.resize(lists.first.back());
  std::vector<std::uint32_t> next = lists.first;
  for (LinkIndex l = 0; l < up.size(); ++l)
    if (up[l] && forwards(ends(l).second)) lists.hops[next[ends(l).first]++] = {vertex_[ends(l).second], l};
  for (std::size_t n = 0; n + 1 < lists.first.size(); ++n)
    std::sort(lists.hops.begin() + lists.first[n], lists.hops.begin() + lists.first[n + 1], before);
  return lists;
}

template <class Metric>
typename CheapestPaths<Metric>::Table& CheapestPaths<Metric>::table_for(std::size_t key, std::span<const Hop> seeds,
                                                                        bool seeds_cost) {
  if (!tables_[key].cost.empty()) return tables_[key];
  const std::size_t bytes = node_of_.size() * sizeof(Cost);
  if (table_bytes_ + bytes > kTableBytes) {
    for (Table& old : tables_) old = {};
    table_bytes_ = 0;
  }
  table_bytes_ += bytes;
  Table& table = tables_[key];
  table.cost.assign(node_of_.size(), kFar);
  for (const Hop& seed : seeds) {
    const Cost cost = seeds_cost ? cost_of(seed.link) : Cost{0};
    if (table.cost[seed.vertex] == kFar) table.frontier.push_back(seed.vertex);
    table.cost[seed.vertex] = std::min(table.cost[seed.vertex], cost);
  }
  table.level = seeds_cost && Metric::kUniform ? Cost{1} : Cost{0};
  if constexpr (!Metric::kUniform) advance(table);
  return table;
}

/// One more level of breadth-first search, or all of Dijkstra's.
template <class Metric>
void CheapestPaths<Metric>::advance(Table& table) {
  if constexpr (Metric::kUniform) {
    std::vector<std::uint32_t> next;
    ++table.level;
    for (const std::uint32_t v : table.frontier) {
      for (const Hop& hop : in_.of(node_of_[v])) {
        if (table.cost[hop.vertex] != kFar) continue;
        table.cost[hop.vertex] = table.level;
        next.push_back(hop.vertex);
      }
    }
    table.frontier = std::move(next);
  } else {
    using Entry = std::pair<Cost, std::uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (const std::uint32_t v : table.frontier) queue.emplace(table.cost[v], v);
    table.frontier.clear();
    while (!queue.empty()) {
      const auto [cost, v] = queue.top();
      queue.pop();
      if (cost != table.cost[v]) continue;  // a cheaper way was found since
      for (const Hop& hop : in_.of(node_of_[v])) {
        const Cost through = cost + cost_of(hop.link);
        if (through >= table.cost[hop.vertex]) continue;
        table.cost[hop.vertex] = through;
        queue.emplace(through, hop.vertex);
      }
    }
  }
}

/// Searches until the nearest of `starts` has its cost, or nothing is left to search.
template <class Metric>
void CheapestPaths<Metric>::reach(Table& table, std::span<const Hop> starts) {
  const auto reached = [&] {
    return std::any_of(starts.begin(), starts.end(), [&](const Hop& hop) { return table.cost[hop.vertex] != kFar; });
  };
  while (!table.frontier.empty() && !reached()) advance(table);
}

template <class Metric>
typename CheapestPaths<Metric>::Goal CheapestPaths<Metric>::goal_of(NodeIndex to) {
  if (forwards(to)) {
    const std::array seeds{Hop{vertex_[to], kNone}};
    return {to, &table_for(to, seeds, false), false, vertex_[to], {}};
  }
  if (only_down_[to] != kNone) {
    const NodeIndex parent = topology_.links[only_down_[to]].from;
    const std::array seeds{Hop{vertex_[parent], kNone}};
    return {to, &table_for(parent, seeds, false), true, vertex_[parent], {}};
  }
  return {to, &table_for(to, in_.of(to), true), false, kNone, in_.of(to)};
}

/// Links of `at` that lead on over a path of cost `left`, sorted by where they lead.
template <class Metric>
void CheapestPaths<Metric>::find_candidates(NodeIndex at, Cost left, const Goal& goal) {
  candidates_.clear();
  const std::span<const Hop> out = out_.of(at);
  // One step before the goal's own neighbours, these are looked up among the links rather than all links tried: a spine
  // of a thousand links has one that leads there.
  const Cost first = goal.ends.empty() ? Cost{1} : Cost{2};
  if (Metric::kUniform && left == first && goal.node != kNone && (goal.ends.size() + 1) * 32 < out.size()) {
    const Hop self{goal.at, kNone};
    std::uint32_t last = kNone;
    for (const Hop& end : goal.ends.empty() ? std::span<const Hop>(&self, 1) : goal.ends) {
      if (std::exchange(last, end.vertex) == end.vertex) continue;
      auto hop = std::lower_bound(out.begin(), out.end(), Hop{end.vertex, 0}, before);
      for (; hop != out.end() && hop->vertex == end.vertex; ++hop) candidates_.push_back(*hop);
    }
    return;
  }
  for (const Hop& hop : out) {
    const Cost rest = goal.table->cost[hop.vertex];
    if (rest < left && static_cast<Cost>(rest + cost_of(hop.link)) == left) candidates_.push_back(hop);
  }
  for (const Hop& hop : goal.ends)
    if (node_of_[hop.vertex] == at && cost_of(hop.link) == left) candidates_.push_back({kNone, hop.link});
}

template <class Metric>
typename CheapestPaths<Metric>::Hop CheapestPaths<Metric>::choose(std::uint64_t hash, NodeIndex at) const {
  if (candidates_.size() == 1) return candidates_.front();
  return candidates_[route_pick(hash, at, candidates_.size())];
}

/// The first link of a node that does not forward; `vertex` is where it leads, kNone if that is the goal itself.
template <class Metric>
bool CheapestPaths<Metric>::leave_end(NodeIndex from, const Goal& goal, std::uint64_t hash, std::uint32_t& vertex,
                                      std::vector<LinkIndex>& path) {
  if (only_up_[from] != kNone) {
    path.push_back(only_up_[from]);
    vertex = vertex_[topology_.links[only_up_[from]].to];
    return true;
  }
  Cost best = kFar;
  candidates_.clear();
  const auto offer = [&](Cost cost, Hop hop) {
    if (cost > best) return;
    if (cost < best) candidates_.clear();
    best = cost;
    candidates_.push_back(hop);
  };
  for (const Hop& hop : direct_.of(from))
    if (hop.vertex == goal.node) offer(cost_of(hop.link), {kNone, hop.link});
  // A neighbour at one link cannot be beaten by hops; by latency a way through switches can.
  if (!Metric::kUniform || candidates_.empty()) {
    reach(*goal.table, out_.of(from));
    for (const Hop& hop : out_.of(from)) {
      const Cost rest = goal.table->cost[hop.vertex];
      if (rest != kFar) offer(static_cast<Cost>(rest + cost_of(hop.link)), hop);
    }
  }
  if (candidates_.empty()) return false;
  const Hop hop = choose(hash, from);
  path.push_back(hop.link);
  vertex = hop.vertex;
  return true;
}

/// From a node that forwards down the costs to the goal.
template <class Metric>
bool CheapestPaths<Metric>::descend(std::uint32_t vertex, const Goal& goal, std::uint64_t hash,
                                    std::vector<LinkIndex>& path) {
  const std::array start{Hop{vertex, kNone}};
  reach(*goal.table, start);
  Cost left = goal.table->cost[vertex];
  if (left == kFar) return false;
  while (left > 0) {
    const NodeIndex at = node_of_[vertex];
    find_candidates(at, left, goal);
    const Hop hop = choose(hash, at);
    path.push_back(hop.link);
    if (hop.vertex == kNone) return true;
    vertex = hop.vertex;
    left = goal.table->cost[vertex];
  }
  if (goal.at_switch) path.push_back(only_down_[goal.node]);
  return true;
}

template <class Metric>
bool CheapestPaths<Metric>::append(NodeIndex from, NodeIndex to, std::uint64_t hash, std::vector<LinkIndex>& path) {
  if (from == to) return true;
  const std::size_t before = path.size();
  const Goal goal = goal_of(to);
  std::uint32_t vertex = vertex_[from];
  bool found = vertex != kNone || leave_end(from, goal, hash, vertex, path);
  if (found && vertex != kNone) found = descend(vertex, goal, hash, path);
  if (!found) path.resize(before);
  return found;
}

template <class Metric>
bool CheapestPaths<Metric>::append_to_group(NodeIndex from, std::uint32_t group, std::uint64_t hash,
                                            std::vector<LinkIndex>& path) {
  const std::size_t before = path.size();
  const std::size_t key = topology_.nodes.size() + group;
  std::vector<Hop> seeds;
  if (tables_[key].cost.empty())
    for (const NodeIndex n : node_of_)
      if (groups_[n] == group) seeds.push_back({vertex_[n], kNone});
  const Goal goal{kNone, &table_for(key, seeds, false), false, kNone, {}};
  std::uint32_t vertex = vertex_[from];
  bool found = vertex != kNone || leave_end(from, goal, hash, vertex, path);
  found = found && descend(vertex, goal, hash, path);
  if (!found) path.resize(before);
  return found;
}

template class CheapestPaths<Hops>;
template class CheapestPaths<LatencyCost>;
template class CheapestPaths<GroupHops>;

}  // namespace orrery::hw
