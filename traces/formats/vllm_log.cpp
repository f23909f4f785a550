// vllm_log: the log of a vLLM run, one request a line, as CSV or JSON lines: when it arrived (seconds from any origin),
// its prompt tokens and the tokens it got. The names are those of benchmark logs and of vLLM's request metrics;
// whatever else a log measured (queued_at, first_token_at, last_token_at …) is no part of the workload and is passed
// over. A log is written as requests end, so lines stand in any order; requests without output failed, and are skipped
// and counted.
#include "traces/csv.hpp"
#include "traces/formats/formats.hpp"
#include "traces/jsonl.hpp"

namespace orrery::traces::formats {
namespace {

constexpr std::string_view kArrival = "arrived_at|arrival_time|arrival|start_time";
constexpr std::string_view kPrompt =
    "num_prefill_tokens|num_prompt_tokens|prompt_tokens|prompt_len|input_len|input_tokens";
constexpr std::string_view kOutput =
    "num_decode_tokens|num_generation_tokens|generation_tokens|completion_tokens|output_tokens|output_len";

/// CSV or JSON lines, whichever the first line is.
class VllmLog final : public LineParser {
 public:
  explicit VllmLog(OnFailed failed) : failed_(failed) {}

  bool read_header(std::string_view line, const sim::Origin& where) override {
    if (line.find('{') < line.find(',')) {
      parser_ = make_jsonl_parser({.arrival = kArrival, .prompt = kPrompt, .output = kOutput, .any_order = true});
    } else {
      parser_ = make_csv_parser(
          {.arrival = kArrival, .prompt = kPrompt, .output = kOutput, .from_first = true, .any_order = true});
    }
    return parser_->read_header(line, where);
  }

  bool parse(std::string_view line, TraceRecord& record, Rejection& rejection) override {
    if (!parser_->parse(line, record, rejection)) return false;
    if (record.output_tokens != 0 || failed_ == OnFailed::error) return true;
    rejection.reason = SkipReason::failed;
    return false;
  }

  TraceColumns columns() const override { return parser_ ? parser_->columns() : TraceColumns{}; }
  bool wall_clock() const override { return true; }
  bool any_order() const override { return true; }

 private:
  OnFailed failed_;
  std::unique_ptr<LineParser> parser_;
};

}  // namespace

Format vllm_log() {
  return {"vllm_log", "Log of a vLLM run (CSV or JSON lines: arrived_at, num_prefill_tokens, num_decode_tokens).",
          [](std::string_view line) {
            return has_columns(line, {"num_prefill_tokens", "num_decode_tokens", "first_token_at"}) ||
                   has_columns(line, {"arrival_time", "num_prompt_tokens", "num_generation_tokens"}) ||
                   has_key(line, "first_token_at") || has_key(line, "num_generation_tokens");
          },
          [](const TraceParams& params) { return std::make_unique<VllmLog>(params.failed); }};
}

}  // namespace orrery::traces::formats
