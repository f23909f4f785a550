// programs.csv, and the member `programs` of summary.json.
#include "experiments/systems/serving/programs/files.hpp"
#include "experiments/base/figures.hpp"
#include "experiments/base/text_file.hpp"

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

namespace {

struct ProgramsSource {
  const ProgramMetrics& metrics;
  double span_s, tick_s;
};

sim::Node program_latency(const ProgramsSource& programs, const sim::SampleStats& ticks) {
  return distribution_figures(ticks, programs.tick_s, kLatencyQuantiles);
}

/// Means over the programs that ended of what they told.
sim::Node told_figures(const ProgramsSource& programs) {
  const auto ended = static_cast<double>(programs.metrics.completed + programs.metrics.failed);
  sim::Node figures = sim::Node::object();
  for (const auto& [name, sum] : programs.metrics.figures) figures.set(name, ratio(sum, ended));
  return figures;
}

const FigureTable<ProgramsSource>& programs_table() {
  using Programs = ProgramsSource;
  static const FigureTable<Programs> table{
      {"{started,completed,failed,unfinished}", "count", "Programs started, completed, failed and unfinished.",
       [](const Programs& p) { return p.metrics.started; }, [](const Programs& p) { return p.metrics.completed; },
       [](const Programs& p) { return p.metrics.failed; },
       [](const Programs& p) { return p.metrics.started - p.metrics.completed - p.metrics.failed; }},
      {"per_s", "1/s", "Completed programs per second of simulated_s.",
       [](const Programs& p) { return ratio(static_cast<double>(p.metrics.completed), p.span_s); }},
      {"calls", "count", "Requests that programs sent.", [](const Programs& p) { return p.metrics.calls; }},
      {"calls_per_program", "count", "Mean number of requests per program.",
       [](const Programs& p) {
         return ratio(static_cast<double>(p.metrics.calls), static_cast<double>(p.metrics.started));
       }},
      {"{prompt_tokens,cached_tokens,output_tokens}", "tokens",
       "Tokens of the programs' calls: prompt, found in a cache, output.",
       [](const Programs& p) { return p.metrics.prompt_tokens; },
       [](const Programs& p) { return p.metrics.cached_tokens; },
       [](const Programs& p) { return p.metrics.output_tokens; }},
      {"cached_share", "ratio", "Share of prompt tokens found in a cache: cached_tokens over prompt_tokens.",
       [](const Programs& p) {
         return ratio(static_cast<double>(p.metrics.cached_tokens), static_cast<double>(p.metrics.prompt_tokens));
       }},
      {"{latency_s,call_time_s,wait_time_s,critical_path_s}." + latency_names(), "s",
       "Times of a program: from start to end; in its calls; waiting for tools, people and pauses; along its critical "
       "path.",
       [](const Programs& p) { return program_latency(p, p.metrics.latency); },
       [](const Programs& p) { return program_latency(p, p.metrics.call_time); },
       [](const Programs& p) { return program_latency(p, p.metrics.wait_time); },
       [](const Programs& p) { return program_latency(p, p.metrics.critical_path); }},
      {"figures.*", "",
       "Means over programs of the figures that the program reports (docs/explain/workloads.md): turns, tool_calls, "
       "tokens_used …",
       told_figures}};
  return table;
}

}  // namespace

sim::Node summarise_programs(const ProgramMetrics& metrics, double span_s, const sim::TickScale& scale) {
  return programs_table().written({metrics, span_s, static_cast<double>(scale.ps_per_tick()) * 1e-12});
}

std::vector<FigureInfo> program_figures() {
  return programs_table().infos();
}

}  // namespace orrery::experiments
