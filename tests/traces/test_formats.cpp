// Every format on small literal files.
#include "support.hpp"

namespace test_formats {

using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {
using Texts = std::vector<std::string>;
}

TEST_CASE("azure_llm counts from its first request, across midnight and months", "[unit]") {
  const Scratch scratch;
  const std::string path = scratch.file("t.csv",
                                        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                                        "2023-11-30 23:59:59.5000000,374,44\r\n"
                                        "2023-11-30 23:59:59.5000000,396,109\r\n"
                                        "2023-12-01 00:00:01.0000001,879,55");
  // 0; the same time again; 0.5 s to midnight and 1.0000001 s after it.
  const auto records = read_all({.path = path, .format = "azure_llm"});
  CHECK(short_form(records) == Texts{"0/374/44", "0/396/109", "1500000100/879/55"});
  CHECK(records[0].line == 2);
  CHECK(records[2].line == 4);
}

TEST_CASE("vidur reads integers, decimals and files without arrivals", "[unit]") {
  const Scratch scratch;
  CHECK(short_form(read_all({.path = scratch.file("a",
                                                  "arrived_at,num_prefill_tokens,num_decode_tokens\n"
                                                  "0.0,374,44\n4.314579,396.0,109.0\n4.541877000000001,879,55\n")})) ==
        Texts{"0/374/44", "4314579000/396/109", "4541877000/879/55"});
  const TraceParams bare{.path = scratch.file("b",
                                              "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
                                              "3772,54,3826,69.85185185185185\n2015,156,2171,12.9\n")};
  const auto source = open_trace(bare, all_formats());
  CHECK_FALSE(source->columns().arrivals);
  CHECK(short_form(read_all(*source)) == Texts{"0/3772/54", "0/2015/156"});
  CHECK(fault_of([&] { require_arrivals(*source, bare.path); }) ==
        bare.path + ": the trace has no column of arrivals (give arrivals from a generator: workload.arrivals)");
}

TEST_CASE("columns are found by name in any order", "[unit]") {
  const Scratch scratch;
  CHECK(short_form(read_all({.path = scratch.file("a",
                                                  "x, num_decode_tokens ,arrived_at,num_prefill_tokens\n"
                                                  "\"a, \"\"b\"\"\",44,1.5,374\n")})) == Texts{"1500000000/374/44"});
}

TEST_CASE("mooncake reads milliseconds and prefix blocks", "[unit]") {
  const Scratch scratch;
  const auto records = read_all(
      {.path = scratch.file(
           "t",
           R"({"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]})"
           "\n\n"
           R"({"hash_ids": [], "output_length": 1, "more": {"a": [1, {"b": 2}]}, "input_length": 7, "timestamp": 3052.5})"
           "\n"
           R"({"timestamp": 3053, "input_length": 7, "output_length": 2})")});
  CHECK(short_form(records) == Texts{"0/6758/500", "3052500000/7/1", "3053000000/7/2"});
  CHECK(records[0].prefix_blocks == std::vector<std::int64_t>{0, 1, 2});
  CHECK(records[1].prefix_blocks.empty());
  CHECK(records[2].line == 4);  // the blank line counts as a line
}

TEST_CASE("burstgpt reads parts with and without sessions and leaves failed requests out", "[unit]") {
  const Scratch scratch;
  const std::string first = scratch.file("a",
                                         "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                                         "5,ChatGPT,472,18,490,Conversation log\n"
                                         "45,ChatGPT,1087,0,1087,Conversation log\n"
                                         "46,GPT-4,0,0,0,Conversation log\n"
                                         "118,GPT-4,417,276,693,API log\n");
  const auto source = open_trace({.path = first}, all_formats());
  CHECK(short_form(read_all(*source)) == Texts{"5000000000/472/18", "118000000000/417/276"});
  CHECK(source->skipped().of(SkipReason::failed) == 2);
  CHECK(source->skipped().text() == "2 failed");
  CHECK(fault_of({.path = first, .failed = OnFailed::error}) ==
        first +
            ":3: output tokens: expected 1 to 1000000000, got 0 (set on_error to \"skip\" to leave such lines out)");

  // Sent, they cost a prompt; one without a prompt never was anything.
  const auto sent = open_trace({.path = first, .failed = OnFailed::send}, all_formats());
  CHECK(short_form(read_all(*sent)) == Texts{"5000000000/472/18", "45000000000/1087/1", "118000000000/417/276"});
  CHECK(sent->skipped().of(SkipReason::failed) == 1);

  const auto records =
      read_all({.path = scratch.file(
                    "b",
                    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                    "5.25,17,3.1,ChatGPT,472,18,490,Conversation log\n"
                    "6,,1.0,ChatGPT,10,20,30,Conversation log\n")});
  CHECK(short_form(records) == Texts{"5250000000/472/18", "6000000000/10/20"});
  CHECK(records[0].session == "17");
  CHECK(records[1].session.empty());
}

TEST_CASE("orrery formats read all they may hold", "[unit]") {
  const Scratch scratch;
  const auto rows = read_all({.path = scratch.file("a",
                                                   "arrived_s,prompt_tokens,output_tokens,session\n"
                                                   "0.5,3,4,\"a,\"\"b\"\"\"\n1,5,6,\n")});
  CHECK(short_form(rows) == Texts{"500000000/3/4", "1000000000/5/6"});
  CHECK(rows[0].session == "a,\"b\"");
  CHECK(rows[1].session.empty());
  const auto objects = read_all(
      {.path = scratch.file(
           "b",
           R"({"arrived_s": 0.000000001, "prompt_tokens": 3, "output_tokens": 4.0, "session": "a\"\u00e9", "prefix_blocks": [7]})"
           "\n"
           R"({"arrived_s": 1e1, "prompt_tokens": 3, "output_tokens": 4, "session": 12})"
           "\n"
           R"({"arrived_s": 11, "prompt_tokens": 3, "output_tokens": 4, "session": null})"
           "\n")});
  CHECK(short_form(objects) == Texts{"1/3/4", "10000000000/3/4", "11000000000/3/4"});
  CHECK(objects[0].session == "a\"\xc3\xa9");
  CHECK(objects[0].prefix_blocks == std::vector<std::int64_t>{7});
  CHECK(objects[1].session == "12");
  CHECK(objects[2].session.empty());
}

TEST_CASE("each format reads gzip and zstd", "[unit]") {
  const Scratch scratch;
  const std::string csv = "arrived_s,prompt_tokens,output_tokens\n0,1,2\n1,3,4\n";
  const std::string jsonl = "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 2}\n";
  CHECK(read_all({.path = scratch.file("a", gzip(csv))}).size() == 2);
  CHECK(read_all({.path = scratch.file("b", zstd(csv))}).size() == 2);
  CHECK(read_all({.path = scratch.file("c", gzip(jsonl))}).size() == 1);
  CHECK(read_all({.path = scratch.file("d", zstd(jsonl))}).size() == 1);
}

TEST_CASE("the format is told by the first line, and a given one wins", "[unit]") {
  const FormatTable formats = all_formats();
  const auto guess = [&](std::string_view line) {
    return formats.guess(line) != nullptr ? formats.guess(line)->name : "none";
  };
  CHECK(guess("TIMESTAMP,ContextTokens,GeneratedTokens") == "azure_llm");
  CHECK(guess("num_prefill_tokens,num_decode_tokens") == "vidur");
  CHECK(guess(R"({"timestamp":0,"input_length":1,"output_length":2})") == "mooncake");
  CHECK(guess("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type") == "burstgpt");
  CHECK(guess("arrived_s,prompt_tokens,output_tokens") == "orrery_csv");
  CHECK(guess(R"({"arrived_s":0,"prompt_tokens":1,"output_tokens":2})") == "orrery_jsonl");
  CHECK(guess("a,b,c") == "none");
  CHECK(formats.names() ==
        Texts{"azure_llm", "burstgpt", "mooncake", "orrery_csv", "orrery_jsonl", "vidur", "vllm_log"});

  const Scratch scratch;
  const std::string both =
      scratch.file("t", "prompt_tokens,output_tokens,num_prefill_tokens,num_decode_tokens\n2,3,4,5\n");
  CHECK(short_form(read_all({.path = both, .format = "orrery_csv"})) == Texts{"0/2/3"});
  CHECK(short_form(read_all({.path = both, .format = "vidur"})) == Texts{"0/4/5"});
}

TEST_CASE("vllm_log sorts by arrival, counts from the first and leaves measured times alone", "[unit]") {
  const Scratch scratch;
  // By the time of their ends; the origin is the server's clock.
  const std::string log = scratch.file(
      "a",
      "request,arrived_at,num_prefill_tokens,num_decode_tokens,queued_at,scheduled_at,first_token_at,last_token_at\n"
      "r1,100.25,20,3,100.3,100.3,101,102\n"
      "r0,100,10,5,100.1,100.1,101,103\n"
      "r2,101,30,0,101,101,,\n");
  const auto source = open_trace({.path = log}, all_formats());
  CHECK(short_form(read_all(*source)) == Texts{"0/10/5", "250000000/20/3"});
  CHECK(source->skipped().of(SkipReason::failed) == 1);
  CHECK(
      short_form(read_all(
          {.path = scratch.file("b", R"({"arrival_time": 7.5, "num_prompt_tokens": 4, "num_generation_tokens": 2})"
                                     "\n"
                                     R"({"num_generation_tokens": 1, "arrival_time": 7, "num_prompt_tokens": 3})")})) ==
      Texts{"0/3/1", "500000000/4/2"});
  CHECK(fault_of({.path = scratch.file("c", "arrived_at,num_prefill_tokens\n1,2\n"), .format = "vllm_log"}) ==
        scratch.path("c") + ":1: missing column 'num_decode_tokens' (known: arrived_at, num_prefill_tokens)");
}

}  // namespace test_formats
