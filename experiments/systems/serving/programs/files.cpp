// programs.csv, and the member `programs` of summary.json.
#include <array>
#include <string_view>
#include <utility>

#include "experiments/base/figures.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/systems/serving/programs/files.hpp"

namespace orrery::experiments {

void write_programs_table(const std::filesystem::path& path, const ProgramMetrics& metrics,
                          const sim::TickScale& scale) {
  BufferedFile file(path);
  std::string& out = file.buffer();
  out =
      "program,started_s,finished_s,calls,prompt_tokens,cached_tokens,output_tokens,call_s,wait_s,critical_path_s,"
      "status\n";
  for (const ProgramRecord& record : metrics.records) {
    append(out, "{},", record.id);
    append_seconds(out, record.started, scale);
    out += ',';
    if (record.finished) append_seconds(out, *record.finished, scale);
    append(out, ",{},{},{},{},", record.calls, record.prompt_tokens, record.cached_tokens, record.output_tokens);
    append_seconds(out, {record.call_ticks}, scale);
    out += ',';
    append_seconds(out, {record.wait_ticks}, scale);
    out += ',';
    append_seconds(out, {record.critical_ticks}, scale);
    append(out, ",{}\n", record.completed ? "completed" : record.finished ? "failed" : "unfinished");
    file.line_done();
  }
  file.close();
}

sim::Node summarise_programs(const ProgramMetrics& metrics, double span_s, const sim::TickScale& scale) {
  using sim::Node;
  constexpr std::array kQuantiles{std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p95", 0.95},
                                  std::pair{"p99", 0.99}};
  const double tick_s = static_cast<double>(scale.ps_per_tick()) * 1e-12;
  const auto ended = static_cast<double>(metrics.completed + metrics.failed);
  Node node = Node::object();
  node.set("started", Node::integer(metrics.started));
  node.set("completed", Node::integer(metrics.completed));
  node.set("failed", Node::integer(metrics.failed));
  node.set("unfinished", Node::integer(metrics.started - metrics.completed - metrics.failed));
  node.set("per_s", ratio(static_cast<double>(metrics.completed), span_s));
  node.set("calls", Node::integer(metrics.calls));
  node.set("calls_per_program", ratio(static_cast<double>(metrics.calls), static_cast<double>(metrics.started)));
  node.set("prompt_tokens", Node::integer(metrics.prompt_tokens));
  node.set("cached_tokens", Node::integer(metrics.cached_tokens));
  node.set("output_tokens", Node::integer(metrics.output_tokens));
  node.set("cached_share",
           ratio(static_cast<double>(metrics.cached_tokens), static_cast<double>(metrics.prompt_tokens)));
  node.set("latency_s", distribution_figures(metrics.latency, tick_s, kQuantiles));
  node.set("call_time_s", distribution_figures(metrics.call_time, tick_s, kQuantiles));
  node.set("wait_time_s", distribution_figures(metrics.wait_time, tick_s, kQuantiles));
  node.set("critical_path_s", distribution_figures(metrics.critical_path, tick_s, kQuantiles));
  Node figures = Node::object();
  for (const auto& [name, sum] : metrics.figures) figures.set(name, ratio(sum, ended));
  node.set("figures", std::move(figures));
  return node;
}

}  // namespace orrery::experiments
