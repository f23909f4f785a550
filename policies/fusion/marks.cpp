#include "policies/fusion/marks.hpp"

#include <set>

#include "models/graph/op_work.hpp"

namespace orrery::policies {
namespace {

/// Launches of one op; `marks`: those that were counted already, null to count every kernel.
std::int64_t launches_of(const models::OpGraph& graph, models::OpId id,
                         std::set<std::pair<std::string_view, std::int64_t>>* marks) {
  const models::OpNode& op = graph.op(id);
  if (models::launches_nothing(op)) return 0;
  if (marks != nullptr)
    for (const std::string_view mark : {kCaptureMark, kStackMark})
      if (op.find(mark) != nullptr) return marks->emplace(mark, op.integer(mark, 0)).second ? 1 : 0;
  if (op.kind != models::OpKind::loop && op.kind != models::OpKind::branch) return 1;
  std::int64_t sum = 0;
  for (const models::OpId inner : op.regions.front()->ops()) sum += launches_of(*op.regions.front(), inner, marks);
  return sum;
}

}  // namespace

std::int64_t count_launches(const models::OpGraph& graph) {
  std::set<std::pair<std::string_view, std::int64_t>> marks;
  std::int64_t sum = 0;
  for (const models::OpId id : graph.ops()) sum += launches_of(graph, id, &marks);
  return sum;
}

std::int64_t count_kernels(const models::OpGraph& graph) {
  std::int64_t sum = 0;
  for (const models::OpId id : graph.ops()) sum += launches_of(graph, id, nullptr);
  return sum;
}

}  // namespace orrery::policies
