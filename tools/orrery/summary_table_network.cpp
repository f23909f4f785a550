// The table of a network run.
#include <fmt/format.h>

#include <string>

#include "sim/base/units.hpp"
#include "tools/orrery/summary_table.hpp"

namespace orrery::tools {
namespace {

using sim::Node;
using sim::Unit;

/// Jobs that the table shows one by one.
constexpr std::size_t kShownJobs = 20;

std::string word(const Node& root, std::string_view path) {
  const Node* node = root.at(path);
  if (node == nullptr) return "-";
  return node->is_string() ? node->as_string() : node->kind() == Node::Kind::integer ? node->dump() : "-";
}

std::string percent(const Node& root, std::string_view path) {
  const Node* node = root.at(path);
  return node != nullptr && node->is_number() ? fmt::format("{:.1f} %", 100 * node->as_number()) : "-";
}

void jobs(std::string& out, const Node& summary) {
  const Node* each = summary.at("jobs.by_name");
  if (each == nullptr) return;
  out += fmt::format("\n{:<16} {:<15} {:<17} {:>6} {:>6} {:>10} {:>10} {:>10} {:>12} {:>12}\n", "job", "collective",
                     "algorithm", "ranks", "times", "mean", "p99", "max", "algbw", "busbw");
  for (std::size_t i = 0; i < each->members().size() && i < kShownJobs; ++i) {
    const auto& [name, job] = each->members()[i];
    out += fmt::format("{:<16} {:<15} {:<17} {:>6} {:>6} {:>10} {:>10} {:>10} {:>12} {:>12}\n", name,
                       word(job, "collective"), word(job, "algorithm"), word(job, "ranks"), word(job, "repetitions"),
                       figure(job, "time_s.mean", Unit::seconds), figure(job, "time_s.p99", Unit::seconds),
                       figure(job, "time_s.max", Unit::seconds), figure(job, "algbw_bytes_per_s", Unit::bytes_per_s),
                       figure(job, "busbw_bytes_per_s", Unit::bytes_per_s));
  }
  if (each->members().size() > kShownJobs) out += fmt::format("and {} more\n", each->members().size() - kShownJobs);
  out += '\n';
}

}  // namespace

std::string network_table(const Node& summary) {
  std::string out;
  if (word(summary, "status") == "stalled") {
    out += fmt::format("status       stalled: {}\n", word(summary, "reason"));
    if (const Node* stopped = summary.at("stalled.jobs"); stopped != nullptr)
      for (const Node& name : stopped->items()) out += fmt::format("             job {}\n", name.as_string());
    if (const Node* stopped = summary.at("stalled.flows"); stopped != nullptr && !stopped->items().empty())
      out +=
          fmt::format("             {} of {} flows\n", word(summary, "flows.unfinished"), word(summary, "flows.count"));
  }
  out += fmt::format("simulated    {}, makespan {}\n", figure(summary, "simulated_s", Unit::seconds),
                     figure(summary, "makespan_s", Unit::seconds));
  jobs(out, summary);
  if (summary.find("flows") != nullptr) {
    out += fmt::format(
        "flows        {} of {} arrived, time mean {}, p50 {}, p99 {}, max {}\n", word(summary, "flows.completed"),
        word(summary, "flows.count"), figure(summary, "flows.time_s.mean", Unit::seconds),
        figure(summary, "flows.time_s.p50", Unit::seconds), figure(summary, "flows.time_s.p99", Unit::seconds),
        figure(summary, "flows.time_s.max", Unit::seconds));
    out += fmt::format(
        "slowdown     mean {}, p50 {}, p99 {}, max {} against an empty network\n",
        figure(summary, "flows.slowdown.mean", Unit::ratio), figure(summary, "flows.slowdown.p50", Unit::ratio),
        figure(summary, "flows.slowdown.p99", Unit::ratio), figure(summary, "flows.slowdown.max", Unit::ratio));
  }
  if (const Node* links = summary.find("links"); links != nullptr && links->is_object())
    out += fmt::format("links        used {} in the mean, {} at most ({}), {} carried\n",
                       percent(summary, "links.utilisation.mean"), percent(summary, "links.utilisation.max"),
                       word(summary, "links.busiest"), figure(summary, "links.carried_bytes", Unit::bytes));
  if (word(summary, "rerouted") != "0" || word(summary, "without_path") != "0")
    out += fmt::format("failures     {} messages took another way, {} have none\n", word(summary, "rerouted"),
                       word(summary, "without_path"));
  return out;
}

}  // namespace orrery::tools
