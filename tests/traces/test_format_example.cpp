// The example of docs/explain/extending.md: a trace format of one's own.
#include "traces/csv.hpp"

#include <catch2/catch.hpp>

#include "tests/traces/support.hpp"

namespace test_format_example {

using namespace orrery;
using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

Format gateway_log() {
  static constexpr CsvFormat kColumns{.arrival = "t", .prompt = "tokens_in", .output = "tokens_out"};
  return {"gateway_log", "Log of our gateway (CSV: t, tokens_in, tokens_out)",
          [](std::string_view line) {
            return has_columns(line, {"tokens_in", "tokens_out"});
          },
          [](const TraceParams&) { return make_csv_parser(kColumns); }};
}

}  // namespace

TEST_CASE("a format of one's own is found by its first line, and read", "[unit]") {
  FormatTable formats = all_formats();
  formats.add(gateway_log());
  const Scratch scratch;
  const std::string path = scratch.file("log.csv", "t,tokens_in,tokens_out\n0.5,10,3\n1.25,20,4\n");
  CHECK(formats.guess("t,tokens_in,tokens_out")->name == "gateway_log");
  const auto source = open_trace({.path = path}, formats);
  // 0.5 s and 1.25 s in ns.
  CHECK(short_form(read_all(*source)) == std::vector<std::string>{"500000000/10/3", "1250000000/20/4"});
}

TEST_CASE("a format of one's own says what is wrong with a line as the others do", "[unit]") {
  FormatTable formats = all_formats();
  formats.add(gateway_log());
  const Scratch scratch;
  const std::string path = scratch.file("log.csv", "t,tokens_in,tokens_out\n0.5,ten,3\n");
  const std::string fault = fault_of([&] { read_all(*open_trace({.path = path}, formats)); });
  CHECK_THAT(fault, Catch::Contains("log.csv:2: tokens_in: expected a whole number of tokens, got 'ten'"));
}

}  // namespace test_format_example
