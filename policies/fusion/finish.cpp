#include "policies/fusion/finish.hpp"

#include <map>
#include <set>

#include "policies/fusion/marks.hpp"
#include "policies/fusion/prices.hpp"

namespace orrery::policies {

using models::OpGraph;
using models::OpId;

namespace {

/// Groups whose one kernel is slower than what it replaces.
std::set<std::int32_t> losers(const OpGraph& graph, const OpGraph& fused, const LaunchGraph& launches,
                              const UnitGroups& groups, const PassContext& context) {
  PricedOps prices(context);
  std::map<std::int32_t, double> apart;
  std::map<std::int32_t, OpId> kernel;
  for (std::size_t unit = 0; unit < launches.size(); ++unit) {
    if (groups[unit] < 0) continue;
    apart[groups[unit]] += prices.time_s(graph, launches.ops[unit]);
    for (const models::TensorId output : graph.op(launches.ops[unit]).outputs)
      if (const auto found = fused.find_tensor(graph.tensor(output).name))
        if (const auto maker = fused.producer(*found)) kernel.try_emplace(groups[unit], *maker);
  }
  std::set<std::int32_t> lost;
  for (const auto& [group, op] : kernel)
    if (prices.time_s(fused, op) > apart[group]) lost.insert(group);
  return lost;
}

}  // namespace

void tell_gains(const OpGraph& before, const OpGraph& after, const PassContext& context, PassReport& report) {
  report.tell("launches_before", static_cast<double>(count_launches(before)));
  report.tell("launches_after", static_cast<double>(count_launches(after)));
  report.tell("bytes_before", static_cast<double>(*models::total_work(before, context.typical).bytes().constant()));
  report.tell("bytes_after", static_cast<double>(*models::total_work(after, context.typical).bytes().constant()));
}

OpGraph finish_groups(const OpGraph& graph, const LaunchGraph& launches, UnitGroups groups, const PassContext& context,
                      PassReport& report, std::span<const GroupLabel> labels) {
  OpGraph fused = contract(graph, launches, groups, labels);
  std::size_t rejected = 0;
  if (context.cost != nullptr) {
    const std::set<std::int32_t> lost = losers(graph, fused, launches, groups, context);
    rejected = lost.size();
    for (std::int32_t& group : groups)
      if (lost.contains(group)) group = -1;
    if (rejected > 0) fused = contract(graph, launches, groups, labels);
  }
  std::set<std::int32_t> kept(groups.begin(), groups.end());
  kept.erase(-1);
  report.tell("groups", static_cast<double>(kept.size()));
  report.tell("rejected", static_cast<double>(rejected));
  tell_gains(graph, fused, context, report);
  return fused;
}

}  // namespace orrery::policies
