#include "experiments/claims/figure.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace orrery::experiments::claims {
namespace {

using sim::Node;

/// The rest of a path behind its first part, or nothing if the path does not start with that part.
std::optional<std::string_view> behind(std::string_view path, std::string_view part) {
  if (!path.starts_with(part)) return std::nullopt;
  if (path.size() == part.size()) return std::string_view{};
  if (path[part.size()] != '.') return std::nullopt;
  return path.substr(part.size() + 1);
}

std::string joined(const std::string& path, std::string_view part) {
  return path.empty() ? std::string(part) : path + "." + std::string(part);
}

class Search {
 public:
  FigureSearch result;

  bool look(const Node& node, std::string_view path, const std::string& reached) {
    if (path.empty()) {
      result.found = &node;
      return true;
    }
    const std::string_view first = path.substr(0, path.find('.'));
    if (node.is_array()) return look_in_array(node, path, first, reached);
    if (first == "*" && node.members().size() == 1)
      return look(node.members().front().second, *behind(path, first), joined(reached, node.members().front().first));
    std::vector<const std::pair<std::string, Node>*> fitting;
    for (const auto& member : node.members())
      if (behind(path, member.first)) fitting.push_back(&member);
    std::sort(fitting.begin(), fitting.end(), [](auto* a, auto* b) { return a->first.size() > b->first.size(); });
    for (const auto* member : fitting)
      if (look(member->second, *behind(path, member->first), joined(reached, member->first))) return true;
    if (fitting.empty()) miss(node, first, reached);
    return false;
  }

 private:
  bool look_in_array(const Node& node, std::string_view path, std::string_view first, const std::string& reached) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), index);
    if (error == std::errc{} && end == first.data() + first.size() && index < node.items().size())
      return look(node.items()[index], *behind(path, first), joined(reached, first));
    miss(node, first, reached);
    return false;
  }
  /// Keeps the miss that got furthest.
  void miss(const Node& node, std::string_view first, const std::string& reached) {
    if (!result.missing.empty() && reached.size() <= result.reached.size()) return;
    result.reached = reached;
    result.missing = first;
    result.members.clear();
    for (const auto& member : node.members()) result.members.push_back(member.first);
  }
};

}  // namespace

FigureSearch find_figure(const Node& summary, std::string_view path) {
  Search search;
  search.look(summary, path, "");
  return search.result;
}

}  // namespace orrery::experiments::claims
