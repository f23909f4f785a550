#include "traces/writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "sim/base/csv.hpp"
#include "sim/base/document.hpp"
#include "sim/base/fault.hpp"
#include "traces/decimal.hpp"
#include "traces/output_file.hpp"

namespace orrery::traces {
namespace {

constexpr std::size_t kFlush = 64 * 1024;

void append_csv(std::string& out, const TraceRecord& record, const TraceColumns& columns) {
  if (columns.arrivals) out += format_seconds(record.arrival_ns) += ',';
  fmt::format_to(std::back_inserter(out), "{},{}", record.prompt_tokens, record.output_tokens);
  if (columns.sessions) sim::append_csv_cell(out += ',', record.session);
  if (columns.prefixes) fmt::format_to(std::back_inserter(out), ",{}", fmt::join(record.prefix_blocks, " "));
  if (columns.priorities) fmt::format_to(std::back_inserter(out), ",{}", record.priority);
  if (columns.tenants) fmt::format_to(std::back_inserter(out), ",{}", record.tenant);
  if (columns.predictions) fmt::format_to(std::back_inserter(out), ",{}", record.predicted_tokens);
  out += '\n';
}

void append_jsonl(std::string& out, const TraceRecord& record) {
  fmt::format_to(std::back_inserter(out), R"({{"arrived_s": {}, "prompt_tokens": {}, "output_tokens": {})",
                 format_seconds(record.arrival_ns), record.prompt_tokens, record.output_tokens);
  if (!record.session.empty()) out += ", \"session\": " + sim::Node::string(record.session).dump();
  if (!record.prefix_blocks.empty())
    fmt::format_to(std::back_inserter(out), ", \"prefix_blocks\": [{}]", fmt::join(record.prefix_blocks, ", "));
  if (record.priority != 0) fmt::format_to(std::back_inserter(out), ", \"priority\": {}", record.priority);
  if (record.tenant != 0) fmt::format_to(std::back_inserter(out), ", \"tenant\": {}", record.tenant);
  if (record.predicted_tokens != 0)
    fmt::format_to(std::back_inserter(out), ", \"predicted_tokens\": {}", record.predicted_tokens);
  out += "}\n";
}

}  // namespace

const std::vector<std::string>& writable_formats() {
  static const std::vector<std::string> kFormats{"orrery_csv", "orrery_jsonl"};
  return kFormats;
}

WrittenTrace write_trace(TraceSource& source, std::string_view format,
                         const std::function<void(std::string_view)>& sink) {
  const bool csv = format == "orrery_csv";
  if (!csv && format != "orrery_jsonl")
    sim::throw_fault({"trace", ""}, fmt::format("cannot write trace format '{}'", format),
                     sim::name_hint(format, writable_formats()));
  const TraceColumns columns = source.columns();
  if (!csv && !columns.arrivals)
    sim::throw_fault({"trace", ""}, "the trace has no arrivals, which orrery_jsonl needs",
                     "write orrery_csv, or re-time it");
  std::string out;
  if (csv)
    out += fmt::format("{}prompt_tokens,output_tokens{}{}{}{}{}\n", columns.arrivals ? "arrived_s," : "",
                       columns.sessions ? ",session" : "", columns.prefixes ? ",prefix_blocks" : "",
                       columns.priorities ? ",priority" : "", columns.tenants ? ",tenant" : "",
                       columns.predictions ? ",predicted_tokens" : "");
  WrittenTrace written;
  TraceRecord record;
  while (source.next(record)) {
    ++written.records;
    if (csv) {
      append_csv(out, record, columns);
    } else {
      append_jsonl(out, record);
    }
    if (out.size() < kFlush) continue;
    sink(out);
    out.clear();
  }
  sink(out);
  return written;
}

WrittenTrace write_trace(TraceSource& source, std::string_view format, const std::string& path) {
  OutputFile file(path);
  const WrittenTrace written = write_trace(source, format, [&](std::string_view bytes) { file.write(bytes); });
  file.finish();
  return written;
}

}  // namespace orrery::traces
