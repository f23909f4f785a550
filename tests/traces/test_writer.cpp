// Writing traces and reading them back; the summary of a trace.
#include <filesystem>

#include "support.hpp"
#include "traces/summary.hpp"
#include "traces/writer.hpp"

namespace test_writer {

using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

constexpr const char* kJsonl =
    "{\"arrived_s\": 0, \"prompt_tokens\": 3, \"output_tokens\": 4}\n"
    "{\"arrived_s\": 0.000000001, \"prompt_tokens\": 5, \"output_tokens\": 6, \"session\": \"a,\\\"b\\\"\", "
    "\"priority\": -2, "
    "\"tenant\": 7, \"predicted_tokens\": 9}\n"
    "{\"arrived_s\": 2.5, \"prompt_tokens\": 7, \"output_tokens\": 8, \"prefix_blocks\": [1, 20]}\n";

}  // namespace

TEST_CASE("what is written is read back, byte for byte and record for record", "[unit][prop]") {
  const Scratch scratch;
  const std::string first = scratch.file("a.jsonl", kJsonl);
  const WrittenTrace written =
      write_trace(*open_trace({.path = first}, all_formats()), "orrery_jsonl", scratch.path("b.jsonl"));
  CHECK(written.records == 3);
  CHECK(read_bytes(scratch.path("b.jsonl")) == kJsonl);

  const WrittenTrace table =
      write_trace(*open_trace({.path = first}, all_formats()), "orrery_csv", scratch.path("c.csv"));
  CHECK(table.records == 3);
  CHECK(read_bytes(scratch.path("c.csv")) ==
        "arrived_s,prompt_tokens,output_tokens,session,prefix_blocks,priority,tenant,predicted_tokens\n"
        "0,3,4,,,0,0,0\n0.000000001,5,6,\"a,\"\"b\"\"\",,-2,7,9\n2.5,7,8,,1 20,0,0,0\n");
  const auto back = read_all({.path = scratch.path("c.csv")});
  CHECK(back[1].session == "a,\"b\"");
  CHECK(back[1].priority == -2);
  CHECK(back[1].tenant == 7);
  CHECK(back[1].predicted_tokens == 9);
  CHECK(back[2].prefix_blocks == std::vector<std::int64_t>{1, 20});
  CHECK(short_form(back) == short_form(read_all({.path = first})));
  CHECK_FALSE(std::filesystem::exists(scratch.path("c.csv.partial")));
}

TEST_CASE("length-only traces stay so in CSV and are no JSONL", "[unit]") {
  const Scratch scratch;
  const TraceParams bare{.path = scratch.file("t", "num_prefill_tokens,num_decode_tokens\n10,1\n")};
  write_trace(*open_trace(bare, all_formats()), "orrery_csv", scratch.path("u.csv"));
  CHECK(read_bytes(scratch.path("u.csv")) == "prompt_tokens,output_tokens\n10,1\n");
  CHECK(fault_of([&] { write_trace(*open_trace(bare, all_formats()), "orrery_jsonl", scratch.path("u.jsonl")); }) ==
        "trace: the trace has no arrivals, which orrery_jsonl needs (write orrery_csv, or re-time it)");
}

TEST_CASE("a write that fails leaves no file", "[unit]") {
  const Scratch scratch;
  const TraceParams faulty{.path = scratch.file("t", "prompt_tokens,output_tokens\n10,1\n0,0\n")};
  CHECK_THAT(fault_of([&] { write_trace(*open_trace(faulty, all_formats()), "orrery_csv", scratch.path("u.csv")); }),
             Catch::Contains(":3: prompt tokens"));
  CHECK_FALSE(std::filesystem::exists(scratch.path("u.csv")));
  CHECK_FALSE(std::filesystem::exists(scratch.path("u.csv.partial")));
  CHECK(fault_of([&] { write_trace(*open_trace(faulty, all_formats()), "orrery_cvs", scratch.path("u.csv")); }) ==
        "trace: cannot write trace format 'orrery_cvs' (did you mean 'orrery_csv'?)");
  const std::string nowhere = scratch.path("none/u.csv");
  CHECK(fault_of([&] { write_trace(*open_trace(faulty, all_formats()), "orrery_csv", nowhere); }) ==
        nowhere + ": cannot write the trace: No such file or directory");
}

TEST_CASE("a summary tells count, span, rate, spread and lengths", "[unit]") {
  const Scratch scratch;
  const std::string path =
      scratch.file("t", "arrived_s,prompt_tokens,output_tokens,session\n1,10,1,a\n2,20,1,\n4,30,1,a\n34\n");
  const TraceSummary s = inspect(*open_trace({.path = path, .on_error = OnError::skip}, all_formats()));
  CHECK(s.requests == 3);
  CHECK(s.skipped.total() == 1);
  CHECK(s.first_s == Approx(1));
  CHECK(s.span_s == Approx(3));
  CHECK(s.rate_per_s == Approx(2.0 / 3));
  CHECK(s.gap_cv == Approx(std::sqrt(0.5) / 1.5));  // gaps 1 and 2: mean 1.5, variance 1/2
  CHECK(s.prompt.mean == Approx(20));
  CHECK(s.prompt.p50 == Approx(20));
  CHECK(s.prompt.p90 == Approx(28));  // rank 1.8: between 20 and 30
  CHECK(s.prompt.max == 30);
  CHECK(s.total.max == 31);
  CHECK(s.sessions_named == 2);
  const TraceSummary one = inspect(
      *open_trace({.path = scratch.file("o", "arrived_s,prompt_tokens,output_tokens\n5,1,2\n")}, all_formats()));
  CHECK(one.rate_per_s == 0);
  CHECK(one.gap_cv == 0);
}

}  // namespace test_writer
