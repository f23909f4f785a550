// The table of a training job, and of the checkpoint intervals that were tried for it.
#include <fmt/format.h>

#include <array>

#include "sim/base/units.hpp"
#include "tools/orrery/summary_table.hpp"

namespace orrery::tools {
namespace {

using sim::Node;
using sim::Unit;

/// Seconds as people say long times: "3.2 h", "30 d".
std::string long_time(double seconds) {
  if (seconds >= 2 * 86400) return fmt::format("{:.4g} d", seconds / 86400);
  if (seconds >= 2 * 3600) return fmt::format("{:.3g} h", seconds / 3600);
  if (seconds >= 120) return fmt::format("{:.3g} min", seconds / 60);
  return sim::humanise(seconds, Unit::seconds);
}

std::string long_figure(const Node& summary, std::string_view path) {
  return long_time(number_at(summary, path));
}

std::string time_lines(const Node& summary) {
  constexpr std::array kParts{std::pair{"productive", "productive steps"},
                              std::pair{"slower", "slowdown by lost nodes and overhead"},
                              std::pair{"lost", "steps repeated or cut off"},
                              std::pair{"checkpoints", "waiting for checkpoints"},
                              std::pair{"recovery", "detection, restarts, state transfer"},
                              std::pair{"waiting", "waiting for nodes"}};
  const double wall = number_at(summary, "job.wall_s");
  std::string out;
  for (const auto& [name, what] : kParts) {
    const double share = number_at(summary, fmt::format("time_share.{}", name));
    out += fmt::format("  {:<44} {:>10} {:>6.1f} %\n", what, long_time(share * wall), 100 * share);
  }
  return out;
}

std::string interval_lines(const Node& summary) {
  std::string out = fmt::format("\n{:>12} {:>8} {:>12} {:>8} {:>13} {:>10}\n", "interval", "ETTR", "closed form",
                                "lost", "checkpoints", "recovery");
  const double best = number_at(summary, "best.interval_s");
  for (const Node& one : summary.find("tried")->items()) {
    const auto percent = [&](const char* path) { return 100 * number_at(one, path); };
    out += fmt::format("{:>12} {:>6.2f} % {:>10.2f} % {:>6.2f} % {:>11.2f} % {:>8.2f} %{}\n",
                       long_figure(one, "interval_s"), percent("ettr"), percent("closed_form"),
                       percent("time_share.lost"), percent("time_share.checkpoints"), percent("time_share.recovery"),
                       number_at(one, "interval_s") == best ? "  best" : "");
  }
  out += fmt::format("best         a checkpoint every {}; any interval from {} to {} is within a point of it\n",
                     long_figure(summary, "best.interval_s"), long_figure(summary, "as_good.from_s"),
                     long_figure(summary, "as_good.to_s"));
  if (summary.at("checkpoint.daly_s") != nullptr)
    out += fmt::format("closed form  {} by Daly, {} by Young\n", long_figure(summary, "checkpoint.daly_s"),
                       long_figure(summary, "checkpoint.young_s"));
  return out;
}

}  // namespace

std::string job_table(const Node& summary) {
  std::string out = fmt::format("ETTR         {:.2f} % of {} on {:.0f} devices", 100 * number_at(summary, "ettr.mean"),
                                long_figure(summary, "job.wall_s"), number_at(summary, "job.devices"));
  if (summary.at("ettr.closed_form") != nullptr)
    out += fmt::format(" (closed form of restarts: {:.2f} %)", 100 * number_at(summary, "ettr.closed_form"));
  out += '\n' + time_lines(summary);
  out += fmt::format("failures     {:.4g}, {:.4g} roll-backs", number_at(summary, "failures.all"),
                     number_at(summary, "failures.rollbacks"));
  if (summary.at("failures.mttf_s") != nullptr)
    out += fmt::format("; one every {} by the rates", long_figure(summary, "failures.mttf_s"));
  if (summary.at("failures.mttr_s") != nullptr)
    out += fmt::format(", {} to recover", long_figure(summary, "failures.mttr_s"));
  out += fmt::format("\nsteps        {:.6g} stayed of {:.6g}, {} each\n", number_at(summary, "job.steps"),
                     number_at(summary, "job.steps_run"), long_figure(summary, "job.step_s"));
  out += fmt::format("checkpoints  every {}, {} of {}\n", long_figure(summary, "checkpoint.interval_s"),
                     long_figure(summary, "checkpoint.pause_s"), figure(summary, "job.state_bytes", Unit::bytes));
  if (summary.find("whole") != nullptr) {
    out += fmt::format("whole        {:.4g} days, {:.4g} device hours", number_at(summary, "whole.days"),
                       number_at(summary, "whole.device_hours"));
    if (summary.at("whole.cost") != nullptr) out += fmt::format(", cost {:.4g}", number_at(summary, "whole.cost"));
    out += '\n';
  }
  if (summary.find("tried") != nullptr) out += interval_lines(summary);
  return out;
}

}  // namespace orrery::tools
