// Traces of requests, each format by name, and any of them by its first line, plain and compressed. Router traces.
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets/targets.hpp"
#include "traces/file_trace.hpp"
#include "traces/router/router_trace.hpp"

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

/// Choices are of experts that there are, and what is written is read again.
void fuzz_router_trace(std::string_view input) {
  const traces::RouterTrace trace = traces::read_router_trace(as_file(input).string());
  require(trace.tokens() >= 1, "a router trace has a token");
  for (const traces::RouterLayer& layer : trace.layers) {
    require(static_cast<std::int64_t>(layer.choices.size()) == trace.tokens() * trace.top_k,
            "layers have as many tokens");
    for (const traces::ExpertId expert : layer.choices) require(expert < trace.experts, "experts are those of a layer");
  }
  const std::string again = as_file({}, "again.ort").string();
  traces::write_router_trace(trace, again);
  const traces::RouterTrace back = traces::read_router_trace(again);
  require(back.experts == trace.experts && back.context == trace.context, "what is written is read");
  for (std::size_t l = 0; l < trace.layers.size(); ++l)
    require(back.layers[l].choices == trace.layers[l].choices && back.layers[l].scores == trace.layers[l].scores,
            "what is written is read");
}

}  // namespace orrery::fuzz
