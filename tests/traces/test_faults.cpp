// Faulty traces: what is said, where, and what skipping counts.
#include "support.hpp"

namespace test_faults {

using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

constexpr const char* kHint = " (set on_error to \"skip\" to leave such lines out)";
constexpr const char* kHeader = "arrived_at,num_prefill_tokens,num_decode_tokens\n";

struct Case {
  std::string lines;
  std::string message;  // after "PATH:"
};

void check_faults(std::string_view header, const std::vector<Case>& cases) {
  const Scratch scratch;
  for (const Case& c : cases) {
    const std::string path = scratch.file("t", std::string(header) + c.lines);
    CHECK(fault_of({.path = path}) == path + ":" + c.message);
  }
}

}  // namespace

TEST_CASE("faulty CSV lines name file, line, column and value", "[unit]") {
  check_faults(
      kHeader,
      {
          {"0,10,20\n1,abc,20\n",
           std::string("3: num_prefill_tokens: expected a whole number of tokens, got 'abc'") + kHint},
          {"0,10.5,20\n", std::string("2: num_prefill_tokens: expected a whole number of tokens, got '10.5'") + kHint},
          {"0,10,\n", std::string("2: num_decode_tokens: expected a whole number of tokens, got ''") + kHint},
          {"0,10,nan\n", std::string("2: num_decode_tokens: expected a whole number of tokens, got 'nan'") + kHint},
          {"0,99999999999999999999,1\n",
           std::string("2: num_prefill_tokens: expected a whole number of tokens, got '99999999999999999999'") + kHint},
          {"0,0,20\n", std::string("2: prompt tokens: expected 1 to 1000000000, got 0") + kHint},
          {"0,10,-3\n", std::string("2: output tokens: expected 1 to 1000000000, got -3") + kHint},
          {"0,10,2000000000\n", std::string("2: output tokens: expected 1 to 1000000000, got 2000000000") + kHint},
          {"NaN,10,20\n", std::string("2: arrived_at: expected a number of seconds, got 'NaN'") + kHint},
          {"1e30,10,20\n", std::string("2: arrived_at: expected a number of seconds, got '1e30'") + kHint},
          {"-0.5,10,20\n", std::string("2: arrival: expected >= 0 s, got -0.5 s") + kHint},
          {"0,10,20\n34",
           "3: expected 3 fields (arrived_at, num_prefill_tokens, num_decode_tokens), got 1 (a stray line, or one "
           "cut off; set on_error to \"skip\" to leave such lines out)"},
          {"0,10,20,5\n",
           "2: expected 3 fields (arrived_at, num_prefill_tokens, num_decode_tokens), got 4 (a stray line, or one "
           "cut off; set on_error to \"skip\" to leave such lines out)"},
          {"2,10,20\n\n1.5,10,20\n",
           "4: trace out of order: this request arrives at 1.5 s, the one before it at 2 s (sort the trace by arrival, "
           "or set "
           "on_error to \"skip\" to leave such lines out)"},
      });
  check_faults(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n",
      {
          {"2023-02-30 00:00:00,1,2\n",
           std::string("2: TIMESTAMP: expected a time such as 2023-11-16 18:15:46.68, got '2023-02-30 00:00:00'") +
               kHint},
          {"2023-02-03 00:00:02,1,2\n2023-02-03 00:00:01,1,2\n",
           "3: trace out of order: this request arrives at -1 s, the one before it at 0 s (sort the trace by arrival, "
           "or set "
           "on_error to \"skip\" to leave such lines out)"},
      });
}

TEST_CASE("faulty JSON lines name file, line, key and value", "[unit]") {
  const std::string good = R"({"timestamp": 5, "input_length": 1, "output_length": 2})"
                           "\n";
  check_faults(
      good,
      {
          {R"({"timestamp": 5, "input_lenght": 1, "output_length": 2})",
           "2: missing key 'input_length' (did you mean 'input_lenght'?)"},
          {R"({"timestamp": "5", "input_length": 1, "output_length": 2})",
           std::string("2: timestamp: expected a number, got '\"5\"'") + kHint},
          {R"({"timestamp": 5, "input_length": 1.5, "output_length": 2})",
           std::string("2: input_length: expected a whole number of tokens, got '1.5'") + kHint},
          {R"({"timestamp": 5, "input_length": null, "output_length": 2})",
           std::string("2: input_length: expected a whole number of tokens, got 'null'") + kHint},
          {R"({"timestamp": 5, "input_length": 1, "output_length": 2, "hash_ids": [1, "x"]})",
           std::string("2: hash_ids: expected an array of whole numbers, got '\"x\"'") + kHint},
          {R"({"timestamp": 4, "input_length": 1, "output_length": 2})",
           "2: trace out of order: this request arrives at 0.004 s, the one before it at 0.005 s (sort the trace by "
           "arrival, or "
           "set on_error to \"skip\" to leave such lines out)"},
          {R"({"timestamp": 5, "input_length": 1, "output_length": 2} {})",
           std::string(
               R"(2: expected one JSON object, got more in '{"timestamp": 5, "input_length": 1, "output_length": 2} {}')") +
               kHint},
      });
  const Scratch scratch;
  for (const char* bad : {"34", "[1]", "{", R"({"timestamp": 5, "input_length": 1, "output_length": 2)", "{\"a\" 1}",
                          "x", "\"\xff\"", R"({"timestamp": 05, "input_length": 1, "output_length": 2})",
                          R"({"timestamp": 5x, "input_length": 1, "output_length": 2})"}) {
    const std::string path = scratch.file("t", good + bad);
    CHECK_THAT(fault_of({.path = path}), Catch::StartsWith(path + ":2: "));
  }
}

TEST_CASE("on_error skip counts what it leaves out, by reason", "[unit]") {
  const Scratch scratch;
  const std::string path = scratch.file("t", std::string(kHeader) +
                                                 "x,1,1\n"    // bad value
                                                 "0,10,20\n"  // kept
                                                 "5,0,20\n"   // bad value; its 5 s do not count for the order
                                                 "2,10,20\n"  // kept
                                                 "1,10,20\n"  // out of order
                                                 "2,11,21\n"  // kept: equal times are in order
                                                 "34\n");     // malformed
  const auto source = open_trace({.path = path, .on_error = OnError::skip}, all_formats());
  CHECK(short_form(read_all(*source)) == std::vector<std::string>{"0/10/20", "2000000000/10/20", "2000000000/11/21"});
  CHECK(source->skipped().of(SkipReason::bad_value) == 2);
  CHECK(source->skipped().of(SkipReason::out_of_order) == 1);
  CHECK(source->skipped().of(SkipReason::malformed) == 1);
  CHECK(source->skipped().total() == 4);
  CHECK(source->skipped().text() == "1 malformed, 2 bad_value, 1 out_of_order");

  const std::string lines =
      scratch.file("j",
                   "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 2}\n{\"timest\nnull\n"
                   "{\"timestamp\": 1, \"input_length\": 3, \"output_length\": 4}\n");
  const auto json = open_trace({.path = lines, .on_error = OnError::skip}, all_formats());
  CHECK(short_form(read_all(*json)) == std::vector<std::string>{"0/1/2", "1000000/3/4"});
  CHECK(json->skipped().of(SkipReason::malformed) == 2);
}

TEST_CASE("a trace without a request is a fault", "[unit]") {
  const Scratch scratch;
  const auto text = [&](std::string_view content, OnError on_error = OnError::stop) {
    return fault_of({.path = scratch.file("t", content), .on_error = on_error});
  };
  const std::string none = scratch.path("t") + ": expected at least one request, got none";
  CHECK(text("") == none);
  CHECK(text("\n\n") == none);
  CHECK(text(kHeader) == none);
  CHECK(text(std::string(kHeader) + "34\n0,0,0\n", OnError::skip) ==
        none + " (lines left out: 1 malformed, 1 bad_value)");
}

TEST_CASE("headers and formats that do not fit are faults, whatever on_error says", "[unit]") {
  const Scratch scratch;
  const auto text = [&](std::string_view content, std::optional<std::string> format) {
    return fault_of({.path = scratch.file("t", content), .format = std::move(format), .on_error = OnError::skip});
  };
  const std::string path = scratch.path("t");
  CHECK(text("arrived_at,num_prefil_tokens,num_decode_tokens\n0,1,2\n", "vidur") ==
        path + ":1: missing column 'num_prefill_tokens' (did you mean 'num_prefil_tokens'?)");
  CHECK(text("arived_at,num_prefill_tokens,num_decode_tokens\n0,1,2\n", "vidur") ==
        path + ":1: missing column 'arrived_at' (did you mean 'arived_at'?)");
  CHECK(text("0,1,2\n", "azure_llm") == path + ":1: missing column 'ContextTokens' (known: 0, 1, 2)");
  CHECK(text("prompt_tokens,output_tokens,output_tokens\n1,2,3\n", "orrery_csv") ==
        path + ":1: column 'output_tokens' is there twice");
  CHECK(text("a,b\n1,2\n", std::nullopt) == path +
                                                ":1: no known trace format begins with 'a,b' (known: azure_llm, "
                                                "burstgpt, mooncake, orrery_csv, orrery_jsonl, vidur, vllm_log)");
  CHECK(text("a,b\n1,2\n", "vidor") == path + ": unknown trace format 'vidor' (did you mean 'vidur'?)");
  const std::string missing = scratch.path("none.csv");
  CHECK(fault_of({.path = missing}) == missing + ": cannot read the trace: No such file or directory");
}

TEST_CASE("workload.trace is read from a config", "[unit]") {
  const auto parse = [](std::string_view json, orrery::sim::Faults& faults) {
    return parse_trace(orrery::sim::parse_json(json, "/conf/run.json"), all_formats(), faults);
  };
  orrery::sim::Faults none;
  const TraceParams params =
      parse(R"({"path": "a/t.csv", "format": "vidur", "on_error": "skip", "failed": "error"})", none);
  CHECK(none.empty());
  CHECK(params.path == "/conf/a/t.csv");
  CHECK(params.format == "vidur");
  CHECK(params.on_error == OnError::skip);
  CHECK(params.failed == OnFailed::error);
  orrery::sim::Faults faults;
  parse(R"({"format": "vidor", "on_error": "skp"})", faults);
  CHECK(fault_of([&] { faults.throw_if_any(); }) ==
        "/conf/run.json:/path: missing: expected a string\n"
        "/conf/run.json:/on_error: expected one of stop, skip, got \"skp\" (did you mean 'skip'?)\n"
        "/conf/run.json:/format: unknown trace format 'vidor' (did you mean 'vidur'?)");
}

}  // namespace test_faults
