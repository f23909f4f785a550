// The table of a replay of execution traces.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.hpp"
#include "tools/orrery/summary_table.hpp"

namespace orrery::tools {
namespace {

using sim::Node;
using sim::Unit;

constexpr std::size_t kRanks = 16;  // rows; tasks.csv has all

}  // namespace

std::string tasks_table(const Node& summary) {
  const auto seconds = [&](const Node& node, std::string_view path) { return figure(node, path, Unit::seconds); };
  std::string out =
      fmt::format("makespan     {} ({:.0f} ranks, {:.0f} tasks, {:.0f} collectives); no schedule is below {}\n",
                  seconds(summary, "makespan_s"), number_at(summary, "rank_count"), number_at(summary, "task_count"),
                  number_at(summary, "collectives"), seconds(summary, "bound_s"));
  out += fmt::format("ranks        devices busy {:.1f} %, communication that no work hides {:.1f} %\n",
                     100 * number_at(summary, "share.busy"), 100 * number_at(summary, "share.exposed"));
  out += fmt::format("critical     compute {}, communication {}, memory {}, waiting {} ({:.0f} tasks)\n",
                     seconds(summary, "critical_path.compute_s"), seconds(summary, "critical_path.communication_s"),
                     seconds(summary, "critical_path.memory_s"), seconds(summary, "critical_path.waiting_s"),
                     number_at(summary, "critical_path.tasks"));
  for (const Node& task : summary.at("critical_path.longest")->items())
    out += "             " + task.as_string() + "\n";
  out += fmt::format("links        {} carried\n", figure(summary, "carried_bytes", Unit::bytes));
  out += fmt::format("\n{:>6} {:>10} {:>14} {:>10} {:>10} {:>8}\n", "rank", "busy", "communication", "exposed", "end",
                     "tasks");
  const std::vector<Node>& ranks = summary.find("ranks")->items();
  for (std::size_t i = 0; i < std::min(kRanks, ranks.size()); ++i)
    out += fmt::format("{:>6} {:>10} {:>14} {:>10} {:>10} {:>8.0f}\n", i, seconds(ranks[i], "busy_s"),
                       seconds(ranks[i], "communication_s"), seconds(ranks[i], "exposed_s"),
                       seconds(ranks[i], "finish_s"), number_at(ranks[i], "tasks"));
  if (ranks.size() > kRanks) out += fmt::format("{:>6} and {} more: summary.json\n", "…", ranks.size() - kRanks);
  return out;
}

}  // namespace orrery::tools
