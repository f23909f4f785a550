// The table of a launch run.
#include <fmt/format.h>

#include <string>

#include "sim/base/units.hpp"
#include "tools/orrery/summary_table.hpp"

namespace orrery::tools {
namespace {

using sim::Node;
using sim::Unit;

/// "3 / 4 / 4", or "-" for a crossover that lies beyond the batches.
std::string crossover(const Node& node) {
  const Node* all = node.find("crossover");
  if (all == nullptr) return "-";
  return fmt::format("{} / {} / {}", figure(*all, "balance", Unit::none), figure(*all, "tklqt", Unit::none),
                     figure(*all, "il", Unit::none));
}

}  // namespace

std::string launch_table(const Node& summary) {
  std::string out =
      fmt::format("{:<30} {:<20} {:>18} {:>6} {:>10} {:>10} {:>6} {:>10} {:>10} {:>6}\n", "platform", "model",
                  "crossover batch", "first", "TKLQT", "IL", "bound", "last TKLQT", "IL", "bound");
  for (const auto& [platform, models] : summary.find("platforms")->members())
    for (const auto& [model, series] : models.members()) {
      out += fmt::format("{:<30} {:<20} {:>18}", platform, model, crossover(series));
      const auto& batches = series.find("batches")->members();
      const auto end = [&](const Node& point) {
        return fmt::format("{:>10} {:>10} {:>6}", figure(point, "tklqt_s", Unit::seconds),
                           figure(point, "il_s", Unit::seconds), point.find("bound")->as_string());
      };
      out +=
          fmt::format(" {:>6} {} {}\n", batches.front().first, end(batches.front().second), end(batches.back().second));
    }
  return out + "crossover: by balance of device and thread / by TKLQT / by IL\n";
}

}  // namespace orrery::tools
