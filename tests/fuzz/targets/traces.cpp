// Traces of requests, each format by name, and any of them by its first line, plain and compressed.
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "traces/file_trace.hpp"

namespace orrery::fuzz {
namespace {

const traces::FormatTable& formats() {
  static const traces::FormatTable all = [] {
    traces::FormatTable table;
    traces::register_formats(table);
    return table;
  }();
  return all;
}

}  // namespace

/// Records stand in order and have tokens. Faulty lines are passed over, so that the fuzzer comes to those behind.
void fuzz_trace(std::string_view input, const char* format) {
  traces::TraceParams params{
      .path = as_file(input).string(), .on_error = traces::OnError::skip, .failed = traces::OnFailed::send};
  if (format != nullptr) params.format = format;
  const auto source = traces::open_trace(params, formats());
  traces::TraceRecord record;
  std::int64_t last = 0;
  while (source->next(record)) {
    require(record.arrival_ns >= last, "records stand in order of arrival");
    require(record.prompt_tokens >= 1 && record.prompt_tokens <= traces::kMaxTokens, "a prompt has tokens");
    require(record.output_tokens >= 1 && record.output_tokens <= traces::kMaxTokens, "an answer has tokens");
    last = record.arrival_ns;
  }
  require(!source->next(record), "the end stays the end");
}

}  // namespace orrery::fuzz
