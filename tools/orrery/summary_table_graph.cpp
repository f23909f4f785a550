// The table of a graph run.
#include <fmt/format.h>

#include <string>

#include "sim/base/units.hpp"
#include "tools/orrery/summary_table.hpp"

namespace orrery::tools {
namespace {

using sim::Node;
using sim::Unit;

void spread(std::string& out, const Node& summary, std::string_view key, std::string_view label) {
  out += fmt::format("{:<12}", label);
  for (const char* column : {"mean", "p50", "p90", "p95", "p99", "max"})
    out += fmt::format(" {:>10}", figure(summary, fmt::format("{}.{}", key, column), Unit::seconds));
  out += '\n';
}

void passes(std::string& out, const Node& summary) {
  const Node* all = summary.find("passes");
  if (all == nullptr || all->members().empty()) return;
  out += '\n';
  for (const auto& [name, figures] : all->members()) {
    out += fmt::format("pass {:<24}", name);
    for (const auto& [figure_name, value] : figures.members())
      out += fmt::format("  {} {}", figure_name, sim::humanise(value.as_number(), sim::unit_of_figure(figure_name)));
    out += '\n';
  }
}

}  // namespace

std::string graph_table(const Node& summary) {
  const auto at = [&](std::string_view path, Unit unit) { return figure(summary, path, unit); };
  std::string out = fmt::format("requests     {} completed in {}, {} samples/s\n", at("requests.completed", Unit::none),
                                at("simulated_s", Unit::seconds), at("throughput.samples_per_s", Unit::none));
  if (summary.at("max_batch") != nullptr && summary.at("max_batch")->is_number())
    out += fmt::format("max batch    {}\n", at("max_batch", Unit::none));
  out += fmt::format("\n{:<12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "time", "mean", "p50", "p90", "p95", "p99",
                     "max");
  spread(out, summary, "latency_s", "latency");
  spread(out, summary, "stall_s", "stall");
  spread(out, summary, "steady_s", "steady");
  out += fmt::format("\ncompiling    {} for {} kernels, worst stall {}, ahead {}\n",
                     at("compile_s.total", Unit::seconds), at("compile_s.count", Unit::none),
                     at("compile_s.worst_stall", Unit::seconds), at("compile_s.startup", Unit::seconds));
  out += fmt::format("launches     {} of {} kernels, TKLQT {}, host {}, device busy {}\n", at("launches", Unit::none),
                     at("kernels", Unit::none), at("tklqt_s", Unit::seconds), at("host_s", Unit::seconds),
                     at("device_busy_s", Unit::seconds));
  out += fmt::format("moved        {} read, {} written\n", at("bytes_moved.read", Unit::bytes),
                     at("bytes_moved.write", Unit::bytes));
  out += fmt::format("memory       peak {}: parameters {}, state {}, inputs {}, activations {}\n",
                     at("memory_bytes.peak", Unit::bytes), at("memory_bytes.parameters", Unit::bytes),
                     at("memory_bytes.state", Unit::bytes), at("memory_bytes.inputs", Unit::bytes),
                     at("memory_bytes.activations", Unit::bytes));
  out += fmt::format("energy       {} J, {} J a sample\n", at("energy_j.total", Unit::none),
                     at("energy_j.per_sample", Unit::none));
  passes(out, summary);
  return out;
}

}  // namespace orrery::tools
