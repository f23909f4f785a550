#include "policies/training/regions.hpp"

#include <map>
#include <optional>
#include <string>

namespace orrery::policies {
namespace {

std::vector<std::string_view> parts_of(std::string_view scope) {
  std::vector<std::string_view> parts;
  while (!scope.empty()) {
    const std::size_t dot = scope.find('.');
    parts.push_back(scope.substr(0, dot));
    scope = dot == std::string_view::npos ? std::string_view{} : scope.substr(dot + 1);
  }
  return parts;
}

/// The part of a scope that the pattern covers; nothing where it does not match.
std::optional<std::string> matched(std::string_view scope, std::string_view pattern) {
  const std::vector<std::string_view> have = parts_of(scope), want = parts_of(pattern);
  if (have.size() < want.size() || want.empty()) return std::nullopt;
  std::string prefix;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (want[i] != "*" && want[i] != have[i]) return std::nullopt;
    prefix += std::string(have[i]) + ".";
  }
  return prefix;
}

}  // namespace

std::vector<std::int32_t> forward_regions(const models::OpGraph& graph, std::string_view pattern, std::int64_t every) {
  std::vector<std::int32_t> region(graph.op_count(), kNoRegion);
  std::map<std::string, std::int64_t> seen;
  for (const models::OpId id : graph.ops()) {
    const models::OpNode& op = graph.op(id);
    if (op.phase != models::Phase::forward) continue;
    const std::optional<std::string> prefix = matched(op.scope, pattern);
    if (!prefix) continue;
    const auto number = seen.try_emplace(*prefix, static_cast<std::int64_t>(seen.size())).first->second;
    region[index(id)] = static_cast<std::int32_t>(number / every);
  }
  return region;
}

}  // namespace orrery::policies
