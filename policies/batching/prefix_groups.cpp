#include "policies/batching/prefix_groups.hpp"

#include <algorithm>
#include <numeric>

namespace orrery::policies {
namespace {

/// A node of the compact tree: texts [first, last) in sorted order, which share `tokens` tokens.
struct Node {
  std::int64_t tokens = 0;
  std::size_t first = 0, last = 0;
  std::int64_t below = 0;  // sum of best() of its children
  std::size_t parent = 0;
  bool cut = false;      // it is worth more as one group than what is below
  bool covered = false;  // a node above is a group

  std::int64_t own() const { return tokens * static_cast<std::int64_t>(last - first - 1); }
};

bool before(const Text* a, const Text* b) {
  if (a == nullptr || b == nullptr) return a == nullptr && b != nullptr;
  return std::lexicographical_compare(
      a->begin(), a->end(), b->begin(), b->end(),
      [](const TextSpan& x, const TextSpan& y) { return x.id != y.id ? x.id < y.id : x.tokens < y.tokens; });
}

std::int64_t common(const SharedText& a, const SharedText& b) {
  if (a.text == nullptr || b.text == nullptr) return 0;
  return std::max<std::int64_t>(0, std::min({common_tokens(*a.text, *b.text), a.tokens, b.tokens}));
}

}  // namespace

std::vector<PrefixGroup> prefix_groups(std::span<const SharedText> texts) {
  std::vector<std::size_t> line(texts.size());
  std::iota(line.begin(), line.end(), std::size_t{0});
  std::stable_sort(line.begin(), line.end(),
                   [&](std::size_t a, std::size_t b) { return before(texts[a].text, texts[b].text); });
  // Nodes are runs of neighbours that share so many tokens; a stack holds those still open, the root at its bottom.
  // Parents are closed, and numbered, after their children.
  std::vector<Node> nodes;
  struct Open {
    Node node;
    std::vector<std::size_t> children;
  };
  std::vector<Open> open(1);
  const auto close = [&](std::size_t last) {
    Open& top = open.back();
    top.node.last = last;
    for (const std::size_t child : top.children) {
      nodes[child].parent = nodes.size();
      top.node.below += std::max(nodes[child].own(), nodes[child].below);
    }
    top.node.cut = top.node.own() > top.node.below;
    nodes.push_back(top.node);
    open.pop_back();
    return nodes.size() - 1;
  };
  for (std::size_t i = 1; i < line.size(); ++i) {
    const std::int64_t tokens = common(texts[line[i - 1]], texts[line[i]]);
    std::size_t first = i - 1;
    while (open.back().node.tokens > tokens) {
      first = open.back().node.first;
      const std::size_t child = close(i);
      if (open.back().node.tokens < tokens) open.push_back({.node = {.tokens = tokens, .first = first}});
      open.back().children.push_back(child);
    }
    if (open.back().node.tokens < tokens) open.push_back({.node = {.tokens = tokens, .first = first}});
  }
  while (open.size() > 1) {
    const std::size_t child = close(line.size());
    open.back().children.push_back(child);
  }
  if (!line.empty()) close(line.size());

  std::vector<PrefixGroup> groups;
  std::vector<bool> grouped(texts.size());
  for (std::size_t i = nodes.size(); i-- > 0;) {
    Node& node = nodes[i];
    if (i + 1 < nodes.size()) node.covered = nodes[node.parent].covered || nodes[node.parent].cut;
    if (node.covered || !node.cut) continue;
    PrefixGroup group{.shared = node.tokens};
    for (std::size_t at = node.first; at < node.last; ++at) {
      group.members.push_back(line[at]);
      grouped[line[at]] = true;
    }
    std::sort(group.members.begin(), group.members.end());
    groups.push_back(std::move(group));
  }
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (!grouped[i]) groups.push_back({.shared = 0, .members = {i}});
  std::sort(groups.begin(), groups.end(),
            [](const PrefixGroup& a, const PrefixGroup& b) { return a.members.front() < b.members.front(); });
  return groups;
}

}  // namespace orrery::policies
